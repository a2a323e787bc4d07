"""Content of log lines: an event with a constant text and facts; and masking of secrets.

Text that looks like a secret is masked in every line, tracebacks included: a last defence, not a
licence to log secrets. Every event has its row in `docs/reference/log-events.md`; a test compares
the two.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from types import MappingProxyType
from typing import Final

_ABOUT: Final[ContextVar[Mapping[str, object]]] = ContextVar("about", default=MappingProxyType({}))
"""Facts that each event of this context has."""

MASK = "***"

# "user:password@" of a URL. A slash ends it, so that an @ in a path is not masked.
_USER_INFO = re.compile(r"(?<=://)[^/\s@]+(?=@)")
# "name: value" and "name=value", quoted or not, as in headers, queries, JSON and reprs of clients.
# Only the value is replaced: the name shows the operator which credential it was.
_NAMED_SECRET = re.compile(
    r"""(?ix)
    (?P<name> (?: secret (?: [_-]? (?:access[_-]?)? key )? | access[_-]?key (?:[_-]?id)?
                       | password | passwd | credential | authorization
                       | api[_-]?key
                       | (?: amz- | goog- | [?&] ) signature
                       | (?: auth | access | security ) [_-]? token )
              ["']? \s* [=:] \s* (?: bearer \s+ | basic \s+ )? )
    (?: "[^"]*" | '[^']*' | [^\s"'&,;)}]+ )
    """
)
LONGEST_TRACEBACK = 16_384
"""Characters. The text of an exception may be as long as a request: a search of 10 MB for secrets
took 1.3 s, in which the event loop answered no request."""
# Characters of a single value, for readers that split a line at blanks and "=".
_BARE = re.compile(r'[^\s"=\\]+')


@contextmanager
def about(**facts: object) -> Iterator[None]:
    """Add facts to each event that is made in this context, unless the event has its own.

    So what an engine logs during a load names model and version, which it does not know.
    """
    token = _ABOUT.set({**_ABOUT.get(), **facts})
    try:
        yield
    finally:
        _ABOUT.reset(token)


About = Callable[[], AbstractContextManager[None]]
"""Adds facts to each event that is made in its context."""


def carried() -> About:
    """Give what adds the facts of this context to later events, as those of a load to requests'."""
    return partial(about, **_ABOUT.get())


class Event:
    """What happened: a constant text and facts; formatted only when a line is written.

    `log.info(Event("version available", model=name, version=7, fetch_s=1.9))`

    Attributes:
        text: the constant text.
        facts: facts by name.
    """

    __slots__ = ("facts", "text")

    def __init__(self, event: str, /, **facts: object) -> None:
        self.text = event
        around = _ABOUT.get()
        # Behind the event's own: a reader that knows how a line began still finds it.
        self.facts = {**facts, **around, **facts} if around else facts

    def __str__(self) -> str:
        facts = (f" {name}={render(value)}" for name, value in self.facts.items())
        return self.text + "".join(facts)


def render(value: object) -> str:
    """Write the value of one fact so that a reader can split the line at its blanks.

    Text with blanks, quotes, `=` or control characters is put in double quotes, escaped as in
    JSON; a float has six significant digits.
    """
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    if _BARE.fullmatch(text) and text.isprintable():
        return text
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped(quoted)}"'


def mask(text: str) -> str:
    """Replace text that looks like a credential: user info of URLs, values named as secrets."""
    if "=" not in text and ":" not in text:  # every credential form has one of them
        return text
    return _NAMED_SECRET.sub(rf"\g<name>{MASK}", _USER_INFO.sub(MASK, text))


def shortened(text: str) -> str:
    """Cut out the middle of a traceback that is too long."""
    half = LONGEST_TRACEBACK // 2
    if len(text) <= 2 * half:
        return text
    # Whole lines: after a cut within a line, a secret could appear without its name.
    tail = text[-half:].partition("\n")[2]
    left_out = len(text) - half - len(tail)
    return f"{text[:half]}\n... {left_out} characters are left out ...\n{tail}"


def is_secret(name: str) -> bool:
    """Return whether a value called `name` is a credential, whatever it looks like."""
    return _NAMED_SECRET.search(f"{name}=x") is not None


def escaped(text: str) -> str:
    """Escape characters that could end a line or control a terminal."""
    if text.isprintable():  # nearly every line, and one call in C
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
