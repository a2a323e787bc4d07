"""TFRecord files: read back what was written, and name what is wrong with one."""

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.wire.protobuf import messages
from ie_serving.wire.tfs.prediction_log import masked_crc32c, read_requests


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return b"".join(
        (
            length,
            struct.pack("<I", masked_crc32c(length)),
            data,
            struct.pack("<I", masked_crc32c(data)),
        )
    )


def log(model: str) -> bytes:
    message = messages.PredictionLog()
    message.predict_log.request.model_spec.name = model
    return bytes(message.SerializeToString())


def test_the_checksum_of_a_record_is_that_of_tensorflow() -> None:
    """`tf.io.TFRecordWriter` wrote `b"abc"` with these bytes."""
    assert record(b"abc").hex() == "0300000000000000b099490e6162636e57f121"


@given(st.lists(st.text(max_size=5), max_size=4))
def test_records_come_back_in_order(models: list[str]) -> None:
    file = io.BytesIO(b"".join(record(log(model)) for model in models))
    read = list(read_requests(file))
    assert [kind for kind, _ in read] == ["predict_log"] * len(models)
    requests = [messages.PredictRequest.FromString(payload) for _, payload in read]
    assert [request.model_spec.name for request in requests] == models


def test_a_record_without_a_request_is_of_no_kind() -> None:
    assert list(read_requests(io.BytesIO(record(b"")))) == [("none", b"")]


def test_a_kind_that_has_no_request_is_named() -> None:
    """A run of a session has feeds instead; `replay` says that it cannot send them."""
    message = messages.PredictionLog()
    message.session_run_log.SetInParent()
    assert list(read_requests(io.BytesIO(record(message.SerializeToString())))) == [
        ("session_run_log", b"")
    ]


@pytest.mark.parametrize("cut", [1, 8, 11, 12, 14, 19])
def test_a_record_that_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(InvalidRequest, match="TFRecord format"):
        list(read_requests(io.BytesIO(record(log("model"))[:cut])))


@given(st.data())
def test_a_flipped_bit_is_noticed(data: st.DataObject) -> None:
    content = bytearray(record(log("model")))
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(InvalidRequest):
        list(read_requests(io.BytesIO(bytes(content))))


def test_a_record_that_is_no_prediction_log_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="Failed to parse record: 0"):
        list(read_requests(io.BytesIO(record(b"\xff\xff"))))
