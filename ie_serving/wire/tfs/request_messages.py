"""The common part of all RPCs: parses a message, and the ModelSpec in it.

Source of the phrases: predict_util.cc and server_core.cc of TensorFlow Serving.
"""

from google.protobuf.message import DecodeError

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import InvalidRequest, advised
from ie_serving.core.values.requests import ModelSpec
from ie_serving.wire.protobuf.counting import COUNTED, PARSED, check_count
from ie_serving.wire.protobuf.fields import Encoded
from ie_serving.wire.protobuf.messages import Proto


def parse(kind: Proto, payload: Encoded) -> Proto:
    """Parse a message of class `kind`.

    Raises:
        InvalidRequest: the bytes are no such message, or hold too many messages.
        QueueFull, RequestTooLarge: the messages within exceed the memory budget of requests.
    """
    if len(payload) < COUNTED:
        return _parse(kind, payload)
    count = check_count(memoryview(payload), kind.DESCRIPTOR)
    # Held until the message is parsed, so that few such messages are parsed at once.
    lease = BUDGET.lease(count * PARSED)
    try:
        return _parse(kind, payload)
    finally:
        lease.release()


def _parse(kind: Proto, payload: Encoded) -> Proto:
    try:
        return kind.FromString(payload)
    except DecodeError as error:
        raise InvalidRequest(
            f"the request is not a valid {kind.DESCRIPTOR.full_name} message: {error}"
        ) from error


def model_spec_of(request: Proto) -> ModelSpec:
    """Read the field `model_spec` of a request.

    Raises:
        InvalidRequest: it is missing or names no model.
    """
    if not request.HasField("model_spec"):
        raise InvalidRequest(
            advised("Missing ModelSpec", ": set model_spec.name to a served model")
        )
    spec = request.model_spec
    if not spec.name:
        raise InvalidRequest(
            advised("ModelSpec has no name specified.", " Set it to a served model")
        )
    return read_model_spec(spec)


def read_model_spec(spec: Proto) -> ModelSpec:
    """Read a ModelSpec, also one that names no model."""
    # The value alone does not tell: version 0 is a version, and 0 is also the value of none.
    choice = spec.WhichOneof("version_choice")
    return ModelSpec(
        name=spec.name,
        version=spec.version.value if choice == "version" else None,
        label=spec.version_label if choice == "version_label" else None,
        signature=spec.signature_name,
    )
