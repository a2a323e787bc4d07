"""Converts a kernel's return value to arrays of the dtypes and shapes that it declares."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.fit import admits
from ie_serving.core.values.tensors import (
    BY_NUMPY,
    Array,
    Arrays,
    DataType,
    Specs,
    TensorSpec,
    objects,
)


class WrongOutput(ServingError):
    """A kernel returned something else than it declared."""


def checked(kernel: str, given: object, specs: Specs) -> Arrays:
    """Give the outputs by name.

    Args:
        kernel: kernel named in errors.
        given: an object with all outputs; also a tuple of all, or the value of the only one.
        specs: the declared outputs.

    Raises:
        WrongOutput: naming the output, its actual and its declared form.
    """
    if (found := _as_declared(given, specs)) is not None:
        return found
    try:
        by_name = _by_name(given, specs)
        return {name: _array(by_name[name], spec) for name, spec in specs.items()}
    except WrongOutput as error:
        raise WrongOutput(f"kernel {kernel} {error}") from error.__cause__


def _as_declared(given: object, specs: Specs) -> dict[str, Array] | None:
    """Give numeric arrays that match the declaration exactly, the usual case; else None."""
    if type(given) is not dict or len(given) != len(specs):
        return None
    found: dict[str, Array] = {}
    for name, spec in specs.items():
        each = given.get(name)
        if type(each) is not np.ndarray or each.dtype is not spec.dtype.numpy:
            return None
        if spec.dtype is DataType.STRING or spec.json or not admits(spec.shape, each.shape):
            return None
        found[name] = each
    return found


def array_of(value: object) -> Array:
    """Give anything as requests bring it: numbers as they are, texts as objects of bytes."""
    array = np.asarray(value)
    return _texts(value) if array.dtype.kind in "USO" else array


def _by_name(given: object, specs: Specs) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        found: Mapping[str, Any] = given
    # A tuple is the value of a single output, as a list is.
    elif isinstance(given, tuple) and len(specs) > 1 and len(given) == len(specs):
        found = dict(zip(specs, given, strict=True))
    elif len(specs) == 1 and given is not None:
        found = dict.fromkeys(specs, given)
    else:
        raise WrongOutput(
            f"returned {_type_text(given)}; expected an object with {_quoted_names(specs)}"
        )
    if found.keys() != specs.keys():
        raise WrongOutput(
            f"returned {_quoted_names(found) or 'no output'}; it declares {_quoted_names(specs)}:"
            " return exactly these"
        )
    return found


def _quoted_names(names: Mapping[Any, object]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _type_text(given: object) -> str:
    return "nothing" if given is None else f"a {type(given).__name__}"


def _array(value: object, spec: TensorSpec) -> Array:
    try:
        array = _converted(value, spec)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        word = "JSON" if spec.json else spec.dtype.word
        raise WrongOutput(
            f"returned {_type_text(value)} that is no {word} as output {spec}: {error};"
            f" expected {word}"
        ) from error
    sizes = spec.shape
    if not admits(sizes, array.shape):
        raise WrongOutput(
            f"returned an array of shape {array.shape} as output {spec}; expected its shape"
        )
    return array


def _converted(value: object, spec: TensorSpec) -> Array:
    if spec.untyped:
        return np.asarray(value)
    if spec.json:
        return _json(value, spec)
    return _texts(value) if spec.dtype is DataType.STRING else _numbers(value, spec)


def _json(value: object, spec: TensorSpec) -> Array:
    """Write a value as JSON: one text, or one for each element where the output has rows."""
    if not spec.shape:
        return objects(iter([_json_text(value)]), ())
    if not isinstance(value, list | tuple | np.ndarray):
        raise TypeError(
            f"{type(value).__name__} has no rows; expected a list with a value for each"
        )
    return objects(map(_json_text, value), (len(value),))


def _json_text(value: object) -> bytes:
    # NaN and infinity are bare words in replies, as TensorFlow Serving writes them.
    return json.dumps(value, default=_json_value, ensure_ascii=False).encode("utf-8", "replace")


def _json_value(value: object) -> object:
    """Give a JSON value in place of a value that JSON does not have."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    raise TypeError(f"expected values of JSON, got {type(value).__name__}")


def _numbers(value: object, spec: TensorSpec) -> Array:
    wanted = spec.dtype.numpy
    array: Array = np.asarray(value)
    if array is not value and isinstance(value, np.ma.MaskedArray):
        text = "its mask would be lost, so give masked elements a value with .filled(...)"
        raise WrongOutput(f"returned a masked array as output {spec}: {text}")
    if array.dtype == wanted:
        return array
    # An array's dtype was a choice, if only of numpy: casting it could hide a mistake. A list or a
    # number has no chosen dtype.
    chosen = hasattr(value, "dtype") and not isinstance(value, np.generic)
    if array.dtype.kind in "OUS" and not (chosen and array.dtype.kind in "US"):
        raise WrongOutput(f"returned {_no_number(value)} as output {spec}; expected numbers")
    if chosen or not _goes(array.dtype, wanted):
        has = BY_NUMPY.get(array.dtype)
        word = has.word if has else str(array.dtype)
        raise WrongOutput(
            f"returned {word} as output {spec}: convert it with .astype(np.{wanted.name})"
        )
    return _narrowed(value, array, spec)


def _no_number(value: object) -> str:
    """Name the entry of a list of objects that is no number for numpy."""
    elements = np.asarray(value, object).ravel().tolist()
    for each in elements:
        if not isinstance(each, int | float | complex | np.generic):
            return "None" if each is None else f"a {type(each).__name__}"
    beyond = next((each for each in elements if isinstance(each, int) and abs(each) >> 63), None)
    return "objects" if beyond is None else f"an integer of {beyond.bit_length()} bits"


def _narrowed(value: object, array: Array, spec: TensorSpec) -> Array:
    """Convert a value that has no dtype of its own. Raises: WrongOutput, OverflowError."""
    wanted = spec.dtype.numpy
    with np.errstate(over="ignore"):  # told below, or by numpy where they are integers
        found: Array = np.array(value, wanted)
    if wanted.kind == "f" and array.dtype.kind == "f":
        beyond = array[np.isinf(found) & ~np.isinf(array)]
        if beyond.size:
            raise WrongOutput(
                f"returned {beyond[0]:g} as output {spec}, which has no room for it; scale it down"
            )
    return found


def _goes(given: "np.dtype[Any]", wanted: "np.dtype[Any]") -> bool:
    """Tell whether numbers of a list may become `wanted`; numpy looks at the range of integers."""
    both_whole = given.kind in "iu" and wanted.kind in "iu"
    return both_whole or np.can_cast(given, wanted, "same_kind")


def _texts(value: object) -> Array:
    array = np.asarray(value, None if hasattr(value, "dtype") else object)
    return objects((_bytes(each) for each in array.ravel().tolist()), array.shape)


def _bytes(text: object) -> bytes:
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, bytes):
        return text
    raise TypeError(f"{type(text).__name__} is no text; expected str or bytes")
