"""Reads `params`, a configuration's parameters for a driver, and the tensors declared in them.

"params": {"inputs": {"text": {"dtype": "string", "shape": [-1]}}}
"""

from collections.abc import Collection, Mapping

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import nearest
from ie_serving.core.values.tensors import DataType, TensorSpec
from ie_serving.engines.base import EngineOptions

INPUTS, OUTPUTS = "inputs", "outputs"
ANSWERS, LIBRARY = "answers", "library"
"""Word of `params` and its one value: outputs are those that the library's own `predict` gives."""
ANY = "any"
"""Dtype of untyped tensors, which only Python nodes of OpenVINO Model Server take and give."""
JSON = "json"
"""Dtype of outputs that are strings of JSON for gRPC, and the values themselves for REST."""

DTYPES: Mapping[str, DataType] = {
    # Arrays of bf16 are numpy's float32, which must mean FP32 here.
    **{dtype.numpy.name: dtype for dtype in DataType if dtype is not DataType.BF16},
    **{dtype.wire_name: dtype for dtype in DataType},
    **{dtype.word: dtype for dtype in DataType},
    "str": DataType.STRING,
    "bytes": DataType.STRING,
}
"""Element types by the words of numpy and TensorFlow: `float32`, `DT_FLOAT`, `float`."""


def check_known(options: EngineOptions, known: Collection[str], driver: str) -> None:
    """Refuse words of `params` that the driver does not know.

    Raises:
        LoadFailed: naming them, with those it knows.
    """
    unknown = sorted(set(options.params) - set(known))
    if not unknown:
        return
    has = f"it knows {', '.join(sorted(known))}" if known else "it knows none"
    named = ", ".join(f'"{each}"' for each in unknown)
    raise LoadFailed(f"params: driver {driver} has no {named}; {has}{nearest(unknown[0], known)}")


def as_library(options: EngineOptions) -> bool:
    """Tell whether `params` ask for the outputs of the library itself. Raises: LoadFailed."""
    given = options.params.get(ANSWERS)
    if given not in (None, LIBRARY):
        raise LoadFailed(f'params.{ANSWERS}: {given!r} given; expected "{LIBRARY}", or no such key')
    return given is not None


def specs(
    options: EngineOptions, key: str, *, takes_json: bool = False, takes_any: bool = False
) -> dict[str, TensorSpec]:
    """Read the tensors that `params` declares under `key`; none where `key` is absent.

    Raises:
        LoadFailed: naming the place and what was expected.
    """
    if key not in options.params:
        return {}
    given = options.params[key]
    return tensors(given, f"params.{key}", takes_json=takes_json, takes_any=takes_any)


def tensors(
    given: object, place: str, *, takes_json: bool = False, takes_any: bool = False
) -> dict[str, TensorSpec]:
    """Read tensors by name, one at least.

    Args:
        given: an object of objects.
        place: place named in errors.
        takes_json: the dtype may be `json`: a value of any kind, of no rows or of one dimension.
        takes_any: the dtype may be `any`, and such a tensor `"optional": true`.

    Raises:
        LoadFailed: naming the place and what was expected.
    """
    if not isinstance(given, Mapping) or not given:
        raise LoadFailed(f'{place}: expected an object such as {{"x": {{"dtype": "float"}}}}')
    for name in given:
        if not isinstance(name, str) or not name:
            raise LoadFailed(f"{place}: {name!r} is no name: expected a text that is not empty")
    return {
        name: _untyped(name, each)
        if takes_any and isinstance(each, Mapping) and each.get("dtype") == ANY
        else _spec(name, each, f"{place}.{name}", takes_json)
        for name, each in given.items()
    }


def _untyped(name: str, given: Mapping[str, object]) -> TensorSpec:
    optional = given.get("optional") is True
    return TensorSpec(name, DataType.STRING, None, name, untyped=True, optional=optional)


def _spec(name: str, given: object, place: str, takes_json: bool) -> TensorSpec:
    if not isinstance(given, Mapping) or not given.keys() <= {"dtype", "shape"}:
        raise LoadFailed(f'{place}: expected an object such as {{"dtype": "float", "shape": [-1]}}')
    if given.get("dtype") == JSON and takes_json:
        shape = _shape(given.get("shape", []), f"{place}.shape") or ()
        if len(shape) > 1:
            raise LoadFailed(f"{place}.shape: {list(shape)} given; JSON has [] or [-1]")
        return TensorSpec(name, DataType.STRING, shape, name, json=True)
    dtype = DTYPES.get(_word(given.get("dtype", "float")))
    if dtype is None:
        known = ", ".join(each.word for each in DataType)
        raise LoadFailed(f"{place}.dtype: {given['dtype']!r} given; expected one of {known}")
    return TensorSpec(name, dtype, _shape(given.get("shape"), f"{place}.shape"), name)


def _word(dtype: object) -> str:
    """Name a dtype, which Python code may give as a type: numpy's, or one that numpy reads."""
    if isinstance(dtype, type) and issubclass(dtype, np.generic | float | int):
        return str(np.dtype(dtype).name)  # not its own name: `float` is numpy's float64
    return dtype.__name__ if isinstance(dtype, type) else str(dtype)


def _shape(given: object, place: str) -> tuple[int, ...] | None:
    if given is None:
        return None
    sizes = given if isinstance(given, list | tuple) else [None]
    if not all(isinstance(size, int) and size >= -1 for size in sizes):
        raise LoadFailed(f"{place}: {given!r} given; expected sizes such as [-1, 4], -1 for any")
    return tuple(sizes)
