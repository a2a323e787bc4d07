"""Reloads and listings at a client's request.

A reload reads the configuration file if it changed, then lists every repository. Listings of one
model run one at a time, with a pause after each.

The phrases are those of OpenVINO Model Server's `POST /v1/config/reload`, since its clients may
look for them; the cause follows the phrase.

A store charges for each listing, and every client of the REST port may request one. Requests that
come during a listing, or too soon after it, share the next listing: so each request gets a listing
that began after it came, and therefore sees everything uploaded before the request.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from typing import Generic, TypeVar

from ie_serving.core.runtime.waits import Tasks
from ie_serving.core.values.errors import (
    ConfigError,
    LoadFailed,
    NotFound,
    ServingError,
    StorageError,
)
from ie_serving.core.values.versions import State
from ie_serving.models.manager import ModelManager
from ie_serving.telemetry.log.logs import mask

PAUSE_S = 1.0
"""Seconds between the end of a listing and the next one of the same model, as with the shortest
poll interval that is usual."""

PollModel = Callable[[str], Awaitable[None]]
"""Lists a model's repository once. Raises ServingError."""
K = TypeVar("K", bound=Hashable)
ReloadTurn = asyncio.Future[None]
"""One listing, for all who wait for it."""

SEE_LOG = "Check server logs for more info."
UNREADABLE = "Config file not found or cannot open."
FILE_FAILED = f"Reloading config file failed. {SEE_LOG}"
VERSIONS_FAILED = f"Reloading models versions failed. {SEE_LOG}"
ApplyFile = Callable[[], Awaitable[bool]]
"""Applies the file if its content changed, and tells whether it did. Raises ServingError."""


class PollRequests(Generic[K]):
    """Lives on one event loop.

    Args of the constructor:
        poll: makes a listing of one model, or of whatever a key stands for.
        pause_s: seconds after a listing before the next one of that model.

    Attributes:
        tasks: listings that are under way.
    """

    def __init__(self, poll: Callable[[K], Awaitable[None]], pause_s: float = PAUSE_S) -> None:
        self._poll = poll
        self._pause_s = pause_s
        # Models being listed, or in the pause after it: the next listing, None when no request
        # waits for one.
        self._next: dict[K, ReloadTurn | None] = {}
        self.tasks = Tasks()

    async def once(self, model: K) -> None:
        """List the repository as soon as the pause allows; return when the listing is done.

        Raises:
            NotFound: no such model.
            StorageError: the listing failed.
        """
        turn = self._next.get(model)
        if turn is None:
            turn = asyncio.get_running_loop().create_future()
            if model in self._next:
                self._next[model] = turn
            else:
                self._begin(model, turn)
        # Shielded: other requests may wait for the listing that a cancelled request started.
        await asyncio.shield(turn)

    def close(self) -> None:
        """List nothing any more, as the process ends; requests that wait are cancelled."""
        self.tasks.cancel()
        for turn in filter(None, self._next.values()):
            turn.cancel()
        self._next.clear()

    def _begin(self, model: K, turn: ReloadTurn) -> None:
        self._next[model] = None
        work = self.tasks.begin(self._run(model, turn))
        work.add_done_callback(lambda _: turn.cancel())  # also where it was cancelled

    async def _run(self, model: K, turn: ReloadTurn) -> None:
        pause_s = self._pause_s
        try:
            await self._poll(model)
        except Exception as error:
            turn.set_exception(error)
            turn.exception()  # marked as retrieved: every request may have been cancelled
            if isinstance(error, NotFound):  # nothing was listed
                pause_s = 0
        else:
            turn.set_result(None)
        finally:
            asyncio.get_running_loop().call_later(pause_s, self._go_on, model)

    def _go_on(self, model: K) -> None:
        turn = self._next.pop(model, None)
        if turn is not None:
            self._begin(model, turn)


class ReloadRequests:
    """Lives on one event loop.

    Args of the constructor:
        models: the served ones.
        poll: lists one model's repository once, limited in rate (`PollRequests`).
        apply_file: function that applies a file, an `ApplyFile`; raises OSError where the file
            cannot be read.
    """

    def __init__(self, models: ModelManager, poll: PollModel, apply_file: ApplyFile) -> None:
        self._models = models
        self._poll = poll
        self._apply_file = apply_file

    async def __call__(self) -> bool:
        """Reload, wait until new versions serve, and tell whether anything changed.

        Raises:
            ConfigError: the file is broken, and nothing has changed.
            StorageError: a repository cannot be listed.
            LoadFailed: a version has not loaded.
        """
        is_new = await self.file()
        return await self.versions() or is_new

    async def versions(self) -> bool:
        """List all repositories, wait until new versions serve, and tell whether anything changed.

        Raises: as of `__call__`.
        """
        before = set(self._version_states())
        await self._versions()
        return set(self._version_states()) != before

    async def file(self) -> bool:
        """Apply the file if its content changed; tell whether it did. Raises: ConfigError."""
        try:
            return await self._apply_file()
        except OSError as error:
            raise ConfigError([f"{UNREADABLE} {error.strerror or error}"]) from error
        except ServingError as error:
            raise _beginning(FILE_FAILED, error) from error

    async def _versions(self) -> None:
        names: Sequence[str] = self._models.served.names()
        # All are listed before an error is raised: a store that fails must not keep new versions
        # in another store from being loaded.
        found = await asyncio.gather(*map(self._poll, names), return_exceptions=True)
        await self._models.settled()
        for name, error in zip(names, found, strict=True):
            if name not in self._models.served.entries:  # its directory has gone meanwhile
                continue
            if isinstance(error, ServingError):
                raise _beginning(VERSIONS_FAILED, error) from error
            if error is not None:
                raise error
        causes = [f"{name} version {number}: {cause}" for name, number, cause in self._failures()]
        if causes:
            raise LoadFailed(f"{VERSIONS_FAILED} {'; '.join(causes)}")

    def _version_states(self) -> Iterator[tuple[str, int, State, int]]:
        # The identity is compared, too: changed files may have kept their number.
        return (
            (name, status.version, status.state, id(stream.available.get(status.version)))
            for name, stream in self._models.streams()
            for status in stream.statuses()
        )

    def _failures(self) -> Iterator[tuple[str, int, str]]:
        for name, stream in self._models.streams():
            for number, cause in sorted(stream.all_failures().items()):
                yield name, number, cause


def _beginning(phrase: str, error: ServingError) -> ServingError:
    """Give an error of the same kind whose text begins with `phrase`."""
    # Faults quote the file, and every client of the REST port can read them: credentials are
    # masked as in the log.
    text = mask(f"{phrase} {error}")
    if isinstance(error, ConfigError):
        return ConfigError([text])
    return StorageError(text) if isinstance(error, StorageError) else LoadFailed(text)
