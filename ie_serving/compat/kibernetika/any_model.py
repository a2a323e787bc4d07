"""Calls that reach one model whatever model they name, or none, as kibernetika-serving's do."""

from collections.abc import Awaitable, Callable, Mapping

from ie_serving.server.transport.grpc.services import Buffer, CallContext, Unary
from ie_serving.wire.protobuf import fields

MODEL_SPEC, NAME = 1, 1
"""Field numbers: `model_spec` of the requests below, and `name` of a ModelSpec."""
METHODS = ("Predict", "GetModelMetadata", "GetModelStatus")


def answering_for(model: str, handlers: Mapping[str, Unary]) -> dict[str, Unary]:
    """Give the methods of a service, those of `METHODS` answering for `model` alone.

    Without a model each answers for the one that a request names.
    """
    if not model:
        return dict(handlers)
    # What comes last counts, and messages of one field are merged: so says the wire format of
    # protocol buffers. Thus a name is set without the request being parsed.
    named = fields.delimited(MODEL_SPEC, fields.delimited(NAME, model.encode()))
    return {
        name: _with_model_name(handler, named) if name in METHODS else handler
        for name, handler in handlers.items()
    }


def _with_model_name(
    handler: Unary, name: bytes
) -> Callable[[Buffer, CallContext], Awaitable[bytes]]:
    def answered(payload: Buffer, context: CallContext) -> Awaitable[bytes]:
        return handler(b"".join((payload, name)), context)

    return answered
