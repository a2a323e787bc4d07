"""Waiting for an event for a limited time. Pure asyncio."""

import asyncio


async def set_within(event: asyncio.Event, timeout_s: float | None) -> bool:
    """Wait until `event` is set, at most `timeout_s` seconds; tell whether it is set then.

    None waits without a limit, as `asyncio.wait_for` does.
    """
    if event.is_set():  # spares the timer and the task of `wait_for`
        return True
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except asyncio.TimeoutError:
        return event.is_set()  # set in the very turn in which the time ran out
    return True
