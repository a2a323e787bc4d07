"""Users' code gets OpenVINO's converter, which the server does not import for itself."""

import subprocess
import sys

USES = (
    "openvino.convert_model",
    "from openvino import convert_model",
    "import openvino.tools.ovc",
    "from openvino.tools.ovc import convert_model",
)
PROGRAM = f"""
import os, sys
import ie_serving.engines.openvino
import openvino
assert not hasattr(openvino, "convert_model")
from ie_serving.engines.python import opening
opening.allow_converter()
opening.allow_converter()
assert not hasattr(openvino, "nothing")
assert "openvino.tools.ovc" not in sys.modules
for use in {USES}:
    if not os.fork():
        exec(use)
        sys.exit("openvino.tools.ovc" not in sys.modules)
    assert os.wait()[1] == 0, use
"""


def test_it_is_imported_when_it_is_asked_for_and_nothing_else_is_there() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=120)
