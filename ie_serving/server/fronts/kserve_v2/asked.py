"""Which servable a request of the Open Inference Protocol means, over either interface."""

from typing import Final

from ie_serving.core.errors import NotFound
from ie_serving.core.integers import INT64_MAX
from ie_serving.core.requests import ModelSpec

_DIGITS: Final = len(str(INT64_MAX))


def model_spec(name: str, version: str) -> ModelSpec:
    """Read a version, which is a string in the protocol.

    Args:
        name: of the model.
        version: a number, or a label; empty for the default version.

    Raises:
        NotFound: the number is none of a version.
    """
    if not version:
        return ModelSpec(name)
    if not (version.isascii() and version.isdecimal()):
        return ModelSpec(name, label=version)
    # More digits are not read: int() of very many is slow.
    number = int(version) if len(version.lstrip("0")) <= _DIGITS else INT64_MAX + 1
    if number > INT64_MAX:
        raise NotFound(f"version {version[:40]} of {name!r} does not fit into 64 bits")
    return ModelSpec(name, number)
