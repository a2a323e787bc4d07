"""The report of the first loads of models, for a terminal and the log.

A terminal shows their progress in one line. A load takes a dozen log lines. From `MANY` models on a
start logs sums, and the lines of single loads only at the level DEBUG; failures and later loads are
logged as ever. JSON logs keep all lines, since programs read them.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Sized
from contextlib import AbstractContextManager, asynccontextmanager
from enum import Enum, auto
from typing import Final

from ie_serving.core.runtime.machine_share import SHARE
from ie_serving.core.values.hints import Hint
from ie_serving.models.served_models import ServedModel
from ie_serving.telemetry.log import logs
from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.log.progress import ProgressLine

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
async def reported(
    models: Collection[ServedModel],
    *,
    opens_early: bool,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[None]:
    """Report the first loads of `models` while the body waits for them.

    Args:
        models: models of the start.
        opens_early: the ports open before; then nothing is said about that.
        clock: seconds that only grow.
    """
    began, many = clock(), len(models) >= MANY
    shown = ProgressLine("loading models", len(models), "models")
    with details_of(models), shown.drawn(wanted=SHARE.workers == 1):
        look = _look(models, shown, clock, many=many, opens_early=opens_early)
        looking = asyncio.create_task(look)
        try:
            yield
        finally:
            looking.cancel()
    if many:
        log.info(Event("models loaded", **_sums(models), took_s=clock() - began))


class Report(Enum):
    """A line that the log gets while a start is under way."""

    HINT = auto()
    SUMS = auto()


def due(waited_s: float, since_sums_s: float, *, many: bool, hinted: bool) -> list[Report]:
    """Tell which lines the log gets at one look at the models. Pure.

    Args:
        waited_s: seconds since the start.
        since_sums_s: seconds since the last sums, or since the start.
        many: whether the start logs sums.
        hinted: whether the log has the hint already, or is not to get it.
    """
    hint = [Report.HINT] if not hinted and waited_s > HINT_S else []
    return hint + ([Report.SUMS] if many and since_sums_s > SUM_S else [])


async def _look(
    models: Collection[ServedModel],
    shown: ProgressLine,
    clock: Callable[[], float],
    *,
    many: bool,
    opens_early: bool,
) -> None:
    began = summed = clock()
    hinted = opens_early
    while True:
        await asyncio.sleep(LOOK_S)
        sums, now = _sums(models), clock()
        shown.show(sums["serving"] + sums["failed"])
        reports = due(now - began, now - summed, many=many, hinted=hinted)
        if Report.HINT in reports:
            hinted = True
            how = Hint("{server.open_ports_early} true opens them for the models that serve")
            log.info(Event("ports open when every model has loaded", advice=how))
        if Report.SUMS in reports:
            summed = now
            log.info(Event("models are loading", **sums))


def _sums(models: Collection[ServedModel]) -> dict[str, int]:
    serving = sum(each.stream.has_served for each in models)
    failed = sum(not each.stream.has_served and bool(each.stream.why_none) for each in models)
    return {"models": len(models), "serving": serving, "failed": failed}
