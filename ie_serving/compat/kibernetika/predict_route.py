"""`POST /predict/[MODEL[/SIGNATURE[/VERSION]]]`, as kibernetika-serving answers it.

One model answers, whatever MODEL says. Errors are plain text. Source: the HTTP proxy of
kibernetika-serving.
"""

import base64
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Final
from urllib.parse import unquote

from ie_serving.compat.kibernetika.predict_body import FormRequest, parse
from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import NotFound, ServingError
from ie_serving.core.values.integers import INT64_MAX
from ie_serving.core.values.requests import InferRequest, ModelSpec
from ie_serving.core.values.tensors import Arrays, Signature
from ie_serving.inference.interface import Api, Encode
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.other_servers import OtherFront, RestParts
from ie_serving.server.fronts.rest.body import read_body
from ie_serving.server.fronts.rest.replies import typed
from ie_serving.server.fronts.tfs.rest_interface import LARGE_BODY
from ie_serving.server.status import explain, http_of
from ie_serving.server.transport.http1.body import Octets
from ie_serving.server.transport.http1.messages import Headers, Reply, Request, RequestHead
from ie_serving.wire.form import ReplyForm, encode_raw, encode_texts
from ie_serving.wire.json.pretty import DENSE, encoded, quoted_text, value_of

DIGITS: Final = len(str(INT64_MAX))
PREFIX: Final = b"/predict"
VERB: Final = "predict"
"""The right that a call needs, a verb of `gate/rights.py`."""
PLAIN: Final[Headers] = ((b"content-type", b"text/plain; charset=utf-8"),)
NOT_POST: Final = Reply(405, (*PLAIN, (b"allow", b"POST")), b"POST is expected\n")


class PredictRoute(OtherFront[bool]):
    """Answers `POST /predict`, in JSON or a form."""

    def __init__(self, parts: RestParts) -> None:
        super().__init__(parts)
        self._model = self._server.answering_model
        self._interface = replace(
            parts.interface, encoders=_encoders, unknown_signature=_unknown_signature
        )

    async def _reply(self, request: Request, found: bool) -> Reply:
        if request.head.method != "POST":
            return NOT_POST
        began = time.perf_counter()
        held = Lease(BUDGET)  # until the reply is made
        with self._plane.counting_refusals(self._model, self._interface, Api.PREDICT):
            spec = _asked_model(self._model, request.head.path)
            body = await read_body(request, self._server.max_message_bytes, held)
            read = partial(parse, body, request.head.fields.get(b"content-type", b""))
            asked: FormRequest = await in_thread(read) if len(body) >= LARGE_BODY else read()
        size, wanted = len(body), asked.outputs
        infer = InferRequest(spec, spec.signature, asked.decode, size, None, wanted, request.head)
        reply = await self._plane.predict(infer, self._interface, began)
        mime_type = asked.mime_type if asked.form is ReplyForm.RAW else ReplyForm.JSON.value
        return Reply(200, typed(mime_type), reply)

    def _refusal(self, error: Exception) -> Reply:
        told = explain(error)
        body = f"{told.whole}\n".encode("utf-8", "replace")
        return Reply(http_of(error, told.code), PLAIN, body)


def asked(head: RequestHead) -> bool | None:
    """Tell whether a request is for this route; None where it is not."""
    return head.path == PREFIX or head.path.startswith(PREFIX + b"/") or None


@lru_cache(maxsize=256)
def _asked_model(model: str, path: bytes) -> ModelSpec:
    """Read the path; what stands for MODEL is not looked at. Raises: NotFound."""
    parts = [unquote(each) for each in path.decode("latin-1").strip("/").split("/")[1:]]
    _, signature, version, *more = [*parts, "", "", ""][: max(3, len(parts))]
    # More digits are no 64-bit number, and int() of very many is slow.
    wrong = version and not (version.isascii() and version.isdecimal() and len(version) < DIGITS)
    if more or wrong:
        raise NotFound(
            f"{path.decode('latin-1')}: expected /predict/[MODEL[/SIGNATURE[/VERSION]]], VERSION a"
            " number"
        )
    return ModelSpec(model, int(version) if version else None, signature=signature)


def _encoders(
    servable: Servable, signature: Signature, outputs: Sequence[str]
) -> Mapping[object, Encode[Octets]]:
    from ie_serving.wire.tfs.predict import chosen

    def written(found: Mapping[str, object], form: ReplyForm) -> bytes:
        # Outputs that are known beforehand are already limited to the requested ones.
        return encode(chosen(found, outputs) if outputs else found, form)  # type: ignore[arg-type]

    return {form: partial(written, form=form) for form in ReplyForm}


def _unknown_signature(servable: Servable, name: str) -> ServingError:
    return NotFound(f'there is no signature "{name}"; there is {servable.signature_names}')


def encode(outputs: Arrays, form: ReplyForm) -> bytes:
    """Encode a reply.

    Args:
        outputs: arrays by name; not kept.
        form: form of the request.

    Raises:
        InvalidRequest: the outputs have no such form.
    """
    if form is ReplyForm.RAW:
        return encode_raw(outputs)
    if form is ReplyForm.TEXTS:
        return encode_texts(outputs)
    values = {name: value_of(array, DENSE, _quoted) for name, array in outputs.items()}
    return encoded(DENSE.object(values, 0))


def _quoted(value: bytes) -> str:
    """Write a string; bytes that are no text as TensorFlow Serving's REST API does."""
    try:
        return quoted_text(value.decode())
    except UnicodeDecodeError:
        return DENSE.object({"b64": f'"{base64.b64encode(value).decode()}"'}, 0)
