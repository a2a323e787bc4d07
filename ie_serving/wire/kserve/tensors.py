"""Reads input tensors of a REST request: numbers in JSON, or bytes after it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import simdjson

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor
from ie_serving.core.values.tensors import Array, DataType, SentBuffer
from ie_serving.wire.json.buffers import Lazy, count_brackets, read_array, read_arrays
from ie_serving.wire.json.document import plain
from ie_serving.wire.json.tensor import decode_base64, decode_tensor
from ie_serving.wire.kserve.datatypes import NAME_OF, CustomDatatype, datatype
from ie_serving.wire.kserve.inputs import SENT
from ie_serving.wire.kserve.raw import checked_shape, decode_raw
from ie_serving.wire.kserve.regions import REGION, Regions, part_of
from ie_serving.wire.kserve.request_members import Parameters, parameters_of, text_of
from ie_serving.wire.tfs.tensor_proto import BITS, MOST_DIMENSIONS

SIZE: Final = "binary_data_size"
CONTENT_TYPE: Final = "content_type"
BASE64: Final = "base64"
"""MLServer's word for BYTES whose elements are base64 in JSON."""


class InputTensor(NamedTuple):
    """An input whose values are not yet decoded.

    Attributes:
        name: name of the input.
        dtype: declared dtype.
        shape: declared shape.
        data: values in JSON; None where they are raw.
        raw: bytes; None where they are JSON.
        base64: elements in JSON are base64.
    """

    name: str
    dtype: DataType
    shape: tuple[int, ...]
    data: Lazy
    raw: memoryview | None
    base64: bool

    @property
    def is_view(self) -> bool:
        """Whether decoding takes no time, whatever the size."""
        is_known = isinstance(self.dtype, DataType)
        return self.raw is not None and is_known and self.dtype not in _REWRITTEN

    @property
    def sent(self) -> SentBuffer | None:
        """Its bytes as they were sent, if they need be no array."""
        dtype: DataType | CustomDatatype = self.dtype
        if self.raw is None or (isinstance(dtype, DataType) and dtype not in SENT):
            return None
        word = dtype.word if isinstance(dtype, CustomDatatype) else NAME_OF[dtype]
        return SentBuffer(self.raw, word, self.shape)


_REWRITTEN: Final = frozenset({DataType.STRING, DataType.BF16, DataType.BOOL})


