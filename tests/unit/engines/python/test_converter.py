"""Users' code gets OpenVINO's converter, which the server does not import for itself."""

import subprocess
import sys

import pytest

ALLOWED = """
import sys
import ie_serving.engines.openvino
import openvino
assert not hasattr(openvino, "convert_model")
from ie_serving.engines.python import opening
opening.allow_converter()
opening.allow_converter()
assert "openvino.tools.ovc" not in sys.modules
"""


@pytest.mark.parametrize(
    "use",
    [
        "openvino.convert_model",
        "from openvino import convert_model",
        "import openvino.tools.ovc",
        "from openvino.tools.ovc import convert_model",
    ],
)
def test_it_is_imported_when_it_is_asked_for(use: str) -> None:
    code = f"{ALLOWED}\n{use}\nassert 'openvino.tools.ovc' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_other_names_are_not_there() -> None:
    code = f"{ALLOWED}\nassert not hasattr(openvino, 'nothing')"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
