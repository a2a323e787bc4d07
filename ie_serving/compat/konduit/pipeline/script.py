"""Konduit's PythonStep: a script that runs for each request, with the inputs as its variables.

The script is compiled once, and its import code run once. Each request has variables of its own,
beside those of the import code: nothing that one request sets is seen by the next.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, Final

import numpy as np

from ie_serving.compat.konduit.data import Data, Image, written
from ie_serving.core.values.errors import InvalidRequest, LoadFailed, ServingError
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

_KEYS: Final = frozenset(
    {
        *("pythonCode", "pythonCodePath", "importCode", "importCodePath", "ioInputs", "ioOutputs"),
        # Konduit's runtime does not read these, either.
        *("returnAllInputs", "setupAndRun", "jobSuffix"),
        *("pythonInputs", "pythonOutputs", "extraInputs"),
        *("pythonPath", "environmentName", "appendType", "pythonPathResolution"),
        *("pythonConfigType", "pythonLibrariesPath"),
    }
)
_OF_THIS_SERVER: Final = ("JAVACPP", "PYTHON", "STATIC")
"""`pythonConfigType` of scripts that the server's own Python can run."""
_OF_OTHERS: Final = ("CONDA", "VENV", "CUSTOM")
"""Types of scripts that had a Python of their own, whose libraries this one may have as well."""

CHANNELS: Final = 3
"""Channels of pictures written as PNG for a script: red, green, blue."""


@dataclass(frozen=True)
class Variable:
    """One input or output of a script.

    Attributes:
        key: name in the data.
        name: name of the variable.
        python: its type in the script, as Konduit names it.
        kind: its type in the data.
    """

    key: str
    name: str
    python: str
    kind: str