class RawTail:
    """The bytes behind the JSON of a request, which its tensors take in their order."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int, name: str) -> memoryview:
        """Take the bytes of the next tensor. Raises: InvalidTensor: there are not so many."""
        left = len(self._data) - self._at
        if size > left:
            raise InvalidTensor(
                f'input "{name}" takes {size} bytes behind the JSON, and {left} are left there:'
                f' send the bytes of all inputs, or correct "{SIZE}"'
            )
        self._at += size
        return self._data[self._at - size : self._at]

    def rest(self) -> memoryview:
        """Take all that is left."""
        at, self._at = self._at, len(self._data)
        return self._data[at:]

    def check_end(self) -> None:
        """Refuse bytes that no tensor takes. Raises: InvalidRequest."""
        left = len(self._data) - self._at
        if left:
            raise InvalidRequest(
                f"{left} bytes behind the JSON belong to no input: leave them out, or correct"
                f' "{SIZE}" of the inputs'
            )


def tensor_of(given: Lazy, tail: RawTail | None, regions: Regions, *, only: bool) -> InputTensor:
    """Read the description of an input.

    Args:
        given: its object.
        tail: bytes after the JSON; None where the request has no header for them.
        regions: regions of shared memory; an input that lies there is copied.
        only: it is the only input, and may leave out its number of bytes.

    Raises:
        InvalidRequest: a member is missing, or against the protocol.
        NotFound, NotSupported, UnusualField: as `regions.read`.
    """
    keys = list(given)
    name = text_of(given, "name", "each of the inputs")
    parameters = parameters_of(given, keys, f'input "{name[:200]}"')
    word = given["datatype"] if "datatype" in keys else None
    try:
        dtype = datatype(word, name[:200])
    except InvalidTensor:
        if (tail is None and REGION not in parameters) or not isinstance(word, str):
            raise
        dtype = cast(DataType, CustomDatatype(word, name[:200]))
    shape = _shape(given["shape"] if "shape" in keys else None, name[:200])
    data = given["data"] if "data" in keys else None
    if REGION in parameters and (part := part_of(parameters, f'input "{name[:200]}"')):
        if _is_given(data) or parameters.get(SIZE) is not None:
            raise InvalidRequest(
                f'input "{name[:200]}" has values, and parameter "{REGION}": send one of them'
            )
        read = memoryview(regions.read(part))
        return InputTensor(name, dtype, shape, None, read, base64=False)
    raw = _raw(name[:200], dtype, shape, parameters, tail, has_data=_is_given(data), only=only)
    if raw is None and data is None:
        raise InvalidRequest(
            f'input "{name[:200]}" has neither "data" nor "{SIZE}": send its values in one of them'
        )
    if raw is None and isinstance(dtype, CustomDatatype):
        datatype(dtype.word, name[:200])  # raises: values in JSON are of known types
    is_base64 = dtype is DataType.STRING and parameters.get(CONTENT_TYPE) == BASE64
    return InputTensor(name, dtype, shape, None if raw is not None else data, raw, is_base64)


def _is_given(data: Lazy) -> bool:
    # Some clients send an empty list beside raw bytes.
    return data is not None and not (isinstance(data, (simdjson.Array, list)) and not len(data))


def _shape(value: Lazy, name: str) -> tuple[int, ...]:
    if not isinstance(value, (simdjson.Array, list)):
        raise InvalidTensor(f'input "{name}" needs "shape", a list of sizes')
    # The number is checked before simdjson makes Python values of the dimensions.
    if len(value) > MOST_DIMENSIONS:
        return checked_shape([0] * len(value), name)
    return checked_shape(list(value), name)


def _raw(
    name: str,
    dtype: DataType,
    shape: tuple[int, ...],
    parameters: Parameters,
    tail: RawTail | None,
    *,
    has_data: bool,
    only: bool,
) -> memoryview | None:
    """Give the bytes of an input; None where its values are JSON. Raises: InvalidRequest."""
    size = parameters.get(SIZE)
    if size is None:
        if has_data or tail is None:
            return None
        # A size that follows from the shape is optional, as in OpenVINO Model Server.
        if dtype is not DataType.STRING:
            return tail.take(math.prod(shape) * BITS.get(dtype, dtype.numpy).itemsize, name)
        if not only:
            raise InvalidRequest(
                f'input "{name}" needs parameter "{SIZE}": its number of bytes behind the JSON'
            )
        return tail.rest()
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise InvalidRequest(f'parameter "{SIZE}" of input "{name}" has to be a number of bytes')
    if has_data:
        raise InvalidRequest(f'input "{name}" has both "data" and "{SIZE}": send one of them')
    if tail is None:
        raise InvalidRequest(
            f'input "{name}" has "{SIZE}", and the request has no header'
            " Inference-Header-Content-Length: send it, since it tells where the JSON ends"
        )
    return tail.take(size, name)


def read_tensors(tensors: Sequence[InputTensor], text: bytes, others: int) -> dict[str, Array]:
    """Decode all inputs.

    Args:
        tensors: tensors of one request.
        text: its JSON.
        others: lists in the JSON beside their data.

    Raises:
        InvalidRequest: values are none of their datatype or shape.
    """
    found = _quick(tensors, text, others)
    if found is None:
        found = {each.name: _slow(each) for each in tensors if each.raw is None}
    return {each.name: _array(each, found) for each in tensors}


def read_quickly(
    tensors: Sequence[InputTensor], text: bytes, others: int
) -> dict[str, Array] | None:
    """Decode as `read_tensors` does, if that takes little time; else give None."""
    if not all(each.raw is None or each.is_view for each in tensors):
        return None
    found = _quick(tensors, text, others)
    return None if found is None else {each.name: _array(each, found) for each in tensors}


def _array(tensor: InputTensor, found: Mapping[str, Array]) -> Array:
    if tensor.raw is None:
        return as_declared(found[tensor.name], tensor)
    return decode_raw(tensor.raw, tensor.dtype, tensor.shape, tensor.name[:200])


def _quick(tensors: Sequence[InputTensor], text: bytes, others: int) -> dict[str, Array] | None:
    """Read the numbers among them, if these are plain lists."""
    listed = [each for each in tensors if each.raw is None]
    if not listed:
        return {}
    if len(listed) == 1:  # most requests
        (only,) = listed
        array = read_array(only.data, only.dtype, text, count_brackets(text) - others)
        return None if array is None else {only.name: array}
    dtypes = {each.name: each.dtype for each in listed}
    return read_arrays({each.name: each.data for each in listed}, dtypes, text, others)


def _slow(tensor: InputTensor) -> Array:
    try:
        array = decode_tensor(plain(tensor.data, 0), tensor.dtype)
    except InvalidRequest as error:
        raise InvalidTensor(f'input "{tensor.name[:200]}": {error}') from None
    if tensor.base64:
        return _from_base64(array, tensor)
    return array


def _from_base64(array: Array, tensor: InputTensor) -> Array:
    flat: Any = array.reshape(-1)
    for index, element in enumerate(flat.tolist()):
        found = decode_base64(element.decode("latin-1"))
        if found is None:
            raise InvalidTensor(f'input "{tensor.name[:200]}": element {index}: expected base64')
        flat[index] = found
    return array


def as_declared(array: Array, tensor: InputTensor) -> Array:
    """Give values the shape of their tensor: they came flat, or nested just so.

    Dimensions of size 1 may be nested or not. Raises: InvalidTensor.
    """
    shape = tensor.shape
    if array.shape == shape:
        return array
    # Lists that hold nothing do not tell how deep they would be.
    alike = array.ndim <= 1 or not array.size or _long(array.shape) == _long(shape)
    if alike and array.size == math.prod(shape):
        try:
            return array.reshape(shape)
        except (OverflowError, ValueError):  # no elements, and sizes that numpy cannot count
            pass
    raise InvalidTensor(
        f'input "{tensor.name[:200]}" has data of shape {list(array.shape)}; its "shape" is'
        f" {list(shape)}"
    )


def _long(shape: tuple[int, ...]) -> list[int]:
    return [size for size in shape if size != 1]
