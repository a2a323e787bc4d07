"""Time limits that end when a test says so, instead of after a while."""

import asyncio
from collections.abc import Callable
from functools import partial

LONG_S = 600.0
"""A time limit that no test waits for; `Alarms` keeps what is due after half of it or more."""


class Alarms:
    """Keeps the loop's timers of `LONG_S` or about so much; sets all others as they are asked for.

    Given to a test by `monkeypatch.setattr(loop, "call_later", Alarms(loop).call_later)`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._call_later = loop.call_later
        self._kept: list[tuple[asyncio.TimerHandle, Callable[[], object]]] = []

    def call_later(
        self, delay_s: float, callback: Callable[..., object], *args: object
    ) -> asyncio.TimerHandle:
        """See `asyncio.AbstractEventLoop`."""
        if delay_s < LONG_S / 2:
            return self._call_later(delay_s, callback, *args)
        alarm = asyncio.TimerHandle(delay_s, callback, args, self._loop)
        self._kept.append((alarm, partial(callback, *args)))
        return alarm

    def ring(self) -> None:
        """Let the one alarm that is set go off, here and now."""
        due, self._kept = [due for alarm, due in self._kept if not alarm.cancelled()], []
        (callback,) = due
        callback()
