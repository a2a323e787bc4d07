"""TFRecord files of PredictionLog, which a version brings along for its warm-up.

Source: record_writer.h of TensorFlow (each record: length, masked CRC-32C of the length, data,
masked CRC-32C of the data; little-endian) and prediction_log.proto.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO

import google_crc32c
from google.protobuf.message import DecodeError

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_HINT = "Please verify your data is in TFRecord format."
LARGEST_RECORD = 1 << 30
"""Bytes of one record. A file that is no TFRecord announces any length: what is beyond is refused
instead of read into memory."""


def read_requests(file: BinaryIO) -> Iterator[tuple[str, bytes]]:
    """Yield the kind of each record, such as `predict_log`, and the request in it, serialized.

    A record without a request is of the kind `none`.

    Raises:
        InvalidRequest: see `read_logs`.
    """
    for log in read_logs(file):
        kind = log.WhichOneof("log_type")
        # Also a kind that is added later; whoever replays it may not know it. That of a session's
        # run has no request.
        request = getattr(getattr(log, kind), "request", None) if kind else None
        yield kind or "none", request.SerializeToString() if request else b""


def read_logs(file: BinaryIO) -> Iterator[Proto]:
    """Yield each record, a PredictionLog.

    Raises:
        InvalidRequest: a record is cut off, fails its checksum or is no PredictionLog.
    """
    for index, record in enumerate(_records(file)):
        try:
            yield messages.PredictionLog.FromString(record)
        except DecodeError as error:
            raise InvalidRequest(f"Failed to parse record: {index}: {error}") from error


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
        raise InvalidRequest(f"the records end in the middle of one. {_HINT}")
    if _CRC.unpack(stored)[0] != masked_crc32c(data):
        raise InvalidRequest(f"a record does not match its checksum. {_HINT}")


def masked_crc32c(data: bytes) -> int:
    """Checksum of `data` as TFRecord stores it: rotated, so that it may be checksummed again."""
    crc = int(google_crc32c.value(data))
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
