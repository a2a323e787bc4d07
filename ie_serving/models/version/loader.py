"""Loads one version in three steps, fetch, compile and warm up, and frees it again.

Fetching and compiling run in threads, so that serving goes on, and in a pool each, so that a slow
download keeps no other version from being compiled; the warm-up runs on the event loop, through
the same path as requests.
"""

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from threading import Event as Flag
from threading import Lock
from typing import Final, TypeVar

from ie_serving.core.runtime.heaps import HEAPS, resident_bytes
from ie_serving.core.runtime.spare_cpu import SPARE_CPU
from ie_serving.core.runtime.threads import in_own_thread
from ie_serving.core.values.errors import (
    DeadlineExceeded,
    EntryChanged,
    LoadFailed,
    NotAvailable,
    StorageError,
)
from ie_serving.core.values.tensors import Signature
from ie_serving.engines.base import REHEARSED, CompiledModel, Engine, EngineOptions
from ie_serving.models.repository.signature_file import with_signature_file
from ie_serving.models.repository.source import Candidate
from ie_serving.models.version.handle import Servable
from ie_serving.models.version.states import VersionEvent
from ie_serving.storage.base import NEVER, Storage
from ie_serving.telemetry.log import logs
from ie_serving.telemetry.metrics.inferences import Inferences, recording

log = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_UPDATE_S = 30.0
"""Seconds that a version may take to change its parameters: changes of the configuration wait."""

LONGEST_CLOSE_S = 60.0
"""Seconds after which a version whose `close` hangs counts as unloaded; its thread stays."""

YOUNG_LOADS: Final = 8
"""Loads after which the middle generation is collected: some thousand objects of each, 1 ms."""

WarmVersion = Callable[[Servable, Path], Awaitable[None]]
"""Replays the version's own warm-up requests. Raises LoadFailed to refuse the version."""

Report = Callable[[VersionEvent], object]
"""Called on the event loop when a step of a load is done: FETCHED, then COMPILED."""

Noted = Callable[[str], AbstractContextManager[None]]
"""Records, outside this process, that a load of the given name is under way. Raises LoadFailed for
a load that has killed the process before and has to wait."""

Awaited = Callable[[], Awaitable[Callable[[], None]]]
"""Awaited on the event loop before a version is compiled. Raises LoadFailed, or returns a function
to call, in any thread, after the version has been freed."""

TryInChild = Callable[[str, Path, EngineOptions, Flag], None]
"""Loads a version outside this process first: its load's name, its files, its options, and whether
it was given up. Raises LoadFailed for a load that may end this process."""

MakeServable = Callable[[str, int, CompiledModel, Mapping[str, Signature]], Servable]
"""Makes a servable of name, version, compiled model and signatures."""

Awaits = Callable[[Path], Awaited | None]
"""Looks at the files of a version, in the thread that fetched them. Most have nothing to await."""


class LoadedVersion:
    """A version in memory, and the resources to release with it: its model, its local files.

    Attributes:
        model: closes the model.
        stored: bytes of its files.
    """

    def __init__(
        self, servable: Servable, directory: Path, model: ExitStack, files: ExitStack, stored: int
    ) -> None:
        self.servable = servable
        self.directory = directory
        self.stored = stored
        self.model = model
        self._files = files
        self._ending = Lock()
        self._is_freed = False

    def free(self) -> None:
        """Give back memory and local files. Blocking; nothing may use the servable any more."""
        # The model closes before its files, which the engine may have mapped into memory.
        with self._ending, self._files, self.model:
            self._is_freed = True

    @property
    def is_memory(self) -> bool:
        """Whether there is nothing to close but files."""
        return self.servable.compiled.leave is None

    def leave(self) -> None:
        """Give back all but memory, which goes with the process. Blocking.

        Where `free` is closing code in another thread, this waits for it.
        """
        leave = self.servable.compiled.leave
        if leave is None and self._ending.locked():  # memory that is being freed may take seconds
            return
        with self._ending, self._files:
            if leave and not self._is_freed:
                leave()


