"""The first loads of models: starts them, waits for them, and reports them.

A terminal shows their progress in one line. A load takes a dozen log lines. From `MANY` models on a
start logs sums, and the lines of single loads only at the level DEBUG; failures and later loads are
logged as ever. JSON logs keep all lines, since programs read them.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sized
from contextlib import AbstractContextManager, asynccontextmanager
from enum import Enum, auto
from typing import Final

from ie_serving.core.runtime.machine_share import SHARE
from ie_serving.core.values.errors import LoadFailed, NotAvailable, StorageError, advised
from ie_serving.core.values.hints import Hint
from ie_serving.models.served_models import ServedModel
from ie_serving.models.stream import ModelStream
from ie_serving.telemetry.log import logs
from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.log.progress import ProgressLine

log = logging.getLogger(__name__)

_Waits = Mapping["asyncio.Task[None]", ServedModel]

LONGEST_WAIT_S = 30.0
"""Seconds for which a replacement's ports stay closed since the last model has come back: a store
that hangs, or a load that does, must not keep the others from their clients."""


async def begin(served: ServedModel) -> None:
    """Begin to load and to poll, and wait for the first load."""
    try:
        await served.stream.start()
    except StorageError:
        return  # it goes on polling; logged by the stream
    await served.stream.first_load()


async def begin_alone(served: ServedModel) -> None:
    """As `begin`; a defect, such as a listing that no reader foresaw, stays with the model."""
    try:
        await begin(served)
        _note_waiting_labels(served)
    except NotAvailable:
        pass  # the server stops, which breaks off its listings
    except Exception:
        log.exception(Event("poll failed", model=served.config.name))


async def load_alone(served: ServedModel) -> None:
    """Wait for the first load of a model that is listed and polled already."""
    await served.stream.first_load()
    _note_waiting_labels(served)


def _note_waiting_labels(served: ServedModel) -> None:
    for label, version in served.config.version_labels.items():
        if label not in served.stream.labels:
            model = served.config.name
            event = Event("label waits for its version", model=model, label=label, version=version)
            log.warning(event)


async def until_they_answer(begun: Collection[tuple[ServedModel, "asyncio.Task[None]"]]) -> None:
    """Wait until models serve again what they served, or their first loads have ended.

    Of a model on demand, only the first listing is waited for: a request loads it.

    While other models serve, a load that hangs is given up on with a warning.

    Args:
        begun: each model, and its first load.
    """
    waits = {asyncio.create_task(_answers(each.stream, load)): each for each, load in begun}
    try:
        hanging = await _while_some_end(waits)
    finally:
        for wait in waits:
            wait.cancel()
    if hanging:
        lacking = ",".join(waits[wait].config.name for wait in hanging)
        log.warning(Event("ports open without models that served", models=lacking))


async def _while_some_end(waits: "_Waits") -> "Collection[asyncio.Task[None]]":
    """Wait as long as it takes while none serves, then from one to the next; give what hangs."""
    news = asyncio.Event()  # `asyncio.wait` would take a second for a thousand that end one by one
    for wait in waits:
        wait.add_done_callback(lambda _: news.set())
    while pending := [wait for wait in waits if not wait.done()]:
        news.clear()
        # The time restarts with each model that serves or fails, so that a thousand models may
        # take longer in all than the limit for one that hangs.
        try:
            await asyncio.wait_for(news.wait(), LONGEST_WAIT_S)
        except asyncio.TimeoutError:
            if any(each.stream.reachable_versions for each in waits.values()):
                break
    return pending


async def _answers(stream: ModelStream, load: "asyncio.Task[None]") -> None:
    serves = asyncio.ensure_future(_serves(stream))
    try:
        await asyncio.wait((serves, load), return_when=asyncio.FIRST_COMPLETED)
    finally:
        serves.cancel()


async def _serves(stream: ModelStream) -> None:
    if stream.is_on_demand:
        while not (stream.reachable_versions or stream.trouble):
            await stream.changed()
        return
    while not stream.has_come_back:
        await stream.changed()


async def until_it_serves(served: ServedModel) -> None:
    """Wait for the first version. Raises: LoadFailed, as soon as one does not load."""
    while not served.stream.reachable_versions:
        if served.stream.failures():
            raise LoadFailed(f"1 servable(s) did not become available: {{{_cause(served)}, }}")
        await served.stream.changed()


def require_available(fresh: Collection[ServedModel]) -> None:
    """Raise LoadFailed where a model does not serve a version that it must serve."""
    # A version that only stands in does not count: the configuration's own have to load.
    failed = [served for served in fresh if not served.stream.serves_aspired]
    if not failed:
        return
    causes = ", ".join(_cause(served) for served in failed)
    raise LoadFailed(
        advised(
            f"{len(failed)} model(s) did not become available: {{{causes}, }}",
            "; the configuration is unchanged",
        )
    )


def _cause(served: ServedModel) -> str:
    failures = served.stream.failures()
    if not failures:
        why = served.stream.lacking or f"no complete version under {served.config.base_path}"
        return f"{{{{name: {served.config.name}}} due to error: {why}}}"
    version = max(failures)
    return (
        f"{{{{name: {served.config.name} version: {version}}} due to error: {failures[version]}}}"
    )


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
