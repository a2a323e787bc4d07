"""Converts bodies in JSON, JSON lines and CSV to the JSON of TensorFlow Serving.

Source: the TensorFlow Serving container of Amazon SageMaker, which takes these media types.
"""

import json
import math
import re
from typing import Final

from ie_serving.core.values.errors import InvalidRequest

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
