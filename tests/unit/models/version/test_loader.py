"""A load is three steps, and leaves nothing behind when one of them fails."""

import asyncio
import gc
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event as Flag
from types import SimpleNamespace
from typing import Any

import pytest

from ie_serving.core.values.errors import LoadFailed, NotAvailable, Unreachable
from ie_serving.engines.base import EngineOptions
from ie_serving.models.version import loader
from ie_serving.models.version.handle import Servable
from ie_serving.models.version.loader import YOUNG_LOADS, Loader
from ie_serving.models.version.states import VersionEvent
from ie_serving.storage.base import NEVER, Entry
from tests.unit.models.conftest import LIMIT_S
from tests.unit.models.stand_ins import BROKEN, Shelf, Stand, candidate, settle


async def test_steps_are_reported_in_order_and_timed(
    stand: Stand, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ie_serving")
    steps: list[VersionEvent] = []
    loading = asyncio.create_task(stand.loader.load(candidate(), steps.append))
    await settle()
    assert steps == [VersionEvent.FETCHED]
    await stand.end_load()
    loaded = await loading
    assert steps == [VersionEvent.FETCHED, VersionEvent.COMPILED]
    assert (loaded.servable.name, loaded.servable.version) == ("m", 7)
    assert stand.store.copies == ["7"]
    line = next(record.getMessage() for record in caplog.records)
    assert line.startswith("version loaded model=m version=7 fetch_s=")
    assert "compile_s=" in line
    assert "warmup_s=" in line


async def test_objects_of_loads_do_not_pile_up_in_the_young_generations(stand: Stand) -> None:
    """As where a model goes for each that comes: Python counts as many objects freed as made."""
    thresholds = gc.get_threshold()
    gc.set_threshold(1_000_000, 0, 0)
    try:
        gc.collect(1)
        made: list[list[list[int]]] = []
        most = 0
        for _ in range(3 * YOUNG_LOADS):
            loading = asyncio.create_task(stand.loader.load(candidate(), lambda event: None))
            await settle()
            made.append([[] for _ in range(1000)])
            await stand.end_load()
            await loading
            most = max(most, len(gc.get_objects(0)) + len(gc.get_objects(1)))
        assert most < 2 * YOUNG_LOADS * 1000
    finally:
        gc.set_threshold(*thresholds)


async def test_a_copy_that_fails_ends_the_load_before_the_first_report(stand: Stand) -> None:
    steps: list[VersionEvent] = []
    stand.store.away = True
    loading = asyncio.create_task(stand.loader.load(candidate(), steps.append))
    await settle()
    with pytest.raises(Unreachable):
        await loading
    assert steps == []


@pytest.mark.parametrize(
    ("broken", "warm_up", "steps"),
    [
        pytest.param(BROKEN, None, [VersionEvent.FETCHED], id="compile"),
        pytest.param(
            KeyboardInterrupt("k"), None, [VersionEvent.FETCHED], id="what ends a program"
        ),
        pytest.param(
            None, LoadFailed("no"), [VersionEvent.FETCHED, VersionEvent.COMPILED], id="warm up"
        ),
    ],
)
async def test_parts_that_were_opened_before_a_failure_are_closed(
    stand: Stand, broken: BaseException | None, warm_up: Exception | None, steps: list[VersionEvent]
) -> None:
    stand.refusal = warm_up
    reported: list[VersionEvent] = []
    loading = asyncio.create_task(stand.loader.load(candidate(), reported.append))
    await settle()
    await stand.end_load(broken)
    with pytest.raises(LoadFailed):
        await loading
    assert reported == steps
    assert stand.store.copies == []
    assert all(model.closed for model in stand.engine.models)


async def test_a_broken_signature_file_fails_the_load_and_closes_the_model(
    stand: Stand, tmp_path: Path
) -> None:
    (tmp_path / "signatures.json").write_text("[]")
    loading = asyncio.create_task(stand.loader.load(candidate(), lambda event: None))
    await settle()
    await stand.end_load()
    with pytest.raises(LoadFailed, match=r"signatures\.json"):
        await loading
    assert [model.closed for model in stand.engine.models] == [True]


async def test_a_load_that_is_given_up_while_it_waits_for_a_thread_does_nothing(
    stand: Stand,
) -> None:
    given_up = Flag()
    loading = asyncio.create_task(stand.loader.load(candidate(), lambda event: None, given_up))
    await settle()
    given_up.set()
    await stand.end_load()
    with pytest.raises(NotAvailable):
        await loading
    assert (stand.engine.models, stand.store.copies) == ([], [])


async def test_a_slow_download_keeps_no_other_version_from_being_compiled(
    stand: Stand, tmp_path: Path
) -> None:
    class Slow(Shelf):
        @contextmanager
        def copy(
            self, directory: str, entries: tuple[Entry, ...], given_up: Flag = NEVER
        ) -> Iterator[Path]:
            asked.set()
            go_on.wait(LIMIT_S)
            with super().copy(directory, entries) as path:
                yield path

    asked, go_on = Flag(), Flag()

    async def warm_up(servable: Servable, directory: Path) -> None:
        """Replay nothing."""

    with ThreadPoolExecutor(1) as loads, ThreadPoolExecutor(2) as fetches:
        slow, quick = (
            Loader("m", store, stand.engine, EngineOptions(), warm_up, loads, fetches)
            for store in (Slow(tmp_path), stand.store)
        )
        waiting = asyncio.create_task(slow.load(candidate(), lambda event: None))
        await asyncio.get_running_loop().run_in_executor(loads, asked.wait, LIMIT_S)
        await quick.load(candidate(), lambda event: None)
        assert not waiting.done()
        go_on.set()
        await waiting


async def test_unloading_gives_back_memory_and_files(stand: Stand) -> None:
    loading = asyncio.create_task(stand.loader.load(candidate(), lambda event: None))
    await settle()
    await stand.end_load()
    await stand.loader.unload(await loading)
    assert stand.engine.models[0].closed
    assert stand.store.copies == []


async def test_code_that_hangs_in_its_close_holds_up_no_unload(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loader, "LONGEST_CLOSE_S", 0.01)
    loading = asyncio.create_task(stand.loader.load(candidate(), lambda event: None))
    await settle()
    await stand.end_load()
    loaded = await loading
    (model,) = stand.engine.models
    model.leaves, go_on, closed = model.close, Flag(), Flag()

    def hang() -> None:
        go_on.wait(LIMIT_S)
        closed.set()

    loaded.model.callback(hang)
    await stand.loader.unload(loaded)
    assert not closed.is_set()
    assert [record.getMessage() for record in caplog.records] == [
        "version not closed in time model=m version=7 base_path=shelf limit_s=0.01"
    ]
    go_on.set()
    assert await asyncio.to_thread(closed.wait, LIMIT_S)


async def test_new_parameters_that_hang_are_refused(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "LONGEST_UPDATE_S", 0.01)
    go_on, threads = Flag(), list[str]()

    def hang(params: Mapping[str, Any]) -> None:
        threads.append(threading.current_thread().name)
        go_on.wait(LIMIT_S)

    servable: Any = SimpleNamespace(compiled=SimpleNamespace(update=hang))
    assert not await stand.loader.update(EngineOptions(), [servable])
    go_on.set()
    assert threads == ["own thread"]  # the few shared ones stay free


async def test_leaving_gives_back_files_and_no_memory(stand: Stand) -> None:
    """The process ends: its memory goes with it, while a copy notes when it was last in use."""
    loading = asyncio.create_task(stand.loader.load(candidate(), lambda event: None))
    await settle()
    await stand.end_load()
    (await loading).leave()
    assert not stand.engine.models[0].closed
    assert stand.store.copies == []


async def test_leaving_closes_what_is_more_than_memory_and_gives_back_files_whatever_it_raises(
    stand: Stand,
) -> None:
    loading = asyncio.create_task(stand.loader.load(candidate(), lambda event: None))
    await settle()
    await stand.end_load()
    loaded = await loading
    assert loaded.is_memory
    (model,) = stand.engine.models

    def fail() -> None:
        model.close()
        raise ValueError("told to")

    model.leaves = fail
    assert not loaded.is_memory
    with pytest.raises(ValueError, match="told to"):
        loaded.leave()
    assert model.closed
    assert stand.store.copies == []


async def test_a_load_that_is_given_up_while_it_compiles_closes_what_it_has_made(
    tmp_path: Path,
) -> None:
    """The process ends, and nothing else would."""
    stand, given_up = Stand(tmp_path), Flag()
    stand.engine.before_compile = lambda directory: given_up.set()
    loading = asyncio.create_task(stand.loader.load(candidate(), lambda event: None, given_up))
    await settle()
    stand.loads.run_next()
    with pytest.raises(NotAvailable, match="no longer wanted"):
        await loading
    assert stand.engine.models[0].closed
    assert stand.store.copies == []


async def test_a_load_that_no_thread_takes_is_no_defect(stand: Stand) -> None:
    """As while the server stops: a copy may be ready when the pools are closed already."""
    stand.loads.shutdown()
    stand.loads.submit = partial(ThreadPoolExecutor.submit, stand.loads)  # type: ignore[method-assign]
    with pytest.raises(NotAvailable, match="no thread takes the load"):
        await stand.loader.load(candidate(), lambda event: None)
