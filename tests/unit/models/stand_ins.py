"""What surrounds a stream, under the test's control: a clock, threads, a store, an engine.

Nothing here waits: a load ends when the test says so, and time passes when the test says so.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Flag
from typing import Any

from ie_serving.core.runtime.waits import Backoff
from ie_serving.core.values.errors import LoadFailed, StorageError, Unreachable
from ie_serving.engines.base import EngineOptions
from ie_serving.models.listing.schedule import Polls
from ie_serving.models.repository.source import Candidate, VersionSource
from ie_serving.models.repository.version_policy import Latest, VersionPolicy
from ie_serving.models.stream import ModelStream
from ie_serving.models.stream_rules import StreamRules
from ie_serving.models.version.control import LoadRules, VersionControl
from ie_serving.models.version.handle import Servable
from ie_serving.models.version.loader import Loader
from ie_serving.storage.base import NEVER, Entry
from tests.stand_in_engine import FILE, StandInEngine

TURNS = 25
"""Turns of the event loop after which everything that can go on without the test has gone on."""


async def settle() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class AtOnce(ThreadPoolExecutor):
    """Runs what it is given before `submit` returns; makes no thread."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args, **named))
        except Exception as error:
            future.set_exception(error)
        return future


class OnOrder(ThreadPoolExecutor):
    """Keeps what it is given until the test orders the next one; makes no thread."""

    def __init__(self) -> None:
        super().__init__(1)
        self.waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: call(*args, **named)))
        return future

    def run_next(self) -> None:
        future, call = self.waiting.popleft()
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)


class Shelf:
    """A store whose versions the test puts up and takes down.

    Attributes:
        versions: content of each version, by number: any text; another text is another upload.
        away: whether listings fail.
        copies: directories that are copied out and not given back yet.
        listed: versions whose files were listed, in this order.
    """

    url = "shelf"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (directory / FILE).write_text("{}")
        self.versions: dict[int, str] = {}
        self.away = False
        self.copies: list[str] = []
        self.listed: list[int] = []

    def directories(self) -> list[str]:
        if self.away:
            raise Unreachable("shelf: away")
        return [str(version) for version in self.versions]

    def list(self, directory: str) -> Iterator[Entry]:
        self.listed.append(int(directory))
        yield Entry(f"{directory}/{FILE}", 2, self.versions[int(directory)], 1.0)

    @contextmanager
    def copy(
        self, directory: str, entries: tuple[Entry, ...], given_up: Flag = NEVER
    ) -> Iterator[Path]:
        if self.away:
            raise Unreachable("shelf: away")
        copies = self.copies
        copies.append(directory)
        try:
            yield self._directory
        finally:
            copies.remove(directory)


class Stand:
    """One model's surroundings. Made within a running loop.

    Attributes:
        clock: of streams and controls.
        loads: threads for loads.
        store: what is listed and copied.
        engine: compiles; fails when told to by `end_load`.
        unload_when_empty: of the sources that are made next.
        refusal: raised by the warm-up; None when it succeeds.
    """

    def __init__(self, directory: Path) -> None:
        asyncio.get_running_loop().set_default_executor(AtOnce(1))
        self.clock = Clock()
        self.loads = OnOrder()
        self.store = Shelf(directory)
        self.engine = StandInEngine()
        self.refusal: Exception | None = None
        self.unload_when_empty = True
        self.loader = Loader(
            "m", self.store, self.engine, EngineOptions(), self._warm_up, self.loads, AtOnce(1)
        )

    async def _warm_up(self, servable: Servable, directory: Path) -> None:
        if self.refusal:
            raise self.refusal

    def stream(
        self,
        policy: VersionPolicy = Latest(1),  # noqa: B008
        poll_wait_s: float = 1.0,
        on_trouble: Callable[[], None] = lambda: None,
        on_changed: Callable[[], None] = lambda: None,
        chance: Callable[[], float] = lambda: 1.0,
        *,
        reload_changed: bool = False,
    ) -> ModelStream:
        return ModelStream(
            "m",
            VersionSource(
                self.store,
                self.engine,
                rest_s=poll_wait_s,
                unload_when_empty=self.unload_when_empty,
                clock=self.clock,
            ),
            lambda: self.loader,
            Polls(lambda store: AtOnce(1)),
            store="file",
            policy=policy,
            labels={},
            rules=StreamRules(
                labels_wait=True,
                poll_wait_s=poll_wait_s,
                drain_timeout_s=3600.0,
                on_trouble=on_trouble,
                on_changed=on_changed,
                reload_changed=reload_changed,
                clock=self.clock,
                chance=chance,
            ),
        )

    def control(
        self,
        *,
        drain_timeout_s: float = 3600.0,
        load_timeout_s: float = 0.0,
        on_overdue: Callable[[], None] = lambda: None,
    ) -> VersionControl:
        rules = LoadRules(
            model="m",
            base_path="shelf",
            on_load=lambda version, succeeded: None,
            backoff=Backoff(first_s=1.0, longest_s=60.0),
            store_backoff=Backoff(first_s=1.0, longest_s=10.0),
            drain_timeout_s=drain_timeout_s,
            clock=self.clock,
            chance=lambda: 1.0,
            load_timeout_s=load_timeout_s,
            on_overdue=on_overdue,
        )
        return VersionControl(candidate(), lambda: self.loader, rules)

    async def end_load(self, failure: BaseException | None = None) -> None:
        """Let the load that began first end, by failing in the engine if `failure` says so."""

        def compile_or_fail(directory: Path) -> None:
            if failure:
                raise failure

        self.engine.before_compile = compile_or_fail
        self.loads.run_next()
        await settle()

    async def poll(self, stream: ModelStream) -> bool:
        """List once; tell whether the store answered."""
        try:
            await stream.poll()
        except StorageError:
            return False
        finally:
            await settle()
        return True


BROKEN = LoadFailed("no operation Foo")


def candidate(version: int = 7, content: str = "a", *, at_rest: bool = True) -> Candidate:
    entries = (Entry(f"{version}/{FILE}", 2, content, 1.0),)
    return Candidate(version, str(version), entries, content, at_rest)
