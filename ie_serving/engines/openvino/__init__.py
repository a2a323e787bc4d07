"""The OpenVINO engine: reads IR, ONNX, SavedModels and TensorFlow Lite, and compiles them.

`import openvino` also imports its converter of other frameworks' models, where that is installed.
This package does not use the converter: OpenVINO's own readers read every format. The converter
costs two thirds of the import's time and 16 MB, and imports `openvino_telemetry`, which may report
each import to its makers. So its import is blocked by None in `sys.modules`, for which `openvino`
is prepared. Source: Python's documentation of the import system.
"""

import sys

sys.modules.setdefault("openvino.tools.ovc", None)  # type: ignore[arg-type]
