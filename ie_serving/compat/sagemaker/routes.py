"""`POST /invocations`, as Amazon SageMaker and its TensorFlow Serving container have it.

The body is JSON, JSON lines, CSV or an array of numpy (`application/x-npy`), by its Content-Type;
it becomes TensorFlow Serving's JSON, or an array. The reply is JSON, or what Accept names first of
these. `X-Amzn-SageMaker-Custom-Attributes` chooses model, version and method.

Source: SageMaker's documentation of custom inference code and of that container.
"""

import dataclasses
import enum
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from ie_serving.compat.sagemaker.arrays import as_input, read_npy, write_csv, write_npy
from ie_serving.compat.sagemaker.bodies import CSV, JSON, JSON_LINES, NPY, body_of, is_lines
from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import InvalidRequest, UnknownEncoding
from ie_serving.core.values.integers import INT64_MAX
from ie_serving.core.values.requests import Decoded, InferRequest, ModelSpec
from ie_serving.core.values.tensors import Signature
from ie_serving.inference.interface import Api, Encode
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.other_servers import OtherFront, RestParts
from ie_serving.server.fronts.rest.body import read_body, with_body
from ie_serving.server.fronts.tfs.rest_interface import LARGE_BODY
from ie_serving.server.transport.http1.body import Octets
from ie_serving.server.transport.http1.messages import Reply, Request, RequestHead
from ie_serving.wire.json.rapidjson.document import parse_document
from ie_serving.wire.json.request import (
    Format,
    PredictBody,
    SlicedBody,
    parse_at_once,
    parse_predict,
)

PATH: Final = b"/invocations"
VERB: Final = "ask"
"""The right that a call needs, a verb of `gate/rights.py`. A header names the model, which the gate
does not read: so its caller must be one of all models."""
ATTRIBUTES: Final = b"x-amzn-sagemaker-custom-attributes"
PREDICT: Final = "predict"
_ATTRIBUTE: Final = re.compile(r"tfs-([a-z-]+)=([^,]+)")
_METHODS: Final = (PREDICT, "classify", "regress")
_KINDS: Final = (JSON, *JSON_LINES, CSV, NPY)
_DIGITS: Final = len(str(INT64_MAX))


class ReplyKind(enum.Enum):
    """Forms of replies beside JSON."""

    CSV = CSV
    NPY = NPY


class SageMakerRoutes(OtherFront[str]):
    """Answers `POST /invocations` by the model's signature."""

    def __init__(self, parts: RestParts) -> None:
        super().__init__(parts)
        rest = parts.interface
        self._interface = dataclasses.replace(rest, encoders=partial(_encoders, rest.encoders))
        self._model = self._server.invocations_model
        """Answers where no attribute names another one."""

    async def _reply(self, request: Request, found: str) -> Reply:
        began, head = time.perf_counter(), request.head
        held = Lease(BUDGET)  # until the reply is made
        with self._plane.counting_refusals(self._model, self._interface, Api.PREDICT):
            model, method = _attributes(head, self._model)
            kind, form = _kind(head), _accepted(head)
            body = await read_body(request, self._server.max_message_bytes, held)
            if method != PREDICT and kind != JSON:
                raise UnknownEncoding(f"{method} takes application/json alone: send JSON")
            asked = await _read(kind, body, model, form) if method == PREDICT else None
        if asked is None:
            return await self._api.run(method, with_body(request, body), model)
        asked.caller = head
        reply = await self._plane.predict(asked, self._interface, began)
        if form in JSON_LINES:
            # JSON of few numbers is written over several lines, which end within no string.
            reply = bytes(reply).replace(b"\n", b"")
        return Reply(200, ((b"content-type", form or JSON),), reply)


def asked(head: RequestHead) -> str | None:
    """Tell whether a request is for the route, which names no model; None where it is not."""
    return "" if head.method == "POST" and head.path == PATH else None


