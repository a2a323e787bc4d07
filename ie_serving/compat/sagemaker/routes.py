"""`POST /invocations`, as Amazon SageMaker and its TensorFlow Serving container have it.

The body is JSON, JSON lines, CSV or an array of numpy (`application/x-npy`), by its Content-Type;
it becomes TensorFlow Serving's JSON, or an array. The reply is JSON, or what Accept names first of
these. `X-Amzn-SageMaker-Custom-Attributes` chooses model, version and method.

A file of numpy is read without numpy's own reader, which believes the shape before it has seen the
bytes.

Source: SageMaker's documentation of custom inference code and of that container; numpy.lib.format.
"""

import dataclasses
import enum
import io
import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import InvalidRequest, UnknownEncoding
from ie_serving.core.values.integers import INT64_MAX
from ie_serving.core.values.requests import Decoded, InferRequest, ModelSpec
from ie_serving.core.values.tensors import Array, Arrays, Signature
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

JSON: Final = b"application/json"
JSON_LINES: Final = (b"application/jsonlines", b"application/jsons", b"application/x-ndjson")
CSV: Final = b"text/csv"
NPY: Final = b"application/x-npy"

_OWN: Final = re.compile(rb'"(?:instances|inputs|examples)"\s*:')
"""Keys that mark a body of TensorFlow Serving."""
_LINES: Final = re.compile(rb"[}\]][ \t\r]*\n\s*[\[{]")
"""Values with nothing but a line end between them, which no single value has."""
_ROWS: Final = re.compile(rb"\s*\[\s*\[")
_FIELD: Final = re.compile(r'(?:[ \t]*"((?:[^"]|"")*)"[ \t]*|([^,"]*))(,|$)')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""A number in JSON."""
_NEARLY: Final = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|[+-]?inf(?:inity)?|nan", re.IGNORECASE
)
"""Further forms of numbers that programs write."""


def body_of(kind: bytes, body: bytes) -> bytes:
    """Give a body as TensorFlow Serving's JSON.

    Args:
        kind: `JSON`, one of `JSON_LINES`, or `CSV`.
        body: body of the request.

    Raises:
        InvalidRequest: CSV that is none. JSON is not checked here.
    """
    if kind == CSV:
        return _of_csv(body)
    if _OWN.search(body):
        return body
    if is_lines(kind, body):
        return b'{"instances":[%b]}' % b",".join(filter(None, map(bytes.strip, body.splitlines())))
    return (b'{"instances":%b}' if _ROWS.match(body) else b'{"instances":[%b]}') % body


def is_lines(kind: bytes, body: bytes) -> bool:
    """Tell whether a body of `kind` is one value a line."""
    return kind in JSON_LINES or bool(_LINES.search(body))


def _of_csv(body: bytes) -> bytes:
    """Give each line as a row; where there is one column, as a value."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"the CSV is no text in UTF-8, at byte {error.start}: send it in UTF-8"
        ) from None
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise InvalidRequest("the CSV has no lines: send a line for each row")
    rows = [_row(line, number) for number, line in enumerate(lines, 1)]
    return b'{"instances":[%b]}' % ",".join(rows).encode()


def _row(line: str, number: int) -> str:
    values: list[str] = []
    at, ends = 0, ","
    while ends:
        found = _FIELD.match(line, at)
        if found is None:
            raise InvalidRequest(
                f"line {number} of the CSV has a quote within a field; expected the whole field in"
                " quotes, and each quote in it twice"
            )
        quoted, plain, ends = found.groups()
        values.append(_value(plain) if quoted is None else json.dumps(quoted.replace('""', '"')))
        at = found.end()
    return values[0] if len(values) == 1 else f"[{','.join(values)}]"


