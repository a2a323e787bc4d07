"""Forms: splits multipart/form-data, reads it as the body of a Predict, and encodes other replies.

A form has files for inputs of images or strings, and JSON for others. A file's field is named by
its input; with one input any name does. Files of one input are a batch, in their order.
`signature_name` is a field, too, as it is a key in JSON. The reply is that of `instances`: a list
with an entry for each row; `out_filter` selects outputs, and `out_mime_type` another form: the
bytes of one output, or a list of texts. Source: the HTTP proxy of kibernetika-serving.

It takes the forms of browsers, curl and the usual libraries: lines that end in CRLF, a
Content-Disposition with `name` and `filename`. Other forms are refused rather than
guessed. Sources: RFC 7578, RFC 2046 section 5.1.
"""

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, DataType, Signature, TensorSpec, strings
from ie_serving.wire.json.document import SIGNATURE_NAME
from ie_serving.wire.json.inputs import open_specs
from ie_serving.wire.json.pretty import DENSE, encoded, quoted_text
from ie_serving.wire.json.rapidjson.document import parse_document
from ie_serving.wire.json.request import Format
from ie_serving.wire.json.tensor import decode_tensor

KIND: Final = b"multipart/form-data"
MOST_PARTS: Final = 1000
"""Parts of one body: more images than that belong into several requests."""
MOST_HEADERS: Final = 4096
"""Bytes of the headers of one part; they hold a name, a file name and a type."""

_BOUNDARY = re.compile(rb';\s*boundary=(?:"([^"]+)"|([^\s;"]+))', re.IGNORECASE)
_PARAMETER = re.compile(r';\s*(\w+\*?)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')
_ESCAPED = re.compile(r"\\([\\\"])")

