"""TFRecord files of PredictionLog whose records hold a Predict and its reply.

Source: prediction_log.proto of TensorFlow Serving; its request logger writes such files.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from io import BytesIO

from ie_serving.core.errors import InvalidRequest
from ie_serving.core.golden import GoldenRequest
from ie_serving.core.tensors import Array, Signature
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.predict import parse_request
from ie_serving.wire.tfs.prediction_log import read_logs
from ie_serving.wire.tfs.tensor_proto import decode_tensor


def read_golden(content: bytes) -> Iterator[GoldenRequest]:
    """Read a file.

    Raises:
        InvalidRequest: it is damaged, or a record is no Predict with its reply.
    """
    for number, log in enumerate(read_logs(BytesIO(content))):
        place = f"record {number}"
        found = log.predict_log
        if log.WhichOneof("log_type") != "predict_log" or not found.response.outputs:
            raise InvalidRequest(f"{place} must be a predict_log with a request and its response")
        request = parse_request(found.request.SerializeToString())
        yield GoldenRequest(place, request, partial(_expected, found.response))


def _expected(response: Proto, signature: Signature) -> Mapping[str, Array]:
    return {alias: decode_tensor(tensor, alias) for alias, tensor in response.outputs.items()}
