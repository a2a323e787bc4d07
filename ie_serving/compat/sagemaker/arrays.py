"""Arrays as .npy files and as CSV.

A file of numpy is read without numpy's own reader, which believes the shape before it has seen the
bytes. Source: numpy.lib.format.
"""

import io
import math
import re
from typing import Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, Arrays, Signature

_MAGIC: Final = b"\x93NUMPY"

_LONGEST_HEADER: Final = 4096
"""Bytes of a header; a longer one is refused before it is parsed. numpy's headers
of arrays of numbers are shorter."""

_HEADER: Final = re.compile(
    rb"\{'descr': '([<>|=]?[biuf][0-9]{1,2})', 'fortran_order': (True|False),"
    rb" 'shape': \(((?:[0-9]{1,12},? ?){0,32})\),? ?\} *\n"
)
"""A header as numpy writes it; types without objects, which a file could run code by."""


def read_npy(body: bytes) -> Array:
    """Read an array; a view of the body where its bytes lie as this machine has them.

    Raises:
        InvalidRequest: it is no such file, of a dtype that is no number, or not as long as it says.
    """
    size_bytes = {1: 2, 2: 4, 3: 4}.get(body[6], 0) if len(body) > len(_MAGIC) else 0
    start = len(_MAGIC) + 2 + size_bytes
    size = int.from_bytes(body[len(_MAGIC) + 2 : start], "little")
    if not body.startswith(_MAGIC) or not size_bytes or size > _LONGEST_HEADER:
        raise InvalidRequest("the body is no .npy file of numpy; expected what numpy.save writes")
    found = _HEADER.fullmatch(body[start : start + size])
    if found is None:
        raise InvalidRequest("the .npy file holds no array of numbers; expected one, not objects")
    shape = tuple(int(each) for each in found[3].replace(b",", b" ").split())
    return _array(body[start + size :], found[1].decode(), shape, found[2] == b"True")


def _array(data: bytes, code: str, shape: tuple[int, ...], by_columns: bool) -> Array:
    try:
        dtype = np.dtype(code)
    except TypeError:
        raise InvalidRequest(
            f"the .npy file is of dtype {code}, which there is not: save it with a dtype of numpy"
        ) from None
    expected = dtype.itemsize
    for each in shape:  # in Python's integers, which do not overflow
        expected *= each
    if len(data) != expected:
        raise InvalidRequest(
            f"the .npy file has {len(data)} bytes of values; expected {expected} by its shape"
        )
    try:
        array = np.frombuffer(data, dtype).reshape(shape, order="F" if by_columns else "C")
    except ValueError as error:  # of no values, and by its other sizes larger than any memory
        raise InvalidRequest(f"the .npy file: expected a shape of numpy: {error}") from error
    return np.asarray(array, dtype.newbyteorder("="), order="C")


def as_input(array: Array, signature: Signature) -> dict[str, Array]:
    """Give an array as the one input of a signature.

    Raises:
        InvalidRequest: it has several inputs, or one of another kind of values, or one that has no
            room for these integers.
    """
    if len(signature.inputs) != 1:
        names = ", ".join(signature.inputs) or "none that is named"
        raise InvalidRequest(f"an array is for one input; the model has {names}: send JSON")
    ((name, spec),) = signature.inputs.items()
    wanted = spec.dtype.numpy
    # Integers may become floats, and 64 bits 32, as numbers of JSON do; floats no integers.
    if wanted.hasobject or not np.can_cast(array.dtype, wanted, "same_kind"):
        raise InvalidRequest(f'input "{name}" is {spec.dtype.word}; the array is {array.dtype}')
    cast = array.astype(wanted, copy=False)
    # A cast would keep the lower bits of an integer that does not fit, and say nothing.
    if wanted.kind in "iu" and not np.can_cast(array.dtype, wanted) and (cast != array).any():
        raise InvalidRequest(
            f'input "{name}" is {spec.dtype.word}; the array, {array.dtype}, has numbers beyond it'
        )
    return {name: cast}


def write_npy(outputs: Arrays) -> bytes:
    """Write the one output. Raises: InvalidRequest."""
    array = _single_output(outputs)
    if array.dtype.hasobject:
        raise InvalidRequest("the output holds strings, which .npy has not: ask for JSON")
    written = io.BytesIO()
    np.save(written, array, allow_pickle=False)
    return written.getvalue()


def write_csv(outputs: Arrays) -> bytes:
    """Write the one output, a line for each row. Raises: InvalidRequest."""
    array = _single_output(outputs)
    if not array.ndim:
        array = array.reshape(1)
    # The length of a row is computed: numpy cannot derive it if there are no rows.
    rows = array.reshape(len(array), math.prod(array.shape[1:])).tolist()
    return "".join(",".join(map(_field, row)) + "\n" for row in rows).encode()


def _single_output(outputs: Arrays) -> Array:
    if len(outputs) != 1:
        raise InvalidRequest(
            f"CSV and .npy have room for one output, and there are {', '.join(outputs) or 'none'}:"
            " ask for JSON"
        )
    (array,) = outputs.values()
    return array


def _field(value: object) -> str:
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace").replace('"', '""')
        return f'"{text}"'
    return str(value)
