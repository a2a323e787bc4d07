"""Shows the first loads of a start: a line on a terminal, and sums in the log of many models.

A load takes a dozen log lines. From `MANY` models on a start logs sums, and the lines of single
loads only at the level DEBUG; failures and later loads are logged as ever. JSON logs keep all
lines, since programs read them.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection, Sized
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Final

from ie_serving.core.runtime.machine_share import SHARE
from ie_serving.core.values.hints import Hint
from ie_serving.models.served import Served
from ie_serving.telemetry.log import logs
from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.log.progress import Progress

log = logging.getLogger(__name__)

MANY: Final = 20
"""Models from which on a start logs sums: those of fewer fit into the lines that people read."""
LOOK_S: Final = 0.2
"""Seconds between two looks at the models; each takes 0.1 ms for a thousand."""
SUM_S: Final = 5.0
"""Seconds between two sums in the log."""
HINT_S: Final = 10.0
"""Seconds of a start after which the log says how the ports open earlier."""
DETAILS: Final = (
    "ie_serving.app.application",
    "ie_serving.engines",
    "ie_serving.models.version.control",
    "ie_serving.models.version.loader",
)
"""Loggers whose INFO is about single loads."""


def details_of(models: Sized) -> AbstractContextManager[None]:
    """Leave the lines of single models out of the log where there are many."""
    return logs.without_details(DETAILS if len(models) >= MANY else ())


@asynccontextmanager
async def reported(models: Collection[Served], *, opens_early: bool) -> AsyncIterator[None]:
    """Report the first loads of `models` while the body waits for them.

    Args:
        models: of the start.
        opens_early: the ports open before; then nothing is said about that.
    """
    began, many = time.monotonic(), len(models) >= MANY
    shown = Progress("loading models", len(models), "models")
    with details_of(models), shown.drawn(wanted=SHARE.workers == 1):
        looking = asyncio.create_task(_look(models, shown, many=many, opens_early=opens_early))
        try:
            yield
        finally:
            looking.cancel()
    if many:
        log.info(Event("models loaded", **_sums(models), took_s=time.monotonic() - began))


async def _look(
    models: Collection[Served], shown: Progress, *, many: bool, opens_early: bool
) -> None:
    began = summed = time.monotonic()
    hinted = opens_early
    while True:
        await asyncio.sleep(LOOK_S)
        sums, now = _sums(models), time.monotonic()
        shown.show(sums["serving"] + sums["failed"])
        if not hinted and now - began > HINT_S:
            hinted = True
            how = Hint("{server.open_ports_early} true opens them for the models that serve")
            log.info(Event("ports open when every model has loaded", advice=how))
        if many and now - summed > SUM_S:
            summed = now
            log.info(Event("models are loading", **sums))


def _sums(models: Collection[Served]) -> dict[str, int]:
    serving = sum(each.stream.has_served for each in models)
    failed = sum(not each.stream.has_served and bool(each.stream.why_none) for each in models)
    return {"models": len(models), "serving": serving, "failed": failed}
