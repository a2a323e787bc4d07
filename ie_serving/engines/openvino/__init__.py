"""OpenVINO: reads IR, ONNX, SavedModels and TensorFlow Lite, and compiles what it has read.

`import openvino` also imports its converter of other frameworks' models, where that is installed.
Nothing here uses it: OpenVINO's own readers read every format. It costs two thirds of the import's
time and 16 MB, and brings `openvino_telemetry`, which may report each import to its makers. So it
is kept out of processes of this package: what is None in `sys.modules` cannot be imported, for
which `openvino` is prepared. Source: Python's documentation of the import system.
"""

import sys

sys.modules.setdefault("openvino.tools.ovc", None)  # type: ignore[arg-type]
