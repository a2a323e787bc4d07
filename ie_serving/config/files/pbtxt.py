"""Parses protocol buffer text without message definitions, to names with values. Pure.

`graph.pbtxt` names options by types that only MediaPipe has, which `google.protobuf.text_format`
cannot read.
"""

import re
from collections.abc import Iterator
from typing import Any


class TextMessage(dict[str, list[Any]]):
    """Values by the names of their fields, in their order: texts, numbers, booleans and messages.

    Attributes:
        line: number of its first line.
    """

    line = 1


MOST_NESTED = 50
"""Messages within one another."""

_TOKEN = re.compile(
    r"""\s*(?:\#[^\n]*)?(?:
        (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
        |(?P<type>\[[\w./ ]*\](?=\s*[:{<]))
        |(?P<word>[-+]?[\w.]+)
        |(?P<sign>[][{}<>:;,])
        |(?P<end>$)
    )?""",
    re.VERBOSE,
)


def read(text: str) -> TextMessage:
    """Read a message. Strings lose their escapes; a list in brackets is a field that repeats.

    Raises:
        ValueError: naming the line with the syntax error.
    """
    return _PbtxtReader(text).message("", 0)


class _PbtxtReader:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._kind, self._token, self._line = next(self._tokens)

    def message(self, end: str, depth: int) -> TextMessage:
        if depth > MOST_NESTED:
            raise ValueError(
                f"line {self._line}: more than {MOST_NESTED} messages within messages; nest fewer"
            )
        found = TextMessage()
        while self._token != end:
            kind, name = self._kind, self._take()
            if kind not in ("word", "type"):
                raise ValueError(
                    f"line {self._line}: expected a field's name, got {name or 'the end'}"
                )
            found.setdefault(_short_type(name), []).extend(self._values(depth))
            if self._token in (",", ";"):
                self._take()
        if end:
            self._take()
        return found

    def _values(self, depth: int) -> Iterator[Any]:
        if self._token == ":":
            self._take()
        if self._token != "[":
            yield self._value(depth)
            return
        self._take()
        while self._token != "]":
            yield self._value(depth)
            if self._token != "]" and self._take() != ",":
                raise ValueError(f"line {self._line}: a list without its end; close it with ]")
        self._take()

    def _value(self, depth: int) -> Any:  # noqa: ANN401
        line = self._line
        if self._token in ("{", "<"):
            found = self.message("}" if self._take() == "{" else ">", depth + 1)
            found.line = line
            return found
        kind, token = self._kind, self._take()
        if kind == "text":
            text = _unquoted(token)
            while self._kind == "text":  # strings side by side are one
                text += _unquoted(self._take())
            return text
        if kind != "word":
            raise ValueError(f"line {line}: expected a value, got {token or 'the end'}")
        return _scalar(token)

    def _take(self) -> str:
        token = self._token
        self._kind, self._token, self._line = next(self._tokens, ("end", "", self._line))
        return token


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    at, line = 0, 1
    while True:
        found = _TOKEN.match(text, at)
        assert found is not None  # it matches nothing, too
        line += text.count("\n", at, found.end())
        kind = found.lastgroup
        if kind is None and found.end() == at:
            raise ValueError(
                f"line {line}: expected the text form of a protocol buffer, got"
                f" {text[at : at + 10]!r}"
            )
        at = found.end()
        if kind is not None:
            yield kind, found[kind], line
        if kind == "end":
            return


def _unquoted(token: str) -> str:
    return re.sub(r"\\(.)", r"\1", token[1:-1])


def _short_type(name: str) -> str:
    """Give the last part of a type: `[type.googleapis.com / mediapipe.X]` is X."""
    return name.strip("[] ").rsplit(".", 1)[-1].strip() if name.startswith("[") else name


def _scalar(token: str) -> Any:  # noqa: ANN401
    if token in ("true", "false"):
        return token == "true"
    for kind in (int, float):
        try:
            return kind(token)
        except ValueError:
            continue
    return token
