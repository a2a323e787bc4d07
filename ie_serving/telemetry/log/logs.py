"""Sets up logging: destination, level and form of the lines.

    2026-11-21 09:00:00,123 - ie_serving.models.version.loader - INFO - version loaded model=m ...

This is the line format of 2020; `json_lines` has the other one. The loggers of this server follow
the chosen level, and so does what users' code logs by any logger, unless it sets a level of its
own. Libraries log at WARNING or above, since storage clients print credentials at DEBUG.

The next line reopens a log file that was moved away. SIGUSR1 closes it at once, so that the
rotating program may compress or remove it.
"""

import logging
import logging.handlers
import re
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Final, Protocol, TextIO

from ie_serving.core.values.errors import ServingError
from ie_serving.telemetry.log.events import (
    MASK,
    About,
    Event,
    about,
    carried,
    escaped,
    mask,
    render,
    shortened,
)
from ie_serving.telemetry.log.json_lines import JsonFormatter
from ie_serving.telemetry.log.progress import make_room

log = logging.getLogger(__name__)

__all__ = ["MASK", "OWN", "About", "Event", "about", "carried", "configure", "mask", "render"]

OWN = "ie_serving"
USERS: list[str] = []
"""Beginnings of the paths of users' code, once for each version that runs it."""
_left_out: list[str] = []
"""Loggers whose lines at INFO are left out, see `without_details`."""
_LIBRARIES = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
"""Part of the path of installed code, whose environment may lie beside that of users."""
CHOSEN: dict[str, str] = {}
"""Path and form of the last `configure`; empty before."""
TELL_S: Final = 60.0
"""Seconds between two warnings that a log file lacks lines, which stderr has."""
FORMAT = "%(asctime)s - %(name)s - %(levelname)s - %(message)s"


def configure(level: str, path: str = "", form: str = "text") -> None:
    """Send log lines to stderr and, when `path` is given, to that file as well.

    The file is reopened when it was moved away, as log rotation does. A further call replaces the
    set-up of the previous one.

    Args:
        level: least severe level of this server's own lines that is logged.
        path: file that the lines are appended to; empty for none.
        form: form of the lines, one of `FORMS`. In JSON, Python's warnings are log lines, too.

    Raises:
        ServingError: the file cannot be opened.
    """
    handlers: list[logging.Handler] = [_Stderr()]
    if path:
        handlers.append(_file_handler(path))
    root = logging.getLogger()
    _remove_ours(root)
    CHOSEN.update(path=path, form=form)
    for handler in handlers:
        handler.setFormatter(FORMS[form]())
        handler.addFilter(_is_heard)
        root.addHandler(handler)
    _set(level)
    # Python's warnings have several lines of text, which a reader of JSON could not parse.
    logging.captureWarnings(form == "json")


def chosen() -> Mapping[str, str]:
    """Return the arguments by which `configure` makes the same log in a child process."""
    return {"level": level(), **CHOSEN}


def hear(directory: str) -> None:
    """Log what the code of users logs whose paths begin with `directory`, at the server's level."""
    USERS.append(directory)
    if CHOSEN and len(USERS) == 1:  # the level is set: by an earlier version, or by `configure`
        _set(level())


def unhear(directory: str) -> None:
    """Take one `hear` back."""
    USERS.remove(directory)


def level() -> str:
    """Return the level of this server's own lines."""
    return logging.getLevelName(logging.getLogger(OWN).level)


def change(level: str) -> None:
    """Set another level, and log that if INFO is logged before or after."""
    numbers = (logging.getLogger(OWN).level, getattr(logging, level))
    _set(logging.getLevelName(min(numbers)))
    log.info(Event("log level changed", level=level))
    _set(level)


@contextmanager
def without_details(loggers: tuple[str, ...]) -> Iterator[None]:
    """Leave out what these loggers and those below them log at INFO, unless DEBUG is logged.

    Not in JSON, whose readers count lines and need no summary.
    """
    taken = loggers if CHOSEN.get("form") == "text" and level() != "DEBUG" else ()
    _left_out.extend(taken)
    try:
        yield
    finally:
        for each in taken:
            _left_out.remove(each)


