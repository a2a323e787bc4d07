"""Lets users' code have OpenVINO's converter of models, which `engines/openvino` keeps out."""

import sys
from typing import Final

CONVERTER: Final = "openvino.tools.ovc"
FUNCTION: Final = "convert_model"


def allow() -> None:
    """Let the converter be imported, when users' code first asks for it."""
    if sys.modules.get(CONVERTER, sys) is not None:  # it is there, or nothing keeps it out
        return
    del sys.modules[CONVERTER]
    if (openvino := sys.modules.get("openvino")) is not None:
        vars(openvino)["__getattr__"] = _of_openvino


def _of_openvino(name: str) -> object:
    """Give what `openvino` takes from its converter, when it is there. Source: PEP 562."""
    if name != FUNCTION:
        raise AttributeError(f"module 'openvino' has no attribute {name!r}")
    import openvino
    from openvino.tools.ovc import convert_model

    vars(openvino)[FUNCTION] = convert_model
    return convert_model