def _value(text: str) -> str:
    """Write a field without quotes: a number where it is one, else a string."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return text
    if not _NEARLY.fullmatch(text):
        return json.dumps(text)
    number = float(text)
    # What JSON has no number for is spelled as TensorFlow Serving reads it.
    return repr(number) if math.isfinite(number) else json.dumps(number)


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


_MAGIC: Final = b"\x93NUMPY"
_LONGEST_HEADER: Final = 4096
"""Bytes of a header; a longer one is refused before it is parsed. numpy's headers
of arrays of numbers are shorter."""
_HEADER: Final = re.compile(
    rb"\{'descr': '([<>|=]?[biuf][0-9]{1,2})', 'fortran_order': (True|False),"
    rb" 'shape': \(((?:[0-9]{1,12},? ?){0,32})\),? ?\} *\n"
)
"""A header as numpy writes it; types without objects, which a file could run code by."""


def read_npy(body: bytes) -> Array:
    """Read an array; a view of the body where its bytes lie as this machine has them.

    Raises:
        InvalidRequest: it is no such file, of a dtype that is no number, or not as long as it says.
    """
    size_bytes = {1: 2, 2: 4, 3: 4}.get(body[6], 0) if len(body) > len(_MAGIC) else 0
    start = len(_MAGIC) + 2 + size_bytes
    size = int.from_bytes(body[len(_MAGIC) + 2 : start], "little")
    if not body.startswith(_MAGIC) or not size_bytes or size > _LONGEST_HEADER:
        raise InvalidRequest("the body is no .npy file of numpy; expected what numpy.save writes")
    found = _HEADER.fullmatch(body[start : start + size])
    if found is None:
        raise InvalidRequest("the .npy file holds no array of numbers; expected one, not objects")
    shape = tuple(int(each) for each in found[3].replace(b",", b" ").split())
    return _array(body[start + size :], found[1].decode(), shape, found[2] == b"True")


def _array(data: bytes, code: str, shape: tuple[int, ...], by_columns: bool) -> Array:
    try:
        dtype = np.dtype(code)
    except TypeError:
        raise InvalidRequest(
            f"the .npy file is of dtype {code}, which there is not: save it with a dtype of numpy"
        ) from None
    expected = dtype.itemsize
    for each in shape:  # in Python's integers, which do not overflow
        expected *= each
    if len(data) != expected:
        raise InvalidRequest(
            f"the .npy file has {len(data)} bytes of values; expected {expected} by its shape"
        )
    try:
        array = np.frombuffer(data, dtype).reshape(shape, order="F" if by_columns else "C")
    except ValueError as error:  # of no values, and by its other sizes larger than any memory
        raise InvalidRequest(f"the .npy file: expected a shape of numpy: {error}") from error
    return np.asarray(array, dtype.newbyteorder("="), order="C")


def as_input(array: Array, signature: Signature) -> dict[str, Array]:
    """Give an array as the one input of a signature.

    Raises:
        InvalidRequest: it has several inputs, or one of another kind of values, or one that has no
            room for these integers.
    """
    if len(signature.inputs) != 1:
        names = ", ".join(signature.inputs) or "none that is named"
        raise InvalidRequest(f"an array is for one input; the model has {names}: send JSON")
    ((name, spec),) = signature.inputs.items()
    wanted = spec.dtype.numpy
    # Integers may become floats, and 64 bits 32, as numbers of JSON do; floats no integers.
    if wanted.hasobject or not np.can_cast(array.dtype, wanted, "same_kind"):
        raise InvalidRequest(f'input "{name}" is {spec.dtype.word}; the array is {array.dtype}')
    cast = array.astype(wanted, copy=False)
    # A cast would keep the lower bits of an integer that does not fit, and say nothing.
    if wanted.kind in "iu" and not np.can_cast(array.dtype, wanted) and (cast != array).any():
        raise InvalidRequest(
            f'input "{name}" is {spec.dtype.word}; the array, {array.dtype}, has numbers beyond it'
        )
    return {name: cast}


def write_npy(outputs: Arrays) -> bytes:
    """Write the one output. Raises: InvalidRequest."""
    array = _single_output(outputs)
    if array.dtype.hasobject:
        raise InvalidRequest("the output holds strings, which .npy has not: ask for JSON")
    written = io.BytesIO()
    np.save(written, array, allow_pickle=False)
    return written.getvalue()


def write_csv(outputs: Arrays) -> bytes:
    """Write the one output, a line for each row. Raises: InvalidRequest."""
    array = _single_output(outputs)
    if not array.ndim:
        array = array.reshape(1)
    # The length of a row is computed: numpy cannot derive it if there are no rows.
    rows = array.reshape(len(array), math.prod(array.shape[1:])).tolist()
    return "".join(",".join(map(_field, row)) + "\n" for row in rows).encode()


def _single_output(outputs: Arrays) -> Array:
    if len(outputs) != 1:
        raise InvalidRequest(
            f"CSV and .npy have room for one output, and there are {', '.join(outputs) or 'none'}:"
            " ask for JSON"
        )
    (array,) = outputs.values()
    return array


def _field(value: object) -> str:
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace").replace('"', '""')
        return f'"{text}"'
    return str(value)
