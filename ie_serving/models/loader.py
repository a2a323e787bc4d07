"""Loads one version: fetch, compile, warm up; and unloads it again.

Fetching and compiling run in a small thread pool, so that serving goes on; the warm-up runs on the
event loop through the same path as requests.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ie_serving.engines.base import Engine, EngineOptions
from ie_serving.models.handle import Servable
from ie_serving.models.signature_file import with_signature_file
from ie_serving.models.source import Candidate
from ie_serving.storage.base import Storage
from ie_serving.telemetry.logs import Event

log = logging.getLogger(__name__)

WarmUp = Callable[[Servable, Path], Awaitable[None]]
"""Replays what a version brings along for its warm-up. Raises LoadFailed to refuse the version."""


class LoadedVersion:
    """A version in memory, and what must be given back with it: its model, its local files."""

    def __init__(self, servable: Servable, directory: Path, kept: ExitStack) -> None:
        self.servable = servable
        self.directory = directory
        self._kept = kept

    def free(self) -> None:
        """Give back memory and local files. Blocking; nothing may use the servable any more."""
        self._kept.close()


class Loader:
    """Makes servables of one model's candidates."""

    def __init__(
        self,
        name: str,
        storage: Storage,
        engine: Engine,
        options: EngineOptions,
        warm_up: WarmUp,
        executor: Executor,
    ) -> None:
        self._name = name
        self._storage = storage
        self._engine = engine
        self._options = options
        self._warm_up = warm_up
        self._executor = executor

    async def load(self, candidate: Candidate) -> LoadedVersion:
        """Fetch, compile and warm up.

        Raises:
            StorageError: the files could not be fetched.
            LoadFailed: they could not be compiled or warmed up.
        """
        loop = asyncio.get_running_loop()
        took: dict[str, float] = {}
        loaded = await loop.run_in_executor(
            self._executor, self._fetch_and_compile, candidate, took
        )
        try:
            with _timed(took, "warmup_s"):
                await self._warm_up(loaded.servable, loaded.directory)
        except BaseException:
            await self.unload(loaded)
            raise
        log.info(Event("version loaded", model=self._name, version=candidate.version, **took))
        return loaded

    async def unload(self, loaded: LoadedVersion) -> None:
        """Free a version that nothing uses any more."""
        await asyncio.to_thread(loaded.free)

    def _fetch_and_compile(self, candidate: Candidate, took: dict[str, float]) -> LoadedVersion:
        with ExitStack() as stack:
            with _timed(took, "fetch_s"):
                directory = stack.enter_context(
                    self._storage.copy(candidate.directory, candidate.entries)
                )
            with _timed(took, "compile_s"):
                compiled = self._engine.compile(directory, self._options)
            stack.callback(compiled.close)
            signatures = with_signature_file(directory, compiled.signatures)
            servable = Servable(self._name, candidate.version, compiled, signatures)
            return LoadedVersion(servable, directory, stack.pop_all())


@contextmanager
def _timed(took: dict[str, float], step: str) -> Iterator[None]:
    """Note under `step` how many seconds the body took."""
    began = time.monotonic()
    yield
    took[step] = time.monotonic() - began
