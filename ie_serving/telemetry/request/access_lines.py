"""The lines of the access log: the same columns in each, in text or in JSON.

    2026-11-21 09:00:00,123 - ie_serving.access - INFO - request answered id=... client=... ...

An unknown value is `-`, or null in JSON. Clients send the same text again and again, so its
formatted form is cached. As in every log line, text that looks like a secret is masked.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from ie_serving.telemetry.log.events import mask, render
from ie_serving.telemetry.log.json_lines import written_second
from ie_serving.telemetry.request.entry import made_ids

NAME = "ie_serving.access"
EVENT = "request answered"
ASKED: Final = ("interface", "method", "path")
ANSWERED: Final = ("model", "version", "code")
WHO: Final = ("client", *ASKED, *ANSWERED)
"""Columns that many requests have in common, so that they are formatted once and cached."""
_WHO_ENDS: Final = 4
"""End of these columns in a row: client, what was asked, and `ANSWERED`."""
SIZES = ("bytes_in", "bytes_out")
TIMES = ("total_ms", "decode_ms", "infer_ms", "encode_ms")
"""Milliseconds: from arrival until the reply was made; until the inputs were decoded; from then to
the outputs, the wait for an infer request included; from then until they were encoded."""
COLUMNS = ("id", *WHO, *SIZES, *TIMES)
MOST_REMEMBERED = 1024
"""Cached clients with what they ask for, each some 1 KB. One more empties the cache: finding the
oldest would cost time at every line."""

# Address of an IPv4 client at a socket of both families.
_MAPPED = re.compile(r"^\[::ffff:([0-9.]+)\]")

LogRow: TypeAlias = tuple[Any, ...]
"""The values of an ended entry for its line: `client`, `asked`, `answered_by`, `code`; then its
own: `id`, `received`, `sent`, `began`, `started`, `inferred`, `encoded`, `ended`.

The garbage collector tracks none of these values: with entries in the queue instead, each request
took 10 us more."""
WriteRows: TypeAlias = Callable[[Iterable[LogRow], float], bytes]
"""Writes rows as lines, with their ends; the second argument is `entry.epoch()`."""


def writer_of(form: str) -> WriteRows:
    """Return the function that writes lines in a form, `text` or `json`."""
    return (_json_form() if form == "json" else _text_form()).lines


class _LineForm:
    """How lines of one form are written.

    Args of the constructor:
        whole: template of the line, for the second, its milliseconds, and the columns.
        second_of: writes the second of a time.
        pair: template of a column, for its name and its value.
        between: separator of columns.
        quote: writes text.
        unknown: text for an unknown value.
    """

    def __init__(
        self,
        whole: str,
        second_of: Callable[[int], str],
        pair: str,
        between: str,
        quote: Callable[[str], str],
        unknown: str,
    ) -> None:
        self._whole = whole
        self._second_of = second_of
        self._pair = pair
        self._between = between
        self._quote = quote
        self._word = quote("word").replace("word", "%b").encode()
        self._unknown = unknown
        self._remembered: dict[LogRow, tuple[bytes, bytes]] = {}

    def lines(self, rows: Iterable[LogRow], epoch: float) -> bytes:
        """Write rows. See `WriteRows`."""
        remembered, word, ids = self._remembered, self._word, made_ids()
        at, second, lines = -1, b"", []
        for row in rows:
            who = row[:_WHO_ENDS]
            id, received, sent, began, started, inferred, encoded, ended = row[_WHO_ENDS:]
            known, some_known = remembered.get(who) or self._remember(who)
            id = id or next(ids)
            # Ids that we or most clients make have no characters to quote.
            quoted = word % id if id.isalnum() else self._quote(id.decode()).encode()
            now, thousandth = divmod(int((began + epoch) * 1000), 1000)
            if now != at:
                at, second = now, self._second_of(now).encode()
            if not encoded or received is None:
                rest = self._rest(received, sent, began, started, inferred, encoded, ended)
                lines.append(some_known % (second, thousandth, quoted, *rest))
                continue
            # Most requests have all values: one step formats the line.
            total, decode = (ended - began) * 1e3, (started - began) * 1e3
            infer, encode = (inferred - started) * 1e3, (encoded - inferred) * 1e3
            lines.append(
                known % (second, thousandth, quoted, received, sent, total, decode, infer, encode)
            )
        return b"".join(lines)

    def _remember(self, who: LogRow) -> tuple[bytes, bytes]:
        """Cache the line templates of such requests: with all sizes and times, and with some."""
        if len(self._remembered) >= MOST_REMEMBERED:
            self._remembered.clear()
        client, asked, answered_by, code = who
        values = (*asked, *answered_by, code)
        texts = [self._value(each).replace("%", "%%") for each in (written_client(client), *values)]
        numbers = [*["%d"] * len(SIZES), *["%.3f"] * len(TIMES)]
        known = self._line("%b", *texts, *numbers), self._line("%b", *texts, *["%b"] * len(numbers))
        self._remembered[who] = known
        return known

    def _line(self, *values: str) -> bytes:
        pairs = [self._pair % pair for pair in zip(COLUMNS, values, strict=True)]
        return (self._whole % self._between.join(pairs)).encode()

    def _value(self, value: str | int | None) -> str:
        if isinstance(value, int):
            return str(value)
        return self._quote(value) if value else self._unknown

    def _rest(self, received: int | None, sent: int, *times: float) -> list[bytes]:
        """Write sizes and times, some of them unknown."""
        *steps, ended = times
        spans = ((steps[0], ended), *pairwise(steps))
        known = (f"{(b - a) * 1e3:.3f}" if a and b else self._unknown for a, b in spans)
        return [text.encode() for text in (self._value(received), str(sent), *known)]


def written_client(client: object) -> str:
    """Write the address of a client; empty for a UNIX socket."""
    if isinstance(client, tuple):  # for IPv6 with further values after the port
        host, port = client[:2]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    else:
        family, _, address = unquote(str(client)).partition(":")
        address = address if family in ("ipv4", "ipv6") else ""
    return _MAPPED.sub(r"\1", address)


def _text_form() -> _LineForm:
    whole = f"%%b,%%03d - {NAME} - INFO - {EVENT} %s\n"
    return _LineForm(whole, _local_second, "%s=%s", " ", lambda text: render(mask(text)), "-")


def _json_form() -> _LineForm:
    """Make the JSON form, with the number of this process."""
    whole = (
        f'{{"time":"%%b.%%03dZ","level":"INFO","logger":"{NAME}","message":"{EVENT}","pid":{os.getpid()},'
        '"fields":{%s}}\n'
    )
    return _LineForm(
        whole, written_second, '"%s":%s', ",", lambda text: json.dumps(mask(text)), "null"
    )


def _local_second(at: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