class Loader:
    """Makes servables of one model's candidates."""

    def __init__(
        self,
        name: str,
        storage: Storage,
        engine: Engine,
        options: EngineOptions,
        warm_up: WarmVersion,
        executor: Executor,
        fetches: Executor,
        noted: Noted = lambda load: nullcontext(),
        awaits: Awaits = lambda directory: None,
        record: Callable[[str, int], Inferences] = lambda name, version: Inferences(),
        servable: MakeServable = Servable,
        tried: TryInChild | None = None,
    ) -> None:
        self._tried = tried
        self._record = record
        self._servable = servable
        self._name = name
        self._awaits = awaits
        self._noted = noted
        self._storage = storage
        self._engine = engine
        self._options = options
        self._warm_up = warm_up
        self._executor = executor
        self._fetches = fetches

    async def load(
        self, candidate: Candidate, report: Report, given_up: Flag = NEVER
    ) -> LoadedVersion:
        """Fetch, compile and warm up; unless `given_up` is set before the engine compiles.

        Raises:
            StorageError: the files could not be fetched.
            LoadFailed: they could not be compiled or warmed up.
            NotAvailable: given up, or no thread takes it, as while the server stops.
        """
        loop = asyncio.get_running_loop()
        took: dict[str, float] = {}

        # Called in the thread of the load, while all state lives on the loop. The loop runs these
        # in order, and before it learns that the thread has ended: no report comes too late.
        def done(event: VersionEvent) -> None:
            loop.call_soon_threadsafe(report, event)

        fetch = partial(self._fetch, candidate, given_up, done, took)
        kept, directory, awaited = await _in_thread(self._fetches, fetch)
        if awaited is not None:
            kept.callback(await _or_close(kept, awaited()))
        with ExitStack() as noted:
            build = partial(self._compile, candidate, kept, directory, noted, given_up, done, took)
            loaded = await _in_thread(self._executor, build)
            try:
                REHEARSED.set(True)  # in the task of this load
                with _timed(took, "warmup_s"):
                    await self._warm_up(loaded.servable, loaded.directory)
            except BaseException:  # cancellation too: the loaded model has no other owner
                await self.unload(loaded)
                raise
        loaded.servable.load_s = took
        loaded.servable.inferences.forget()
        self._log(loaded.servable, took)
        return loaded

    def _log(self, servable: Servable, took: dict[str, float]) -> None:
        memory = {} if servable.memory is None else {"memory_bytes": servable.memory}
        whose = {"model": self._name, "version": servable.version}
        base_path = self._storage.url
        log.info(logs.Event("version loaded", **whose, **took, **memory, base_path=base_path))

    async def update(self, options: EngineOptions, servables: Sequence[Servable]) -> bool:
        """Give loaded versions new parameters; versions loaded later have them as well.

        Returns:
            False where a version has no `update`, or its `update` raises or takes too long: that
            version needs a new load.
        """
        takers = [each.compiled.update for each in servables]
        try:
            for update in filter(None, takers if all(takers) else ()):
                taken = partial(_foreseen, partial(update, options.params))
                await in_own_thread(LONGEST_UPDATE_S, taken)
        except Exception as error:  # of users' code
            log.warning(logs.Event("parameters refused", model=self._name, cause=repr(error)))
            return False
        if all(takers):
            self._options = options
        return all(takers)

    async def unload(self, loaded: LoadedVersion) -> None:
        """Free a version that nothing uses any more, within `LONGEST_CLOSE_S` if it runs code."""
        version, free = loaded.servable.version, partial(_foreseen, partial(_free, [loaded]))
        # Not in the pool of the loads: freeing makes room, and must not wait for slow loads.
        if loaded.is_memory:
            await asyncio.to_thread(free)
            return
        try:
            await in_own_thread(LONGEST_CLOSE_S, free)
        except DeadlineExceeded:
            facts = {"model": self._name, "version": version, "base_path": self._storage.url}
            facts["limit_s"] = LONGEST_CLOSE_S
            log.warning(logs.Event("version not closed in time", **facts))

    def _fetch(
        self, candidate: Candidate, given_up: Flag, done: Report, took: dict[str, float]
    ) -> tuple[ExitStack, Path, Awaited | None]:
        _check_wanted(given_up)
        if candidate.fault:
            raise StorageError(candidate.fault)
        with ExitStack() as stack:
            with _timed(took, "fetch_s"):
                directory = stack.enter_context(
                    self._storage.copy(candidate.directory, candidate.entries, given_up)
                )
            done(VersionEvent.FETCHED)
            awaited = self._awaits(directory)
            return stack.pop_all(), directory, awaited

    def _compile(
        self,
        candidate: Candidate,
        kept: ExitStack,
        directory: Path,
        noted: ExitStack,
        given_up: Flag,
        done: Report,
        took: dict[str, float],
    ) -> LoadedVersion:
        about = logs.about(model=self._name, version=candidate.version)
        with about, kept as files, SPARE_CPU.in_turn(), ExitStack() as model:
            _check_wanted(given_up)
            if self._tried:
                with _timed(took, "trial_s"):
                    self._tried(self._name_of(candidate), directory, self._options, given_up)
            _check_wanted(given_up)
            # The load is noted in its thread: a load that still waits for a thread cannot have
            # killed the process.
            noted.enter_context(self._noted(self._name_of(candidate)))
            record = self._record(self._name, candidate.version)
            timed = _timed(took, "compile_s")
            with timed, HEAPS.models_off_heap(), LOADS.measured() as footprint, recording(record):
                compiled = self._engine.compile(directory, self._options)
            model.callback(compiled.close)  # before anything else can fail
            signatures = with_signature_file(directory, compiled.signatures)
            servable = self._servable(self._name, candidate.version, compiled, signatures)
            servable.memory, servable.inferences = footprint.size, record
            self._check_unchanged(candidate)
            _check_wanted(given_up)  # once the process ends, nothing else would close its code
            done(VersionEvent.COMPILED)
            stored = sum(entry.size for entry in candidate.entries)
            _collect_young()
            return LoadedVersion(servable, directory, model.pop_all(), files.pop_all(), stored)

    def _name_of(self, candidate: Candidate) -> str:
        """Name the load: the same content of the same version has the same name."""
        return f"{self._name}/{candidate.version}@{candidate.fingerprint[:12]}"

    def _check_unchanged(self, candidate: Candidate) -> None:
        """Refuse a version whose files were replaced while the engine read them.

        A local directory is read in place, so the engine may have read a mixture of old and new
        files. A remote one was read from a private copy, so the store is not listed again.
        """
        try:
            with self._storage.copy(candidate.directory, candidate.entries):
                return
        except EntryChanged:
            raise
        except StorageError as error:  # no sign of a change; the next poll looks again
            whose = {"model": self._name, "base_path": self._storage.url}
            log.debug(logs.Event("files not compared", **whose, cause=error))


