"""Log lines: a constant event, then its facts, in the line format of 2020.

    2026-11-21 09:00:00,123 - ie_serving.models.version.loader - INFO - version loaded model=m ...

Only this server's own loggers follow the chosen level. Everything else logs at WARNING or above,
since storage clients print credentials at DEBUG. What looks like a secret is masked in every line,
tracebacks included: a last defence, not a licence to log one. Every event has its row in
`docs/operations.md`, which a test compares with the calls.
"""

import logging
import logging.handlers
import re

from ie_serving.core.errors import ServingError

OWN = "ie_serving"
FORMAT = "%(asctime)s - %(name)s - %(levelname)s - %(message)s"
MASK = "***"

# "user:password@" of a URL. The slash ends it, so that an @ in a path is left alone.
_USER_INFO = re.compile(r"(?<=://)[^/\s@]+(?=@)")
# "name: value" and "name=value", quoted or not, as headers, queries, JSON and reprs of clients have
# it. The value alone is replaced: the name tells the operator which credential it was.
_NAMED_SECRET = re.compile(
    r"""(?ix)
    (?P<name> (?: secret (?: [_-]? (?:access[_-]?)? key )? | access[_-]?key (?:[_-]?id)?
                       | password | passwd | credential | authorization
                       | (?: amz- | goog- | [?&] ) signature
                       | (?: auth | access | security ) [_-]? token )
              ["']? \s* [=:] \s* (?: bearer \s+ | basic \s+ )? )
    (?: "[^"]*" | '[^']*' | [^\s"'&,;)}]+ )
    """
)
# What a reader that splits a line at blanks and "=" takes for one value.
_BARE = re.compile(r'[^\s"=\\]+')


class Event:
    """What happened, in constant words, and its facts; becomes text only when a line is written.

    `log.info(Event("version available", model=name, version=7, fetch_s=1.9))`
    """

    __slots__ = ("_event", "_facts")

    def __init__(self, event: str, /, **facts: object) -> None:
        self._event = event
        self._facts = facts

    def __str__(self) -> str:
        facts = (f" {name}={render(value)}" for name, value in self._facts.items())
        return self._event + "".join(facts)


def render(value: object) -> str:
    """Write one fact's value so that a line splits at its blanks again.

    Text with blanks, quotes, `=` or control characters stands in double quotes, escaped as in
    JSON; a float has six significant digits.
    """
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    if _BARE.fullmatch(text) and text.isprintable():
        return text
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_one_line(quoted)}"'


def mask(text: str) -> str:
    """Replace what looks like a credential: user info of URLs, values named as secrets."""
    return _NAMED_SECRET.sub(rf"\g<name>{MASK}", _USER_INFO.sub(MASK, text))


def configure(level: str, path: str = "") -> None:
    """Send log lines to stderr and, when `path` is given, to that file as well.

    The file is opened anew when it was moved away, as log rotation does. Calling this again
    replaces what the last call set up.

    Raises:
        ServingError: the file cannot be opened.
    """
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if path:
        handlers.append(_file_handler(path))
    root = logging.getLogger()
    _remove_ours(root)
    for handler in handlers:
        handler.setFormatter(_Formatter(FORMAT))
        root.addHandler(handler)
    root.setLevel(max(logging.WARNING, logging.getLevelName(level)))
    logging.getLogger(OWN).setLevel(level)


# Handlers of others (pytest's, an embedding program's) stay: ours are known by their formatter.
def _remove_ours(root: logging.Logger) -> None:
    for old in [handler for handler in root.handlers if isinstance(handler.formatter, _Formatter)]:
        root.removeHandler(old)
        old.close()


def _file_handler(path: str) -> logging.Handler:
    try:
        # Several workers append to one file, so none of them may rotate it; whoever does, moves it.
        return logging.handlers.WatchedFileHandler(path, encoding="utf-8")
    except OSError as error:
        raise ServingError(
            f'log file "{path}" cannot be opened: {error.strerror}: name a file in a directory '
            "that exists and that this user may write to"
        ) from error


class _Formatter(logging.Formatter):
    """Keeps a message on one line, whoever logged it, and masks secrets."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        """Give the line of a record without its traceback."""
        record.message = _one_line(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Give all lines of a record, those of a traceback too, without secrets."""
        return mask(super().format(record))


def _one_line(text: str) -> str:
    """Escape whatever could end a line or steer a terminal."""
    if text.isprintable():  # nearly every line, and one call in C
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
