"""Kinds of options: each converts a JSON value to the value that a step's function takes."""

import re
from collections.abc import Sequence
from typing import Any, TypeGuard

from ie_serving.engines.steps.declaration import REQUIRED, Find, Option, Unexpected

MOST_LABELS = 1_000_000
"""Most lines of a file of labels: the largest vocabularies have some hundred thousand."""


def whole(least: int, most: int, default: Any = REQUIRED) -> Option:  # noqa: ANN401
    """A whole number."""
    form = f"a whole number from {least} to {most}"

    def read(value: object, _: Find | None) -> int:
        # By exact type: in Python a bool is an int as well.
        if type(value) is not int or not least <= value <= most:
            raise Unexpected(form)
        return value

    return Option(read=read, form=form, default=default)


def real(least: float, most: float, default: Any = REQUIRED) -> Option:  # noqa: ANN401
    """A number."""
    form = f"a number from {least:g} to {most:g}"

    def read(value: object, _: Find | None) -> float:
        if not _is_number(value) or not least <= value <= most:
            raise Unexpected(form)
        return float(value)

    return Option(read=read, form=form, default=default)


def flag(default: bool) -> Option:
    """True or false."""

    def read(value: object, _: Find | None) -> bool:
        if not isinstance(value, bool):
            raise Unexpected("true or false")
        return value

    return Option(read=read, form="true or false", default=default)


def word(*words: str, default: Any = REQUIRED) -> Option:  # noqa: ANN401
    """One of a few words."""
    form = f"one of {', '.join(words)}"

    def read(value: object, _: Find | None) -> str:
        if value not in words:
            raise Unexpected(form)
        return str(value)

    return Option(read=read, form=form, default=default)


def text(form: str, default: Any = REQUIRED) -> Option:  # noqa: ANN401
    """Any text that is not empty."""

    def read(value: object, _: Find | None) -> str:
        if not isinstance(value, str) or not value:
            raise Unexpected(form)
        return value

    return Option(read=read, form=form, default=default)


def pattern(default: str) -> Option:
    """A regular expression, compiled."""
    form = "a regular expression"

    def read(value: object, _: Find | None) -> "re.Pattern[str]":
        try:
            return re.compile(value) if isinstance(value, str) else _no(form)
        except re.error as error:
            raise Unexpected(f"{form}: {error}") from None

    return Option(read=read, form=form, default=re.compile(default))


def numbers(lengths: Sequence[int], default: tuple[float, ...]) -> Option:
    """A number, or a list whose length is one of `lengths`."""
    form = f"a number, or a list of {' or '.join(map(str, lengths))}"

    def read(value: object, _: Find | None) -> tuple[float, ...]:
        several: list[object] = value if isinstance(value, list) else [value]
        found = tuple(float(each) for each in several if _is_number(each))
        if len(several) not in (1, *lengths) or len(found) != len(several):
            raise Unexpected(form)
        return found

    return Option(read=read, form=form, default=default)


def pairs(form: str) -> Option:
    """A list of pairs of numbers; none by default."""

    def read(value: object, _: Find | None) -> tuple[tuple[float, float], ...]:
        several: list[Any] = value if isinstance(value, list) else [None]
        if not all(isinstance(each, list) and len(each) == 2 for each in several):
            raise Unexpected(form)
        if not all(_is_number(number) for each in several for number in each):
            raise Unexpected(form)
        return tuple((float(a), float(b)) for a, b in several)

    return Option(read=read, form=form, default=())


def names(form: str, default: Any = ()) -> Option:  # noqa: ANN401
    """A list of texts."""

    def read(value: object, _: Find | None) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise Unexpected(form)
        return tuple(value)

    return Option(read=read, form=form, default=default)


def columns(form: str) -> Option:
    """Column numbers by name."""

    def read(value: object, _: Find | None) -> dict[str, int]:
        if not isinstance(value, dict) or not value:
            raise Unexpected(form)
        if not all(type(each) is int and each >= 0 for each in value.values()):
            raise Unexpected(form)
        return dict(value)

    return Option(read=read, form=form)


def labels() -> Option:
    """Names of classes by their numbers: a list, or a file with a line for each."""
    form = 'a list of names, or a text file with one in each line, such as "labels.txt"'

    def read(value: object, find: Find | None) -> tuple[str, ...]:
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        if not isinstance(value, str) or not value:
            raise Unexpected(form)
        return _lines(find, value) if find else ()

    return Option(read=read, form=form, default=())


def _lines(find: Find, name: str) -> tuple[str, ...]:
    try:
        lines = find(name).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Unexpected(f"a text file in UTF-8: {error}") from None
    if len(lines) > MOST_LABELS:
        raise Unexpected(f"at most {MOST_LABELS} lines")
    return tuple(line.strip() for line in lines)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _no(form: str) -> Any:  # noqa: ANN401
    raise Unexpected(form)
