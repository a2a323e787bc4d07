"""Splits multipart/form-data into views of the body. Source: RFC 7578, RFC 2046 section 5.1.

It takes the forms of browsers, curl and the usual libraries: lines that end in CRLF, a
Content-Disposition with `name` and `filename`. Other forms are refused rather than guessed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ie_serving.core.values.errors import InvalidRequest

KIND: Final = b"multipart/form-data"
MOST_PARTS: Final = 1000
"""Parts of one body: more images than that belong into several requests."""
MOST_HEADERS: Final = 4096
"""Bytes of the headers of one part; they hold a name, a file name and a type."""

_BOUNDARY = re.compile(rb';\s*boundary=(?:"([^"]+)"|([^\s;"]+))', re.IGNORECASE)
_PARAMETER = re.compile(r';\s*(\w+\*?)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')
_ESCAPED = re.compile(r"\\([\\\"])")


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of the form.

    Attributes:
        name: of the field.
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
        # From the line end before: the next delimiter follows it at once where a part is empty.
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