MIME: Final = "out_mime_type"
_MIME_TYPE: Final = re.compile(r"[a-z0-9.+-]+/[a-z0-9.+*-]+(;[ !-:<-~]*)?", re.IGNORECASE)
"""Types that are safe in a header of the reply: ASCII without line ends."""
FILTER: Final = "out_filter"
FIELDS: Final = (SIGNATURE_NAME, FILTER, MIME)
"""Fields that are no inputs, unless they are files."""


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of the form.

    Attributes:
        name: name of the field.
        is_file: whether it has a file name.
        data: a view of the body.
    """

    name: str
    is_file: bool
    data: memoryview


def is_form(content_type: bytes) -> bool:
    """Tell whether a header Content-Type announces a form."""
    return content_type[: len(KIND)].lower() == KIND


def parts_of(body: bytes, content_type: bytes) -> list[FormField]:
    """Cut a body into its parts; the views keep it alive.

    Raises:
        InvalidRequest: no boundary, a part without an end or a name, too many parts.
    """
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise _fault("Content-Type names no boundary")
    return list(_parts(body, b"--" + (found[1] or found[2])))


def _parts(body: bytes, delimiter: bytes) -> Iterator[FormField]:
    at = _first(body, delimiter)
    view = memoryview(body)
    # One round more than there may be parts: the last one meets the delimiter that closes the form.
    for _ in range(MOST_PARTS + 1):
        at = _line_end(body, at + len(delimiter))
        if at < 0:  # the delimiter that closes the form
            return
        # Where a part is empty, the next delimiter follows the line end before it.
        end = body.find(b"\r\n" + delimiter, at - 2)
        if end < 0:
            raise _fault("a part does not end with the boundary that Content-Type names")
        yield _part(body, view, at, max(at, end))
        at = end + 2
    raise _fault(f"more than {MOST_PARTS} parts: send them in several requests")


def _first(body: bytes, delimiter: bytes) -> int:
    """Give where the first delimiter begins: at the start of the body, or of one of its lines."""
    if body.startswith(delimiter):
        return 0
    line_end = body.find(b"\r\n" + delimiter)
    if line_end < 0:
        raise _fault("no part begins with the boundary that Content-Type names")
    return line_end + 2


def _line_end(body: bytes, at: int) -> int:
    """Give where the line after a delimiter ends; -1 behind the closing one."""
    if body.startswith(b"--", at):
        return -1
    end = body.find(b"\r\n", at, at + MOST_HEADERS)
    # Blanks may stand there: RFC 2046 has gateways of mail fill lines up with them.
    if end < 0 or body[at:end].strip(b" \t"):
        raise _fault("something stands behind a boundary in its line")
    return end + 2


def _part(body: bytes, view: memoryview, at: int, end: int) -> FormField:
    # A part without headers begins with the empty line; its missing name is reported.
    split = body.find(b"\r\n\r\n", max(at - 2, 0), min(end, at + MOST_HEADERS))
    if split < 0:
        raise _fault(f"the headers of a part do not end within {MOST_HEADERS} bytes")
    parameters = _disposition(body[at : max(at, split)])
    if not parameters.get("name"):
        raise _fault("a part has no name in its Content-Disposition")
    is_file = "filename" in parameters or "filename*" in parameters
    return FormField(parameters["name"], is_file, view[split + 4 : end])


def _disposition(headers: bytes) -> dict[str, str]:
    for line in headers.split(b"\r\n"):
        key, _, value = line.partition(b":")
        if key.strip().lower() == b"content-disposition":
            # A name that is no UTF-8 is taken as it is: no input has it, so it counts as unknown.
            text = value.decode("utf-8", "surrogateescape")
            return {
                name.lower(): _ESCAPED.sub(r"\1", quoted) or plain
                for name, quoted, plain in _PARAMETER.findall(text)
            }
    return {}


def _fault(text: str) -> InvalidRequest:
    return InvalidRequest(
        f"the body is not the form that Content-Type announces: {text}; send multipart/form-data"
        " as curl -F does, or JSON"
    )


class ReplyForm(enum.Enum):
    """The form of a reply."""

    JSON = "application/json"
    """An object with the outputs."""
    TEXTS = "text/plain"
    """A JSON list of strings."""
    RAW = "the type that is asked for"
    """The bytes of the one output."""


def form_of(mime_type: str) -> ReplyForm:
    """Give the requested form; the empty type is JSON.

    Raises:
        InvalidRequest: it is no media type.
    """
    if mime_type and not _MIME_TYPE.fullmatch(mime_type):
        raise InvalidRequest(f"{MIME} is {mime_type[:80]!r}; expected a type such as image/png")
    kind = mime_type.partition(";")[0].strip().lower()
    if kind.startswith(("image/", "video/", "audio/")) or kind == "application/octet-stream":
        return ReplyForm.RAW
    return ReplyForm.TEXTS if kind == ReplyForm.TEXTS.value else ReplyForm.JSON


def encode_raw(outputs: Mapping[str, Array]) -> bytes:
    """Give the bytes of the one output there is.

    Raises:
        InvalidRequest: there are several outputs, or it is not the bytes of one file.
    """
    if len(outputs) != 1:
        raise InvalidRequest(
            f"{MIME} asks for one output, and there are {', '.join(outputs) or 'none'}: name one in"
            " out_filter"
        )
    ((name, array),) = outputs.items()
    values = _flat(array)
    if len(values) != 1 or not isinstance(values[0], bytes):
        raise InvalidRequest(f'output "{name}" is not the bytes of one file: ask for it as JSON')
    return values[0]


def encode_texts(outputs: Mapping[str, Array]) -> bytes:
    """Write the strings of all outputs as one list.

    Raises:
        InvalidRequest: an output holds no strings.
    """
    texts = [_text(name, each) for name, array in outputs.items() for each in _flat(array)]
    return encoded(DENSE.array([quoted_text(each) for each in texts], 0))


def _flat(array: Array) -> list[object]:
    return list(array.ravel().tolist())


def _text(name: str, value: object) -> str:
    if not isinstance(value, bytes):
        raise InvalidRequest(f'output "{name}" holds no texts: ask for it as JSON')
    return value.decode("utf-8", "replace")


class FormBody:
    """The body of a Predict that is a form, its inputs not yet decoded.

    Attributes:
        signature_name: the requested signature; empty for `serving_default`.
        outputs: names of the requested outputs; empty for all.
        media_type: media type of the reply; empty for JSON.
    """

    __slots__ = ("_form", "_parts", "media_type", "outputs", "signature_name")

    def __init__(self, parts: Sequence[FormField]) -> None:
        # Inputs may have these names, too; a file is never one of these fields.
        self._parts = [part for part in parts if part.is_file or part.name not in FIELDS]
        texts = {name: _texts(parts, name) for name in FIELDS}
        self.signature_name = ",".join(texts[SIGNATURE_NAME][:1])
        names = (name.strip() for text in texts[FILTER] for name in text.split(","))
        self.outputs = tuple(name for name in names if name)
        mime_type = ",".join(texts[MIME][:1]).strip()
        self._form = form_of(mime_type)
        self.media_type = mime_type if self._form is ReplyForm.RAW else ""

    def decode(self, signature: Signature) -> tuple[dict[str, Array], Format | ReplyForm]:
        """Decode all inputs; see `PredictBody.decode`.

        Raises:
            InvalidRequest: a field that is no input, a file for numbers, or invalid JSON.
        """
        fields: dict[str, list[FormField]] = {}
        for part in self._parts:
            name = part.name if signature.takes_any else _input_of(part, signature.inputs)
            fields.setdefault(name, []).append(part)
        specs = _open_specs(fields, signature) if signature.takes_any else signature.inputs
        arrays = {name: _decoded(specs[name], parts) for name, parts in fields.items()}
        return arrays, Format.ROW if self._form is ReplyForm.JSON else self._form

    def decode_at_once(self, _: Signature) -> None:
        """Never do so: files are seldom small."""


def parse_form(body: bytes, content_type: bytes) -> FormBody:
    """Find the fields of a form.

    Raises:
        InvalidRequest: it is none.
    """
    return FormBody(parts_of(body, content_type))


def _texts(parts: Sequence[FormField], name: str) -> list[str]:
    found = (part.data for part in parts if part.name == name and not part.is_file)
    return [str(data, "utf-8", "replace") for data in found]


def _input_of(part: FormField, inputs: Mapping[str, TensorSpec]) -> str:
    if part.name in inputs:
        return part.name
    if len(inputs) == 1 and part.is_file:
        return next(iter(inputs))
    known = ", ".join(sorted(inputs))
    raise InvalidRequest(f'the form has a field "{part.name}"; the inputs are {known}')


def _open_specs(
    fields: Mapping[str, Sequence[FormField]], signature: Signature
) -> Mapping[str, TensorSpec]:
    """Give specs to undeclared fields: files are strings."""
    texts = {
        name: parse_document(bytes(parts[0].data))
        for name, parts in fields.items()
        if not parts[0].is_file
    }
    told = open_specs(texts, signature.behind) if texts else {}
    return {n: told.get(n) or TensorSpec(n, DataType.STRING, None, "") for n in fields}


def _decoded(spec: TensorSpec, parts: Sequence[FormField]) -> Array:
    takes_bytes = spec.dtype is DataType.STRING or spec.image is not None
    # An input of images takes numbers as well, as JSON; only a file name tells the two apart.
    if takes_bytes and (parts[0].is_file or spec.dtype is DataType.STRING):
        return strings([bytes(part.data) for part in parts])
    if parts[0].is_file:
        raise InvalidRequest(
            f"input {spec} takes numbers, and no images: send them as JSON, in a field without a"
            " file name"
        )
    if len(parts) > 1:
        raise InvalidRequest(f'the form has {len(parts)} fields "{spec.name}"; send one of JSON')
    return decode_tensor(parse_document(bytes(parts[0].data)), spec.dtype)
