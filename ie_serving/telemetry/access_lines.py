"""How a line of the access log is written: the same columns in each line, in text or in JSON.

    2026-11-21 09:00:00,123 - ie_serving.access - INFO - request answered id=... client=... ...

`-`, or null in JSON, stands where something is not known. Text comes from clients, who send the
same again: what it becomes is remembered. As in every log line, what looks like a secret is masked.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from ie_serving.telemetry.entry import Entry
from ie_serving.telemetry.events import mask, render
from ie_serving.telemetry.json_lines import written_second

NAME = "ie_serving.access"
EVENT = "request answered"
WHO: Final = ("client", "interface", "method", "path", "model", "version", "code")
"""What many requests have in common, so that it is written once and remembered."""
SIZES = ("bytes_in", "bytes_out")
TIMES = ("total_ms", "decode_ms", "infer_ms", "encode_ms")
"""Milliseconds: of the whole request until its answer was made; until the inputs were arrays; then
until the outputs were there, the wait for its turn included; then until they were encoded."""
COLUMNS = ("id", *WHO, *SIZES, *TIMES)
MOST_REMEMBERED = 1024
"""Clients with what they ask, each some 500 bytes."""

# Of a client of IPv4 at a socket of both families.
_MAPPED = re.compile(r"^\[::ffff:([0-9.]+)\]")


Row: TypeAlias = tuple[Any, ...]
"""What a line says of an entry, attribute by attribute. Nothing in it is followed by the garbage
collector: where entries themselves waited to be written, they cost each request 10 us more."""
row_of: Final[Callable[[Entry], Row]] = attrgetter(
    *("id", *WHO, "received", "sent", "at", "began", "started", "inferred", "encoded", "ended")
)
"""Give the row of an entry that has ended."""


def writer_of(form: str) -> Callable[[Iterable[Row]], str]:
    """Give what writes rows as lines, with their ends; `form` is `text` or `json`."""
    return (_json_form() if form == "json" else _text_form()).lines


class _Form:
    """How a form of line is written.

    Args of the constructor:
        whole: the line, with places for time, id, what `WHO` names, sizes and times.
        second_of: writes the second of a time; its milliseconds are in `whole`.
        pair: a column, with places for its name and its value.
        between: stands between columns.
        quote: writes text.
        unknown: stands for what is not known.
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
        columns = between.join(pair % (name, "%s") for name in (*SIZES, *TIMES))
        self._whole = whole % ("%s", between.join((pair % ("id", "%s"), "%s", columns)))
        # Most requests have all of it: one step writes the numbers.
        known = self._whole
        for _ in TIMES:
            known = "%.3f".join(known.rsplit("%s", 1))
        self._known = known
        self._second_of = second_of
        self._at, self._second = 0, second_of(0)
        self._pair = pair
        self._between = between
        self._quote = quote
        self._word = quote("word").replace("word", "%s")
        self._unknown = unknown
        self._who = lru_cache(MOST_REMEMBERED)(self._written_who)

    def lines(self, rows: Iterable[Row]) -> str:
        """Write rows."""
        return "".join([self._line(*row) for row in rows])

    def _line(
        self,
        id: str,
        client: object,
        interface: str,
        method: str,
        path: str,
        model: str,
        version: int | None,
        code: str | int,
        received: int | None,
        sent: int,
        at: float,
        *times: float,
    ) -> str:
        who = self._who(client, interface, method, path, model, version, code)
        # One that was made has nothing to quote.
        quoted = self._word % id if id.isalnum() else self._quote(id)
        second, thousandth = divmod(int(at * 1000), 1000)
        # Of the line before: a busy server writes thousands in a second.
        if second != self._at:
            self._at, self._second = second, self._second_of(second)
        head = (self._second, thousandth, quoted, who)
        began, started, inferred, encoded, ended = times
        if not encoded or received is None:
            return self._whole % (*head, *self._rest(received, sent, times))
        return self._known % (
            *head,
            received,
            sent,
            (ended - began) * 1e3,
            (started - began) * 1e3,
            (inferred - started) * 1e3,
            (encoded - inferred) * 1e3,
        )

    def _written_who(self, client: object, *values: str | int | None) -> str:
        texts = (written_client(client), *values)
        pairs = zip(WHO, map(self._value, texts), strict=True)
        return self._between.join(self._pair % pair for pair in pairs)

    def _value(self, value: str | int | None) -> str:
        if isinstance(value, int):
            return str(value)
        return self._quote(value) if value else self._unknown

    def _rest(self, received: int | None, sent: int, times: tuple[float, ...]) -> tuple[str, ...]:
        """Write sizes and times of which some are not known."""
        *steps, ended = times
        spans = ((steps[0], ended), *pairwise(steps))
        return (
            self._value(received),
            str(sent),
            *(f"{(b - a) * 1e3:.3f}" if a and b else self._unknown for a, b in spans),
        )


def written_client(client: object) -> str:
    """Write the address of a client; empty for one on a UNIX socket."""
    if isinstance(client, tuple):  # with more behind the port over IPv6
        host, port = client[:2]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    else:
        family, _, address = unquote(str(client)).partition(":")
        address = address if family in ("ipv4", "ipv6") else ""
    return _MAPPED.sub(r"\1", address)


def _text_form() -> _Form:
    whole = f"%s,%%03d - {NAME} - INFO - {EVENT} %s\n"
    return _Form(whole, _local_second, "%s=%s", " ", lambda text: render(mask(text)), "-")


def _json_form() -> _Form:
    """Make the form, with the number of the process that asks."""
    whole = (
        f'{{"time":"%s.%%03dZ","level":"INFO","logger":"{NAME}","message":"{EVENT}","pid":{os.getpid()},'
        '"fields":{%s}}\n'
    )
    return _Form(whole, written_second, '"%s":%s', ",", lambda text: json.dumps(mask(text)), "null")


def _local_second(at: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
