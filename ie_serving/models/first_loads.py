"""The first loads of models: starts them, and waits for them."""

import asyncio
import logging
from collections.abc import Collection, Mapping

from ie_serving.core.values.errors import LoadFailed, NotAvailable, StorageError, advised
from ie_serving.models.served_models import ServedModel
from ie_serving.models.stream import ModelStream
from ie_serving.telemetry.log.logs import Event

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