class Script:
    """A PythonStep.

    Args of the constructor:
        given: its `pythonConfig`.

    Raises:
        LoadFailed: the configuration is at fault.
        Exception: whatever the import code raises.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        given = {key: value for key, value in given.items() if value not in (None, {}, "")}
        _check(given)
        self._inputs = _variables(given, "ioInputs")
        self._outputs = _variables(given, "ioOutputs")
        self._code = _compiled(given, "pythonCode")
        if self._code is None:
            raise LoadFailed("pythonConfig: expected pythonCode, or pythonCodePath")
        self._imported: dict[str, Any] = {}
        imports = _compiled(given, "importCode")
        if imports is not None:
            exec(imports, self._imported)

    def __call__(self, data: Data) -> Data:
        """Run it. Raises: InvalidRequest, ServingError, and whatever the script raises."""
        unknown = sorted(data.keys() - self._inputs.keys())
        if unknown:
            known = ", ".join(self._inputs) or "none"
            raise InvalidRequest(f'"{unknown[0]}" is no input of the script; ioInputs has {known}')
        missing = [key for key in self._inputs if key not in data]
        if missing:
            raise InvalidRequest(
                f'input "{missing[0]}" is missing; expected it, as ioInputs declares it'
            )
        variables = {
            each.name: _variable_value(data[key], each) for key, each in self._inputs.items()
        }
        space = {**self._imported, **variables}
        assert self._code is not None  # the constructor has looked
        exec(self._code, space)
        return {key: _script_output(space, each) for key, each in self._outputs.items()}


def _check(given: Mapping[str, Any]) -> None:
    unknown = sorted(given.keys() - _KEYS)
    if unknown:
        raise LoadFailed(f"pythonConfig: {unknown[0]} is not supported: remove it")
    kind = str(given.get("pythonConfigType", _OF_THIS_SERVER[0]))
    if kind.upper() in _OF_OTHERS:
        cause = (
            f"pythonConfigType is {kind}: the server's own Python runs scripts; install in it what"
            " they import"
        )
        log.warning(Event("option without effect", model="pipeline", cause=cause))
    elif kind.upper() not in _OF_THIS_SERVER:
        known = ", ".join((*_OF_THIS_SERVER, *_OF_OTHERS))
        raise LoadFailed(f"pythonConfigType is {kind}; expected {known}")


def _compiled(given: Mapping[str, Any], key: str) -> CodeType | None:
    """Compile a script that is given, or the file that holds it; None where there is neither."""
    text, path = given.get(key), given.get(f"{key}Path")
    if text is None and path is None:
        return None
    try:
        source = Path(path).read_text("utf-8") if text is None else str(text)  # type: ignore[arg-type]
        return compile(source, str(path or f"<{key}>"), "exec")
    except OSError as error:
        raise LoadFailed(
            f"pythonConfig: {key}Path: {path} cannot be read: {error.strerror}"
        ) from error


def _variables(given: Mapping[str, Any], key: str) -> dict[str, Variable]:
    return {
        name: _variable(name, each, f"{key}.{name}") for name, each in given.get(key, {}).items()
    }


def _variable(key: str, given: Any, place: str) -> Variable:  # noqa: ANN401 (whatever JSON has)
    given = given if isinstance(given, Mapping) else {}
    python = str(given.get("pythonType", "")).removeprefix("builtins.")
    kind = str(given.get("type") or KINDS_OF.get(python, ""))
    if python not in TAKEN:
        known = ", ".join(TAKEN)
        raise LoadFailed(f"pythonConfig: {place}: pythonType is {python!r}; expected {known}")
    if python == "list" and not given.get("secondaryType"):
        raise LoadFailed(f"pythonConfig: {place}: a list needs a secondaryType, such as INT64")
    if python == "dict" and kind not in ("POINT", "BOUNDING_BOX", "DATA"):
        raise LoadFailed(f"pythonConfig: {place}: type of a dict: expected POINT or BOUNDING_BOX")
    if kind not in GIVEN:
        raise LoadFailed(f"pythonConfig: {place}: type is {kind!r}; expected {', '.join(GIVEN)}")
    return Variable(key, str(given.get("name") or key), python, kind)


# -- values of the data as variables ------------------------------------------------------------


def _text(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):  # nested data
        return json.dumps(written(value, ""))
    raise TypeError


def _raw(value: Any) -> bytes:  # noqa: ANN401
    if isinstance(value, Image):
        return value.data if value.format == "PNG" else _png(value.data)
    if isinstance(value, bytes):
        return value
    raise TypeError


def _png(data: bytes) -> bytes:
    from ie_serving.wire.image import (
        decode,  # here: few scripts take pictures
        encoded,
    )

    return encoded(decode(data, CHANNELS), "png")


def _number(value: Any) -> float:  # noqa: ANN401
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _integer(value: Any) -> int:  # noqa: ANN401
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _exactly(kind: Any) -> Callable[[Any], Any]:  # noqa: ANN401 (a type, or several)
    def taken(value: Any) -> Any:  # noqa: ANN401
        if not isinstance(value, kind):
            raise TypeError
        return value

    return taken


def _numbers(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, str | bytes | Mapping | Image) or value is None:
        raise TypeError
    array = np.array(value)  # a copy, which the script may change
    if array.dtype.kind == "O":  # such as a list of objects
        raise TypeError
    return array


TAKEN: Mapping[str, Callable[[Any], Any]] = {
    "numpy.ndarray": _numbers,
    "str": _text,
    "int": _integer,
    "float": _number,
    "bool": _exactly(bool),
    "bytes": _raw,
    "image": _raw,  # a script decodes the file
    "list": _exactly(list),
    "dict": _exactly(dict),
}
"""Functions that make a variable of a value of the data, by `pythonType`."""

KINDS_OF: Mapping[str, str] = {
    "numpy.ndarray": "NDARRAY",
    "str": "STRING",
    "int": "INT64",
    "float": "DOUBLE",
    "bool": "BOOLEAN",
    "bytes": "BYTES",
    "image": "IMAGE",
    "list": "LIST",
    "dict": "DATA",
}
"""The type in the data where none is said."""


def _variable_value(value: Any, variable: Variable) -> Any:  # noqa: ANN401
    try:
        return TAKEN[variable.python](value)
    except (TypeError, ValueError, OverflowError):  # the last for an integer that is no float
        raise InvalidRequest(
            f'input "{variable.key}" is {type(value).__name__}; expected {variable.python}'
        ) from None


# -- variables as values of the data ------------------------------------------------------------


def _array(value: Any) -> Any:  # noqa: ANN401
    # numpy makes a bare number of an array without dimensions in the first sum.
    made = np.asarray(value)
    if made.dtype.kind not in "biuf":
        raise TypeError
    return made


def _scalar(kind: type, *from_: type) -> Callable[[Any], Any]:
    def given(value: Any) -> Any:  # noqa: ANN401
        plain = value.item() if isinstance(value, np.generic | np.ndarray) else value
        if not isinstance(plain, from_) or (isinstance(plain, bool) and bool not in from_):
            raise TypeError
        return kind(plain)

    return given


def _image(value: Any) -> Image:  # noqa: ANN401
    return Image("PNG", _exactly(bytes)(value))


def _data(value: Any) -> Any:  # noqa: ANN401
    return json.loads(value) if isinstance(value, str) else _exactly(dict)(value)


def _list(value: Any) -> list[Any]:  # noqa: ANN401
    return value.tolist() if isinstance(value, np.ndarray) else list(_exactly(list | tuple)(value))


GIVEN: Mapping[str, Callable[[Any], Any]] = {
    "NDARRAY": _array,
    "STRING": _scalar(str, str),
    "BYTES": _exactly(bytes),
    "BYTEBUFFER": _exactly(bytes),
    "IMAGE": _image,
    "INT64": _scalar(int, int),
    "DOUBLE": _scalar(float, float, int),
    "BOOLEAN": _scalar(bool, bool),
    "LIST": _list,
    "POINT": _exactly(dict),
    "BOUNDING_BOX": _exactly(dict),
    "DATA": _data,
}
"""Functions that make a value of a variable, by the type in the data."""


def _script_output(space: Mapping[str, Any], variable: Variable) -> Any:  # noqa: ANN401
    if variable.name not in space:
        raise ServingError(
            f'the script sets no variable "{variable.name}", which ioOutputs declares:'
            " set it in the script, or leave it out of ioOutputs"
        )
    value = space[variable.name]
    try:
        return GIVEN[variable.kind](value)
    except (TypeError, ValueError):
        raise ServingError(
            f'output "{variable.key}" is {type(value).__name__}, and ioOutputs declares'
            f" {variable.kind}: change one of them"
        ) from None
