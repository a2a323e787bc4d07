"""The two tensor protocols, as far as the benchmark speaks them: encoded by hand.

The driver must not share code with what it measures, so that a fault cannot cancel itself out.
Sources: predict.proto, tensor.proto (TensorFlow Serving); grpc_predict_v2.proto (Open Inference
Protocol). Arrays are float32 or int32, little-endian, row-major.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

TF_DTYPE = {np.dtype(np.float32): 1, np.dtype(np.int32): 3, np.dtype(np.int64): 9}
TF_NUMPY = {number: dtype for dtype, number in TF_DTYPE.items()}
OIP_DTYPE = {np.dtype(np.float32): "FP32", np.dtype(np.int32): "INT32", np.dtype(np.int64): "INT64"}
OIP_NUMPY = {name: dtype for dtype, name in OIP_DTYPE.items()}


def tfs_request(model: str, inputs: Mapping[str, Array]) -> bytes:
    """Encode a `tensorflow.serving.PredictRequest` with `tensor_content`."""
    spec = _bytes(1, _bytes(1, model.encode()))
    entries = (
        _bytes(2, _bytes(1, name.encode()) + _bytes(2, _tensor(values)))
        for name, values in inputs.items()
    )
    return spec + b"".join(entries)


def tfs_response(message: bytes) -> dict[str, Array]:
    """Decode a `tensorflow.serving.PredictResponse` with `tensor_content`."""
    outputs = {}
    for number, entry in _fields(message):
        if number == 1:
            parts = dict(_fields(entry))
            outputs[bytes(parts[1]).decode()] = _array(parts[2])
    return outputs


def oip_request(model: str, inputs: Mapping[str, Array]) -> bytes:
    """Encode an `inference.ModelInferRequest` with raw contents."""
    described = b"".join(
        _bytes(5, _bytes(1, name.encode()) + _bytes(2, OIP_DTYPE[v.dtype].encode()) + _shape(3, v))
        for name, v in inputs.items()
    )
    raw = b"".join(_bytes(7, values.tobytes()) for values in inputs.values())
    return _bytes(1, model.encode()) + described + raw


def oip_shared_request(
    model: str, inputs: Mapping[str, Array], output: str, regions: tuple[str, str]
) -> bytes:
    """Encode an `inference.ModelInferRequest` whose inputs lie one behind the other in a region.

    Args:
        model: name in requests.
        inputs: by name.
        output: the one that is written into the second region, from its start.
        regions: names, of the inputs' region and of the output's.
    """
    described, at = b"", 0
    for name, values in inputs.items():
        head = _bytes(1, name.encode()) + _bytes(2, OIP_DTYPE[values.dtype].encode())
        described += _bytes(5, head + _shape(3, values) + _region(4, regions[0], at, values.nbytes))
        at += values.nbytes
    wanted = _bytes(1, output.encode()) + _region(2, regions[1], 0, at)
    return _bytes(1, model.encode()) + described + _bytes(6, wanted)


def oip_register_request(name: str, key: str, size: int) -> bytes:
    """Encode an `inference.SystemSharedMemoryRegisterRequest`, Triton's extension."""
    return _bytes(1, name.encode()) + _bytes(2, key.encode()) + b"\x20" + varint(size)


def _region(number: int, name: str, offset: int, size: int) -> bytes:
    """Encode the parameters that say where in shared memory a tensor lies."""
    values = {
        "shared_memory_region": _bytes(3, name.encode()),
        "shared_memory_offset": b"\x10" + varint(offset),
        "shared_memory_byte_size": b"\x10" + varint(size),
    }
    return b"".join(
        _bytes(number, _bytes(1, key.encode()) + _bytes(2, value)) for key, value in values.items()
    )


def oip_response(message: bytes) -> dict[str, Array]:
    """Decode an `inference.ModelInferResponse` with raw contents."""
    described = [list(_fields(part)) for number, part in _fields(message) if number == 5]
    raw = [part for number, part in _fields(message) if number == 6]
    outputs = {}
    for fields, content in zip(described, raw, strict=True):
        name, values = _described(fields, content)
        outputs[name] = values
    return outputs


def oip_shared_response(message: bytes, content: bytes) -> dict[str, Array]:
    """Decode an `inference.ModelInferResponse` with one output, which lies in `content`."""
    fields = [list(_fields(part)) for number, part in _fields(message) if number == 5]
    return dict([_described(fields[0], content)])


def _tensor(values: Array) -> bytes:
    dimensions = b"".join(_bytes(2, b"\x08" + varint(size)) for size in values.shape)
    dtype = b"\x08" + varint(TF_DTYPE[values.dtype])
    return dtype + _bytes(2, dimensions) + _bytes(4, values.tobytes())


def _array(message: bytes | int) -> Array:
    fields = dict(_fields(message))
    dimensions = [dict(_fields(part)) for number, part in _fields(fields[2]) if number == 2]
    shape = [int(dimension.get(1, 0)) for dimension in dimensions]
    return np.frombuffer(fields[4], TF_NUMPY[int(fields[1])]).reshape(shape)


def _described(fields: list[tuple[int, Any]], content: bytes) -> tuple[str, Array]:
    """Read a tensor of the Open Inference Protocol from the start of `content`."""
    first = dict(reversed(fields))
    dtype = OIP_NUMPY[bytes(first[2]).decode()]
    shape = [size for number, part in fields if number == 3 for size in _sizes(part)]
    values = np.frombuffer(content, dtype, count=int(np.prod(shape)))
    return bytes(first[1]).decode(), values.reshape(shape)


def _shape(number: int, values: Array) -> bytes:
    return _bytes(number, b"".join(map(varint, values.shape)))


def _sizes(part: Any) -> list[int]:
    """Read a repeated integer, whether it came packed or one by one."""
    if isinstance(part, int):
        return [part]
    sizes, at = [], 0
    while at < len(part):
        size, at = read_varint(part, at)
        sizes.append(size)
    return sizes


def _bytes(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _fields(message: Any) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field: an integer, or a view of the bytes."""
    view, at = memoryview(message), 0
    while at < len(view):
        key, at = read_varint(view, at)
        value, at = read_varint(view, at)
        if key & 7 == 2:
            yield key >> 3, view[at : at + value]
            at += value
        else:
            yield key >> 3, value


def read_varint(view: Any, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = view[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
