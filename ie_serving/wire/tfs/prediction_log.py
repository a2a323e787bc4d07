"""Reads and writes TFRecord files of PredictionLog: recorded requests, and their replies.

Files for a version's warm-up have requests; TensorFlow Serving's request logger writes a Predict
and its reply into each record. A record is length, masked CRC-32C of the length, data, masked
CRC-32C of the data; little-endian.

Source: record_writer.h of TensorFlow, and prediction_log.proto of TensorFlow Serving.
"""

import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import BinaryIO

import google_crc32c
from google.protobuf.message import DecodeError

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import GoldenRequest
from ie_serving.core.values.tensors import BY_NUMBER, Array, DataType, Signature, TensorSpec
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.predict import parse_request
from ie_serving.wire.tfs.tensor_encoder import TensorEncoder, size_of
from ie_serving.wire.tfs.tensor_proto import decode_tensor

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_HINT = "Please verify your data is in TFRecord format."
LARGEST_RECORD = 1 << 30
"""Most bytes of one record; a longer one is refused instead of read into memory, since a file that
is no TFRecord can announce any length."""


class RecordCutOff(InvalidRequest):
    """The file ends in the middle of a record: it is still being written, or the writer died."""


def read_requests(file: BinaryIO) -> Iterator[tuple[str, bytes]]:
    """Yield the kind of each record, such as `predict_log`, and the request in it, serialized.

    A record without a request is of the kind `none`.

    Raises:
        InvalidRequest: see `read_logs`.
    """
    for log in read_logs(file):
        kind = log.WhichOneof("log_type")
        # The kind may be one that is added later, which the replaying code does not know. The kind
        # of a session's run has no request.
        request = getattr(getattr(log, kind), "request", None) if kind else None
        yield kind or "none", request.SerializeToString() if request else b""


def read_logs(file: BinaryIO) -> Iterator[Proto]:
    """Yield each record, a PredictionLog.

    Raises:
        RecordCutOff: the last record is cut off.
        InvalidRequest: a record fails its checksum or is no PredictionLog.
    """
    for index, record in enumerate(_records(file)):
        try:
            yield messages.PredictionLog.FromString(record)
        except DecodeError as error:
            raise InvalidRequest(f"Failed to parse record: {index}: {error}") from error


def count_records(path: str) -> int:
    """Count the records of a file, up to the first that is damaged; 0 for one that is gone."""
    number = 0
    with suppress(OSError, InvalidRequest), open(path, "rb") as file:
        for _ in _records(file):
            number += 1
    return number


def _records(file: BinaryIO) -> Iterator[bytes]:
    while head := file.read(_LENGTH.size):
        # The length has a checksum of its own, so that a wrong one is not believed.
        _check(head, _LENGTH.size, file)
        (length,) = _LENGTH.unpack(head)
        if length > LARGEST_RECORD:
            raise InvalidRequest(f"a record of {length} bytes is too large. {_HINT}")
        data = file.read(length)
        _check(data, length, file)
        yield data


def _check(data: bytes, length: int, file: BinaryIO) -> None:
    """Compare `data` with the checksum that follows it."""
    stored = file.read(_CRC.size)
    if len(data) != length or len(stored) != _CRC.size:
        raise RecordCutOff(f"the records end in the middle of one. {_HINT}")
    if _CRC.unpack(stored)[0] != masked_crc32c(data):
        raise InvalidRequest(f"a record does not match its checksum. {_HINT}")


def masked_crc32c(data: bytes) -> int:
    """Checksum of `data` as TFRecord stores it: rotated, so that it may be checksummed again."""
    crc = int(google_crc32c.value(data))
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def predict_record(
    signature: Signature,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    *,
    model: str,
    version: int,
    sampling_rate: float,
    dropped: Iterable[str] = (),
) -> bytes:
    """Write a Predict with its reply as one record of a file.

    The request names no version, so that a replay asks the one that is served; the log's metadata
    has the version that answered. Inputs that are `dropped` are tensors of unknown rank.
    """
    asked = messages.ModelSpec(name=model, signature_name=signature.name)
    answered = messages.ModelSpec(name=model, signature_name=signature.name)
    answered.version.value = version
    log = messages.PredictionLog()
    log.log_metadata.model_spec.CopyFrom(answered)
    log.log_metadata.sampling_config.sampling_rate = sampling_rate
    log.log_metadata.timestamp_secs = int(time.time())
    log.predict_log.request.model_spec.CopyFrom(asked)
    log.predict_log.response.model_spec.CopyFrom(answered)
    put_tensors(log.predict_log.request.inputs, inputs, signature.inputs)
    for name in dropped:
        left_out = log.predict_log.request.inputs[name]
        left_out.dtype = signature.inputs[name].dtype.number
        left_out.tensor_shape.unknown_rank = True
    put_tensors(log.predict_log.response.outputs, outputs, signature.outputs)
    data: bytes = log.SerializeToString()
    length = _LENGTH.pack(len(data))
    return b"".join((length, _crc(length), data, _crc(data)))


def put_tensors(field: Proto, arrays: Mapping[str, Array], specs: Mapping[str, TensorSpec]) -> None:
    """Put tensors into a field of a message, such as a request's `inputs`, each by its spec."""
    for name, array in arrays.items():
        is_text = array.dtype == object
        dtype = DataType.STRING if is_text else specs[name].dtype
        encoder = TensorEncoder(dtype, tensor_content=True)
        body = encoder.body(array)
        field[name].ParseFromString(encoder.head(array.shape, size_of(body)) + bytes(body))


def _crc(data: bytes) -> bytes:
    return _CRC.pack(masked_crc32c(data))


def read_golden(file: BinaryIO) -> Iterator[GoldenRequest]:
    """Read a file.

    Raises:
        InvalidRequest: it is damaged, or a record is no Predict with its reply.
    """
    for number, log in enumerate(read_logs(file)):
        source = f"record {number}"
        found = log.predict_log
        if log.WhichOneof("log_type") != "predict_log" or not found.response.outputs:
            raise InvalidRequest(f"{source} must be a predict_log with a request and its response")
        request = parse_request(found.request.SerializeToString())
        yield GoldenRequest(source, request, partial(_expected, found.response))


def _expected(response: Proto, signature: Signature) -> Mapping[str, Array]:
    for alias, tensor in response.outputs.items():
        spec, recorded = signature.outputs.get(alias), BY_NUMBER.get(tensor.dtype)
        # Compared as arrays have them: bfloat16 is replied as float32.
        if spec and recorded and recorded.numpy != spec.dtype.numpy:
            raise InvalidRequest(
                f'its response has "{alias}" as {recorded.wire_name}; the model gives'
                f" {spec.dtype.wire_name}"
            )
    return {alias: decode_tensor(tensor, alias) for alias, tensor in response.outputs.items()}
