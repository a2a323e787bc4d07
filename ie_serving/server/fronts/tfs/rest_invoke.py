"""`POST /v1/models/NAME:invoke`: passes the raw body to a model that takes bytes.

`core/values/signatures.py` defines which models do, and the reply. TensorFlow Serving has no such
route.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.values.integers import INT64_MAX
from ie_serving.core.values.requests import Decoded, InferRequest, ModelSpec
from ie_serving.core.values.signatures import body_of, check_takes_bytes, reply_of
from ie_serving.core.values.tensors import Array, Signature
from ie_serving.inference.interface import Api, Encode, Interface
from ie_serving.inference.plane import DataPlane
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.rest.body import read_body
from ie_serving.server.transport.http1.body import Octets
from ie_serving.server.transport.http1.messages import Reply, Request


class Invocations:
    """Answers `:invoke`.

    Args of the constructor:
        plane: answers the requests.
        rest: interface of the REST API, whose limit, labels and errors apply here too.
        max_body_bytes: largest body.
    """

    def __init__(self, plane: DataPlane, rest: Interface[Octets], max_body_bytes: int) -> None:
        self._plane = plane
        self._rest = rest
        self._max_body_bytes = max_body_bytes
        # A separate interface, since each version keeps one `BoundSignature` for each interface.
        self._interface: Interface[Reply] = Interface(
            entrypoint=rest.entrypoint,
            labels=rest.labels,
            encoders=_encoders,
            unknown_signature=rest.unknown_signature,
            limit_s=rest.limit_s,
            caller=rest.caller,
            large_request=INT64_MAX,  # raw bodies take no time to decode
        )

    async def answer(self, request: Request, model: ModelSpec, began: float) -> Reply:
        """Run `serving_default` on the body of a POST. See `rest.RunModel`."""
        held = Lease(BUDGET)  # held until the reply is made
        with self._plane.counting_refusals(model.name, self._rest, Api.PREDICT):
            body = await read_body(request, self._max_body_bytes, held)
        asked = InferRequest(model, "", partial(_decoded, body), len(body), None, (), request.head)
        return await self._plane.predict(asked, self._interface, began)


def _decoded(body: bytes, signature: Signature) -> Decoded:
    return body_of(signature, body), None


def _encoders(
    servable: Servable, signature: Signature, outputs: Sequence[str]
) -> Mapping[object, Encode[Reply]]:
    check_takes_bytes(signature)
    return {None: partial(_encoded, signature)}


def _encoded(signature: Signature, outputs: Mapping[str, Array]) -> Reply:
    content_type, body = reply_of(signature, outputs)
    return Reply(200, ((b"content-type", content_type.encode()),), body)
