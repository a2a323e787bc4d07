"""Answers of a stream -> PredictStreamResponse. Source: streams.proto, this project's own."""

from ie_serving.core.values.codes import Code
from ie_serving.wire.protobuf.writing import delimited, head, tag, varint

_RESPONSE, _ERROR, _INDEX, _DROPPED = 1, 2, 3, 4
_CODE, _MESSAGE = 1, 2
_VARINT = 0


def encode_response(response: bytes, index: int, dropped: int) -> bytes:
    """Encode the answer to a request: a PredictResponse that is encoded already."""
    return b"".join((head(_RESPONSE, len(response)), response, _numbers(index, dropped)))


def encode_error(code: Code, text: str, index: int, dropped: int) -> bytes:
    """Encode what was wrong with a request."""
    error = _number(_CODE, code.value) + delimited(_MESSAGE, text.encode())
    return delimited(_ERROR, error) + _numbers(index, dropped)


def _numbers(index: int, dropped: int) -> bytes:
    return _number(_INDEX, index) + _number(_DROPPED, dropped)


def _number(field: int, value: int) -> bytes:
    # As protobuf has it: 0 is the value of a field that is not there.
    return tag(field, _VARINT) + varint(value) if value else b""
