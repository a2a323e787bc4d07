"""Log lines as one JSON object each, for log collectors.

    {"time": "2026-11-21T09:00:00.123Z", "level": "INFO", "logger": "ie_serving.models.stream",
     "message": "version loaded", "pid": 7, "fields": {"model": "m", "version": 2}}

For an `Event`, `message` is its constant text, and `fields` has its facts: numbers stay numbers.
Values are masked before they are quoted, since masking the finished line could remove a quote.
"""

import json
import logging
import logging.handlers
import math
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from numbers import Integral, Real

from ie_serving.telemetry.log.events import MASK, Event, is_secret, mask, shortened

Scalar = str | int | float | bool | None

_write: Callable[[object], str] = json.JSONEncoder(separators=(",", ":")).encode
"""Encoder of values in ASCII, so that no character ends a line or controls a terminal."""


class JsonFormatter(logging.Formatter):
    """Writes a record of any logger as one object on one line, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record; a traceback is its field `exception`."""
        line = head(record.created, record.levelname, record.name, record.process)
        if isinstance(record.msg, Event):
            line["message"] = mask(record.msg.text)
            line["fields"] = fields(record.msg.facts)
        else:
            line["message"] = mask(record.getMessage())
        if record.exc_info:
            line["exception"] = mask(shortened(self.formatException(record.exc_info)))
        if record.stack_info:
            line["stack"] = mask(self.formatStack(record.stack_info))
        return write(line)


def head(created: float, level: str, logger: str, process: int | None) -> dict[str, object]:
    """Return the first fields of every line; `created` is the time in seconds since 1970."""
    return {
        "time": written_time(created),
        "level": level,
        "logger": logger,
        "message": "",
        "pid": process,
    }


def written_time(created: float) -> str:
    """Write a time in the form of RFC 3339, in UTC, with milliseconds."""
    return f"{written_second(int(created))}.{int(created * 1000) % 1000:03d}Z"


@lru_cache(maxsize=16)  # a busy server writes many lines in a second
def written_second(created: int) -> str:
    """Write the time without milliseconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created))


def fields(facts: Mapping[str, object]) -> dict[str, Scalar]:
    """Convert facts to JSON values, without secrets."""
    # Checked by name, too: a value in a field of its own need not look like a credential.
    return {name: MASK if is_secret(name) else _scalar(value) for name, value in facts.items()}


def write(line: Mapping[str, object]) -> str:
    """Write an object on one line."""
    return _write(line)


def _scalar(value: object) -> Scalar:
    # Checked first: in Python a boolean is an integer.
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Integral):  # numpy's, too
        return int(value)
    # JSON has no NaN and no infinity: they become text.
    if isinstance(value, Real) and math.isfinite(value):
        return float(f"{float(value):.6g}")  # as many digits as in a line of text
    return mask(str(value))