def _attributes(head: RequestHead, default: str) -> tuple[ModelSpec, str]:
    """Read model, version and method. Raises: InvalidRequest."""
    text = head.fields.get(ATTRIBUTES, b"").decode("latin-1")
    given = dict(_ATTRIBUTE.findall(text))
    method = given.get("method", PREDICT).strip()
    if method not in _METHODS:
        raise InvalidRequest(f"tfs-method is {method[:80]!r}; expected {', '.join(_METHODS)}")
    version = given.get("model-version", "").strip()
    is_number = version.isascii() and version.isdecimal() and len(version) < _DIGITS
    if version and not is_number:
        raise InvalidRequest(f"tfs-model-version is {version[:80]!r}; expected a number")
    name = given.get("model-name", default).strip()
    return ModelSpec(name, int(version) if version else None), method


def _kind(head: RequestHead) -> bytes:
    """Tell what the body is; JSON where nothing says it. Raises: UnknownEncoding."""
    given = head.fields.get(b"content-type", JSON)
    kind = given.partition(b";")[0].strip().lower()
    if kind not in _KINDS:
        known = b", ".join(_KINDS).decode()
        raise UnknownEncoding(f"Content-Type is {given[:80].decode('latin-1')!r}; expected {known}")
    return kind


def _accepted(head: RequestHead) -> bytes:
    """Tell which reply is wanted: the first that is known; empty for JSON."""
    for each in head.fields.get(b"accept", b"").lower().split(b","):
        kind = each.partition(b";")[0].strip()
        if kind in _KINDS:
            return b"" if kind == JSON else kind
    return b""


async def _read(kind: bytes, body: bytes, model: ModelSpec, form: bytes) -> InferRequest:
    """Parse a body. Raises: InvalidRequest."""
    size, is_large = len(body), len(body) >= LARGE_BODY
    other = ReplyKind(form) if form in (CSV, NPY) else None
    if kind == NPY:
        return InferRequest(model, "", partial(_of_array, body, other), size)
    text = await in_thread(body_of, kind, body) if is_large else body_of(kind, body)
    try:
        parsed: PredictBody | SlicedBody | None = parse_at_once(text)
        if parsed is None:
            parsed = await in_thread(parse_predict, text)
            size = max(size, LARGE_BODY)  # to decode it takes long, too
    except InvalidRequest:
        if text is not body:  # the place of a fault in what was made of it is not the client's
            await in_thread(_blame, kind, body)
        raise
    name, decode = parsed.signature_name, parsed.decode
    if other is not None:
        return InferRequest(model, name, partial(_as, decode, other), size)
    return InferRequest(model, name, decode, size, parsed.decode_at_once)


def _blame(kind: bytes, body: bytes) -> None:
    """Find where a body breaks off from JSON, which `body_of` has taken as it came.

    Raises:
        InvalidRequest: with the line of JSON lines, and the offset there or in the body.
    """
    if kind == CSV:
        return
    if not is_lines(kind, body):
        parse_document(body)
        return
    for number, line in enumerate(body.splitlines(), 1):
        try:
            if line.strip():
                parse_document(line)
        except InvalidRequest as error:
            raise InvalidRequest(f"line {number}: {error}") from None


def _of_array(body: bytes, form: ReplyKind | None, signature: Signature) -> Decoded:
    return as_input(read_npy(body), signature), form or Format.ROW


def _as(decode: Callable[[Signature], Decoded], form: ReplyKind, signature: Signature) -> Decoded:
    return decode(signature)[0], form


def _encoders(
    of_json: Callable[[Servable, Signature, Sequence[str]], Mapping[object, Encode[Octets]]],
    servable: Servable,
    signature: Signature,
    outputs: Sequence[str],
) -> Mapping[object, Encode[Octets]]:
    others: Mapping[object, Encode[Octets]] = {ReplyKind.CSV: write_csv, ReplyKind.NPY: write_npy}
    return {**of_json(servable, signature, outputs), **others}
