"""`POST /predict/[MODEL[/SIGNATURE[/VERSION]]]`, as kibernetika-serving answers it.

One model answers, whatever MODEL says. Errors are plain text. A body has arrays by name, and the
form of the reply:

JSON: {"inputs": {NAME: {"dtype": number of tensorflow.DataType, "data": value}},
       "out_filter": [NAME, ...], "out_mime_type": "image/png"}
Forms: fields `{type}_{input}`, and `out_filters`, `out_mime_type`.

Source: the HTTP proxy of kibernetika-serving. Here a value that is no `bool`, an unknown type and a
field without one are refused, and `uint16` stays what it is.
"""

import base64
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Final
from urllib.parse import unquote

import numpy as np

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import InvalidRequest, NotFound, ServingError
from ie_serving.core.values.integers import INT64_MAX
from ie_serving.core.values.requests import InferRequest, ModelSpec
from ie_serving.core.values.tensors import BY_NUMBER, Array, Arrays, DataType, Signature, strings
from ie_serving.inference.interface import Api, Encode
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.other_servers import OtherFront, RestParts
from ie_serving.server.fronts.rest.body import read_body, typed
from ie_serving.server.fronts.tfs.rest_interface import LARGE_BODY
from ie_serving.server.status import explain, http_of
from ie_serving.server.transport.http1.body import Octets
from ie_serving.server.transport.http1.messages import Headers, Reply, Request, RequestHead
from ie_serving.wire.form import (
    MIME,
    FormField,
    ReplyForm,
    encode_raw,
    encode_texts,
    form_of,
    is_form,
    parts_of,
)
from ie_serving.wire.json.pretty import DENSE, encoded, quoted_text, value_of
from ie_serving.wire.json.rapidjson.document import JsonValue, parse_document
from ie_serving.wire.json.tensor import decode_tensor

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


INPUTS, FILTER = "inputs", "out_filter"
FORM_FILTER: Final = "out_filters"
RAW_INPUT: Final = "raw_input"
LONGEST_SHOWN: Final = 100
"""Characters of a wrong value in an error; it may be as long as the request."""

TYPES: Final[Mapping[str, DataType]] = {
    "float": DataType.FP32,
    "double": DataType.FP64,
    "int": DataType.INT32,
    "int8": DataType.INT8,
    "int16": DataType.INT16,
    "int32": DataType.INT32,
    "int64": DataType.INT64,
    "uint8": DataType.UINT8,
    "uint16": DataType.UINT16,
    "bool": DataType.BOOL,
    "byte": DataType.STRING,
    "bytes": DataType.STRING,
    "string": DataType.STRING,
    "strings": DataType.STRING,
}
"""Types of form fields by the words before their names."""
SCALARS: Final = ("byte", "string")
"""Types by which a file is one string, not a list of one."""
BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class FormRequest:
    """A request.

    Attributes:
        values: values of the inputs by name: arrays, or JSON that is still to be decoded.
        outputs: names of those that are wanted; none are all.
        mime_type: type of the reply that the client asks for; empty for JSON.
    """

    values: Mapping[str, "tuple[DataType, JsonValue] | Array"]
    outputs: tuple[str, ...] = ()
    mime_type: str = ""
    form: ReplyForm = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "form", form_of(self.mime_type))

    def decode(self, _: Signature) -> tuple[dict[str, Array], ReplyForm]:
        """Give all inputs. Raises: InvalidRequest for a value that its dtype cannot hold."""
        arrays = {
            name: value if isinstance(value, np.ndarray) else _decoded(name, *value)
            for name, value in self.values.items()
        }
        return arrays, self.form


def parse(body: bytes, content_type: bytes) -> FormRequest:
    """Read a body.

    Raises:
        InvalidRequest: naming the place and what was expected there.
    """
    return _of_form(parts_of(body, content_type)) if is_form(content_type) else _of_json(body)


def _decoded(name: str, dtype: DataType, value: JsonValue) -> Array:
    try:
        return decode_tensor(value, dtype)
    except InvalidRequest as error:
        raise InvalidRequest(f'input "{name}": {error}') from error


# -- JSON -------------------------------------------------------------------------------------