def _set(level: str) -> None:
    # Records of libraries are made below WARNING only where there is users' code, whose loggers may
    # have any name; `_is_heard` then drops them.
    least = logging.NOTSET if USERS else logging.WARNING
    logging.getLogger().setLevel(max(least, getattr(logging, level)))
    logging.getLogger(OWN).setLevel(level)


def _is_heard(record: logging.LogRecord) -> bool:
    """Tell whether a record is one of ours, of users' code, or important."""
    if _left_out and record.levelno == logging.INFO:
        name = f"{record.name}."
        if any(name.startswith(f"{each}.") for each in _left_out):
            return False
    if record.levelno >= logging.WARNING or f"{record.name}.".startswith(f"{OWN}."):
        return True
    path = record.pathname
    return path.startswith(tuple(USERS)) and not _LIBRARIES.search(path)


# Handlers of others (pytest, an embedding program) stay: ours are recognised by their formatter.
def _remove_ours(root: logging.Logger) -> None:
    ours = (TextFormatter, JsonFormatter)
    for old in [handler for handler in root.handlers if isinstance(handler.formatter, ours)]:
        root.removeHandler(old)
        old.close()


class _Stderr(logging.StreamHandler[TextIO]):
    """Standard error; a line of progress there makes room for each line of the log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        make_room()
        super().emit(record)


# Several workers append to one file, so none of them may rotate it; a rotating program moves it.
class _LogFile(logging.handlers.WatchedFileHandler):
    """A log file that is reopened when it was moved away, and on request."""

    _lost = 0
    _tell_at = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; if the file cannot be opened or written, the line is on stderr alone."""
        try:
            super().emit(record)
        except OSError:
            # Logging reopens the file outside of its own guard: the caller would fail.
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        """Count a line that a full disk, for example, keeps from the file; say so now and then."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._lost += 1
        if (now := time.monotonic()) < self._tell_at:
            return  # also the warning below, which this file does not take either
        self._tell_at, lines, self._lost = now + TELL_S, self._lost, 0
        cause = error.strerror or str(error)
        log.warning(Event("log file lines lost", path=self.baseFilename, lines=lines, cause=cause))

    def reopen(self) -> None:
        """See `ReopenableFile`."""
        with self.lock or nullcontext(), suppress(OSError):
            self.reopenIfNeeded()


def _file_handler(path: str) -> logging.Handler:
    try:
        # UTF-8 cannot encode some texts from elsewhere; stderr writes them so, too.
        file = _LogFile(path, encoding="utf-8", errors="backslashreplace")
        register(file)
        return file
    except OSError as error:
        raise ServingError(
            f'log file "{path}" cannot be opened: {error.strerror}: name a file in a directory '
            "that exists and that this user may write to"
        ) from error


class TextFormatter(logging.Formatter):
    """Writes a message of any logger on one line, and masks secrets."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        """Return the line of a record without its traceback."""
        record.message = escaped(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return all lines of a record, including its traceback, without secrets."""
        text = super().format(record)
        return mask(shortened(text) if record.exc_info else text)


FORMS: Mapping[str, Callable[[], logging.Formatter]] = {
    "text": TextFormatter,
    "json": JsonFormatter,
}
"""Formatter by the word of the setting."""


class ReopenableFile(Protocol):
    """An object that writes to a file."""

    def reopen(self) -> None:
        """Reopen the file if it was moved away. Never raises."""


# Weak references: `configure` drops the files of an earlier call without unregistering them.
_opened: "weakref.WeakSet[ReopenableFile]" = weakref.WeakSet()


def register(file: ReopenableFile) -> None:
    """Make `reopen` include `file`, as long as the object exists."""
    _opened.add(file)


def reopen() -> None:
    """Reopen all files. Never raises."""
    for file in list(_opened):
        file.reopen()
