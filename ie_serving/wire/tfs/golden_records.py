"""Reads TFRecord files of PredictionLog whose records hold a Predict and its reply.

Source: prediction_log.proto of TensorFlow Serving; its request logger writes such files.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import BinaryIO

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.golden import GoldenRequest
from ie_serving.core.values.tensors import BY_NUMBER, Array, Signature
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.predict import parse_request
from ie_serving.wire.tfs.prediction_log import read_logs
from ie_serving.wire.tfs.tensor_proto import decode_tensor


def read_golden(file: BinaryIO) -> Iterator[GoldenRequest]:
    """Read a file.

    Raises:
        InvalidRequest: it is damaged, or a record is no Predict with its reply.
    """
    for number, log in enumerate(read_logs(file)):
        place = f"record {number}"
        found = log.predict_log
        if log.WhichOneof("log_type") != "predict_log" or not found.response.outputs:
            raise InvalidRequest(f"{place} must be a predict_log with a request and its response")
        request = parse_request(found.request.SerializeToString())
        yield GoldenRequest(place, request, partial(_expected, found.response))


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
