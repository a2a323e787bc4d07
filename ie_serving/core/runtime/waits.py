"""Waits for an event with a time limit. Pure asyncio."""

import asyncio


async def set_within(event: asyncio.Event, timeout_s: float | None) -> bool:
    """Wait until `event` is set, at most `timeout_s` seconds; return whether it is set then.

    None waits without a limit. A cancellation is passed on even if the event is set in the same
    turn, as the end of a connection does: before Python 3.12 `asyncio.wait_for` loses it then.
    """
    if event.is_set():  # saves a task and a timer
        return True
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((waiting,), timeout=timeout_s)
    finally:
        waiting.cancel()
    return event.is_set()