def _collect_young() -> None:
    """Collect the garbage among the objects that loads have made, a few loads at a time.

    Python starts a collection by the number of objects made less those freed. Where models come and
    go that number stays small until the objects of a hundred loads are collected at once, which
    holds the interpreter for 5 to 40 ms.
    """
    if gc.isenabled():
        gc.collect(1 if gc.get_count()[1] >= YOUNG_LOADS else 0)


def _free(leaving: list[LoadedVersion]) -> None:
    # Taken out: the thread keeps its argument for a moment longer than its end is known.
    loaded = leaving.pop()
    servable = loaded.servable
    about = logs.about(model=servable.name, version=servable.version)
    del servable  # else it would be held while its memory is freed
    with about, SPARE_CPU.left():
        with FREES.measured() as given_back:
            loaded.free()
        size = loaded.stored if loaded.servable.memory is None else loaded.servable.memory
        HEAPS.note_left(size - (given_back.size or 0))


async def _or_close(kept: ExitStack, awaited: Awaitable[T]) -> T:
    """Await `awaited`; close `kept` where that fails."""
    try:
        return await awaited
    except BaseException:  # cancellation too: `kept` has no other owner
        await asyncio.to_thread(kept.close)
        raise


def _in_thread(pool: Executor, work: Callable[[], T]) -> "asyncio.Future[T]":
    """Let a pool do `work`. Raises: NotAvailable."""
    try:
        return asyncio.get_running_loop().run_in_executor(pool, _foreseen, work)
    except RuntimeError as error:
        raise NotAvailable(f"no thread takes the load: {error}") from error


def _foreseen(work: Callable[[], T]) -> T:
    """Do `work`, which may run code of users. Raises: LoadFailed; Exception, whatever it raises."""
    try:
        return work()
    except Exception:
        raise
    # KeyboardInterrupt, or a library's panic: on the event loop it would end that, or the task.
    except BaseException as error:
        raise LoadFailed(f"{type(error).__name__}, which ends programs") from error


def _check_wanted(given_up: Flag) -> None:
    """Raise NotAvailable for a load that was given up while it waited for its thread."""
    if given_up.is_set():
        raise NotAvailable("the version is no longer wanted")


@contextmanager
def _timed(took: dict[str, float], step: str) -> Iterator[None]:
    """Note under `step` how many seconds the body took."""
    began = time.monotonic()
    yield
    took[step] = time.monotonic() - began


class Footprint:
    """The memory that one load has added.

    Attributes:
        size: growth of resident bytes during the load. None where that is not known: the load has
            not ended, or another one overlapped it. Large requests served during the load count
            as well.
    """

    size: int | None = None


class Loads:
    """Measures the loads of this process, one at a time. Any thread may use it."""

    def __init__(self, resident: Callable[[], int] = resident_bytes) -> None:
        self._resident = resident
        self._lock = threading.Lock()
        self._under_way = 0
        self._begun = 0

    @contextmanager
    def measured(self) -> Iterator[Footprint]:
        """Measure the body, unless another one is under way."""
        footprint = Footprint()
        # Resident memory is that of the whole process: two overlapping loads cannot be told apart.
        # A load that begins and ends meanwhile shows only in the number of loads begun.
        with self._lock:
            alone = not self._under_way
            self._under_way += 1
            self._begun += 1
            own = self._begun
        before = self._resident()
        try:
            yield footprint
            added = self._resident() - before
        finally:
            with self._lock:
                self._under_way -= 1
                alone = alone and own == self._begun
        if alone and before:
            # It may be less than before: memory of an older version was given back meanwhile.
            footprint.size = max(0, added)


LOADS: Final = Loads()
"""Loads of this process."""
FREES: Final = Loads(lambda: -resident_bytes())
"""Measures frees of this process's versions: the size is the memory given back."""
