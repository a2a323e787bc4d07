"""The calls of the page as programs in several languages."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import ModelSpec
from ie_serving.wire.clients import sample
from ie_serving.wire.clients.sample import (
    FileContent,
    JsonPost,
    NestedValue,
    SamplePieces,
    checked_url,
    path_of,
)

LANGUAGES: Final = ("python", "go", "javascript")
VERBS: Final = ("predict", "classify", "regress")
_VALUE: Final = re.compile(r"true|false|-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|\"\"")
_ODD: Final = re.compile(r"[^A-Za-z0-9._ ()-]")
"""Characters of file names that programs replace: one of the languages is a shell."""
_ASCII: Final = re.compile(r"[ -~]*")
_MALFORMED: Final = (
    *(ValueError, LookupError, TypeError, AttributeError),
    *(OverflowError, RecursionError),  # from a size of Infinity, and from deeply nested lists
)
"""Errors that parsing raises for a malformed call."""


def programs(body: bytes) -> dict[str, str]:
    """Write a call as a program in every language; return them by language.

    Args:
        body: JSON with `url` of the server, `model`, `version` or `label`, `verb`, and `pieces`,
            which together are the body of the call: texts, `{"value", "sizes"}` for lists of one
            repeated value, and `{"file"}` for the base64 of a file.

    Raises:
        InvalidRequest: the body has another form.
    """
    try:
        call = _call(json.loads(body))
    except KeyError as error:
        raise InvalidRequest(f'the call has no "{error.args[0]}", which it must have') from None
    except _MALFORMED as error:
        raise InvalidRequest(f"the call has another form than expected: {error!r:.200}") from error
    written = {language: sample.program(language, call) for language in LANGUAGES}
    return {"curl": sample.command(call), **written}


def _call(asked: Mapping[str, Any]) -> JsonPost:
    version, label = asked.get("version"), asked.get("label")
    model = ModelSpec(
        str(asked["model"]),
        None if version is None else int(version),
        None if label is None else str(label),
    )
    if asked["verb"] not in VERBS:
        raise ValueError(f"verb: expected one of {', '.join(VERBS)}")
    url = f"{checked_url(asked['url'])}{path_of(model)}:{asked['verb']}"
    return JsonPost(url, _pieces(asked["pieces"]))


def _pieces(given: list[Any]) -> SamplePieces:
    return [_piece(each) for each in given]


def _piece(given: Any) -> str | NestedValue | FileContent:  # noqa: ANN401  whatever JSON says
    if isinstance(given, str):
        return _text(given)
    if "file" in given:
        return FileContent(_ODD.sub("_", str(given["file"])).lstrip("-.") or "file")
    value, sizes = str(given["value"]), tuple(map(int, given["sizes"]))
    if not _VALUE.fullmatch(value) or min(sizes, default=1) < 0:
        raise ValueError(
            "expected a filled value that is a number, true or an empty text, of sizes from 0"
        )
    return NestedValue(value, sizes)


def _text(given: str) -> str:
    """Return JSON in pure ASCII: other characters occur only in strings, which have escapes."""
    text = "".join(each if each.isascii() else json.dumps(each)[1:-1] for each in given)
    if not _ASCII.fullmatch(text):
        raise ValueError("a piece holds control characters: send JSON without line ends")
    return text