def _of_json(body: bytes) -> FormRequest:
    document = parse_document(body)
    inputs = document.get(INPUTS) if isinstance(document, dict) else None
    if not isinstance(inputs, dict):
        raise InvalidRequest('expected {"inputs": {NAME: {"dtype": 1, "data": [...]}}}')
    mime_type = document.get(MIME) or ""
    if not isinstance(mime_type, str):
        raise InvalidRequest(f'"{MIME}" must be a text, such as "image/png"')
    values = {name: _typed(name, value) for name, value in inputs.items()}
    return FormRequest(values, _names(document.get(FILTER)), mime_type)


def _names(given: JsonValue) -> tuple[str, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise InvalidRequest(f'"{FILTER}" must be a list of names of outputs')
    return tuple(given)


def _typed(name: str, value: JsonValue) -> tuple[DataType, JsonValue]:
    if not isinstance(value, dict) or "data" not in value:
        raise InvalidRequest(f'input "{name}": expected {{"dtype": 1, "data": [...]}}')
    number = value.get("dtype")
    dtype = BY_NUMBER.get(number) if type(number) is int else None
    if dtype is None:
        known = ", ".join(f"{each.number} ({each.word})" for each in DataType)
        has = str(number)[:LONGEST_SHOWN]
        raise InvalidRequest(f'input "{name}": dtype {has} given; expected one of {known}')
    return dtype, value["data"]


# -- forms ------------------------------------------------------------------------------------


def _of_form(parts: Sequence[FormField]) -> FormRequest:
    special: dict[str, str] = {}
    fields: dict[str, list[FormField]] = {}
    for part in parts:
        if part.name in (FORM_FILTER, MIME, RAW_INPUT) and not part.is_file:
            special[part.name] = _text(part)
        else:
            fields.setdefault(part.name, []).append(part)
    if special.get(RAW_INPUT, "no") not in ("no", "false", ""):
        raise InvalidRequest(f"{RAW_INPUT} is not supported: send each input as a field of its own")
    values: dict[str, Array] = {}
    for field_name, given in fields.items():
        name, array = _input(field_name, given)
        if name in values:
            raise InvalidRequest(f'input "{name}" is sent with several types: send it once')
        values[name] = array
    wanted = (each.strip() for each in special.get(FORM_FILTER, "").split(","))
    return FormRequest(values, tuple(each for each in wanted if each), special.get(MIME, ""))


def _text(part: FormField) -> str:
    return str(part.data, "utf-8", "replace").strip()


def _input(field_name: str, parts: Sequence[FormField]) -> tuple[str, Array]:
    kind, _, name = field_name.partition("_")
    if kind not in TYPES or not name:
        raise InvalidRequest(
            f'field "{field_name}": expected TYPE_INPUT, such as float_x; types are'
            f" {', '.join(TYPES)}"
        )
    return name, _file(kind, name, parts) if parts[0].is_file else _texts(kind, name, parts)


def _file(kind: str, name: str, parts: Sequence[FormField]) -> Array:
    dtype = TYPES[kind]
    if dtype is not DataType.STRING:
        if len(parts) > 1:
            raise InvalidRequest(f'input "{name}": {len(parts)} files; send one')
        return np.frombuffer(parts[0].data, np.uint8).astype(dtype.numpy)  # a number for each byte
    found = [bytes(part.data) for part in parts]
    if kind in SCALARS and len(found) == 1:
        return strings(found).reshape(())
    return strings(found)


def _texts(kind: str, name: str, parts: Sequence[FormField]) -> Array:
    dtype = TYPES[kind]
    words = [word.strip() for part in parts for word in _text(part).split(",")]
    if dtype is DataType.STRING:
        return strings([word.encode() for word in words])
    try:
        if dtype is DataType.BOOL:
            return np.array([BOOLEANS[word.lower()] for word in words], np.bool_)
        read = float if dtype.numpy.kind == "f" else int
        return np.array([read(word) for word in words], dtype.numpy)
    except (ValueError, KeyError, OverflowError) as error:
        given = ",".join(words)[:LONGEST_SHOWN]
        raise InvalidRequest(f'input "{name}": expected {kind}, got {given!r}') from error
