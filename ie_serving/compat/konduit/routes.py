"""`POST /predict`, as Konduit Serving has it: data as JSON or as a form, to the model `default`.

A form's text fields are strings, or what they say as JSON numbers, booleans, lists and objects;
files that begin as pictures do are images, others bytes. Errors are
`{"errorCode": ..., "errorMessage": ...}`. Konduit answers each of them with 500, and asks for a
header Accept; here the client's own mistakes are 400, and a request without Accept gets JSON.
Source: InferenceVerticleHttp and its ErrorResponse.
"""

import base64
import json
import time
from typing import Any, Final

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import ModelSpec
from ie_serving.inference.interface import Api
from ie_serving.server.fronts.other_servers import OtherFront
from ie_serving.server.fronts.rest.body import read_body, with_body
from ie_serving.server.fronts.rest.replies import refusal
from ie_serving.server.transport.http1.messages import Headers, Reply, Request, RequestHead
from ie_serving.wire.form import is_form, parts_of

PATH: Final = b"/predict"
MODEL: Final = "default"
VERB: Final = "invoke"
"""The right that a call needs, a verb of `gate/rights.py`."""
JSON: Final[Headers] = ((b"content-type", b"application/json"),)
BAD_REQUEST: Final = 400
LARGE_FORM: Final = 64 * 1024
"""Bytes of a form from which it is read in a thread: it becomes base64 at some ns a byte."""

PARSING: Final = "DATA_PARSING_ERROR"
NO_TYPE: Final = "MISSING_OR_EMPTY_CONTENT_TYPE_HEADER"
WRONG_TYPE: Final = "INVALID_CONTENT_TYPE_HEADER"
WRONG_ACCEPT: Final = "INVALID_ACCEPT_HEADER"
FAILED: Final = "PIPELINE_PROCESSING_ERROR"

_PICTURES: Final = {b"\x89PNG": "PNG", b"\xff\xd8\xff": "JPG", b"GIF8": "GIF", b"BM": "BMP"}
"""Formats by the first bytes of a file."""


class _HeadRefused(InvalidRequest):
    """A request that is refused by its head, with Konduit's code."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def model_asked(head: RequestHead) -> str | None:
    """Name the model where a request is for the pipeline; None for any other request."""
    return MODEL if head.method == "POST" and head.path == PATH else None


class KonduitRoutes(OtherFront[str]):
    """Answers the route."""

    async def _reply(self, request: Request, found: str) -> Reply:
        held = Lease(BUDGET)  # until the reply is made
        with self._plane.counting_refusals(MODEL, self._interface, Api.PREDICT):
            _check_head(request.head)
            if is_form(request.head.fields[b"content-type"]):
                request = await self._read(request, held)
        reply = await self._api.invoke(request, ModelSpec(MODEL), time.perf_counter())
        return reply._replace(headers=JSON)

    async def _read(self, request: Request, held: Lease) -> Request:
        """Give a request with a form as one with JSON."""
        body = await read_body(request, self._server.max_message_bytes, held)
        kind = request.head.fields[b"content-type"]
        is_large = len(body) >= LARGE_FORM
        data = await in_thread(data_of, body, kind) if is_large else data_of(body, kind)
        return with_body(request, data)

    def _refusal(self, error: Exception) -> Reply:
        """Phrase an error with Konduit's words."""
        reply = refusal(error)
        text = json.loads(bytes(reply.body))["error"]
        usual = PARSING if reply.status == BAD_REQUEST else FAILED
        code = error.code if isinstance(error, _HeadRefused) else usual
        body = json.dumps({"errorCode": code, "errorMessage": text}).encode()
        return reply._replace(body=body)


def _check_head(head: RequestHead) -> None:
    """Refuse headers that this route does not support. Raises: InvalidRequest."""
    kind = head.fields.get(b"content-type", b"").lower()
    if not kind:
        raise _HeadRefused(NO_TYPE, "Content-Type is missing; expected application/json")
    if not (kind.startswith(b"application/json") or is_form(kind)):
        text = f"Content-Type is {kind.decode('latin-1')}; expected application/json or a form"
        raise _HeadRefused(WRONG_TYPE, text)
    accept = head.fields.get(b"accept", b"").lower()
    if accept and not any(each in accept for each in (b"application/json", b"/*")):
        text = f"Accept is {accept.decode('latin-1')}; replies are application/json"
        raise _HeadRefused(WRONG_ACCEPT, text)


def data_of(body: bytes, kind: bytes) -> bytes:
    """Make data as JSON of a form. Raises: InvalidRequest."""
    found: dict[str, Any] = {}
    try:
        for part in parts_of(body, kind):
            data = bytes(part.data)
            found[part.name] = _file(data) if part.is_file else _field(data, part.name)
        return json.dumps(found).encode()
    except RecursionError:
        raise InvalidRequest(
            "a field's lists or objects lie too deep within each other: send flatter data"
        ) from None


def _file(data: bytes) -> dict[str, str]:
    text = base64.b64encode(data).decode()
    for begin, form in _PICTURES.items():
        if data.startswith(begin):
            return {"@ImageFormat": form, "@ImageData": text}
    return {"@BytesBase64": text}


def _field(data: bytes, name: str) -> Any:  # noqa: ANN401 (whatever JSON has)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f'field "{name}" is no text in UTF-8: send it as a file') from None
    try:
        return json.loads(text)
    except ValueError:
        return text
