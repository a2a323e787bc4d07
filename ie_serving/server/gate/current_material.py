"""Base of material that is read from files, and read again when the files change."""

import asyncio
import logging
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from ie_serving.core.runtime.handover import HandoverStore
from ie_serving.core.values.errors import ConfigError
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

M = TypeVar("M")
P = TypeVar("P")

LOOK_S: Final = 10.0
"""Seconds between two checks for renewed files. Kubernetes itself takes about a minute to update a
Secret in a volume."""


class CurrentMaterial(ABC, Generic[M, P]):
    """The present material, ready for use. Belongs to one event loop.

    Args of the constructor:
        read: reads all of it anew. Blocking. Raises ConfigError.
        left: stores the last valid material across workers. If a new worker cannot use the files,
            it goes on with the material of the worker that it replaces.

    Raises:
        ConfigError: the files cannot be used, and no earlier worker has left any material.

    Attributes:
        material: the last material that was read and valid.
        prepared: the result of `prepare` for this material.
    """

    def __init__(self, read: Callable[[], M], left: HandoverStore) -> None:
        self._read = read
        self._left = left
        self._task: asyncio.Task[None] | None = None
        self._refused = ""
        # The interval and SIGHUP both renew. Of two overlapping renewals, the one that read first
        # could finish last, and a removed caller would be accepted again until the next check.
        self._turn = asyncio.Lock()
        self._use(*self._first())

    @abstractmethod
    def prepare(self, material: M) -> P:
        """Make from the material what requests need. Blocking. Raises: ConfigError."""

    @abstractmethod
    def renewed(self) -> None:
        """Log a renewal, and act on it."""

    @abstractmethod
    def refused(self, cause: str) -> None:
        """Log that new material is invalid and the previous stays; called once for each cause."""

    def follow(self) -> None:
        """Check for renewed files from now until `close`."""
        self._task = asyncio.ensure_future(self._follow())

    def close(self) -> None:
        """Stop checking for renewed files."""
        if self._task:
            self._task.cancel()

    async def renew(self) -> None:
        """Check now. Log invalid material once, and keep the previous."""
        async with self._turn:
            await self._look()

    async def _look(self) -> None:
        try:
            material = await asyncio.to_thread(self._read)
            # Compares content, not file times: Kubernetes swaps links when any key changes.
            if material == self.material:
                return
            prepared = await asyncio.to_thread(self.prepare, material)
        except ConfigError as error:
            if (cause := str(error)) != self._refused:
                self.refused(cause)
            self._refused = cause
            return
        self._refused = ""
        self._use(material, prepared)
        self.renewed()

    def _first(self) -> tuple[M, P]:
        try:
            material = self._read()
            return material, self.prepare(material)
        except ConfigError as error:
            before = self._left.read()
            if not before:
                raise
            self._refused = str(error)
            self.refused(self._refused)
        # Unpickling can run code in the bytes. Only workers of this server can have written them:
        # the file has no name by which another process could open it.
        material = pickle.loads(before)
        return material, self.prepare(material)

    def _use(self, material: M, prepared: P) -> None:
        self.material, self.prepared = material, prepared
        try:
            self._left.write(pickle.dumps(material))
        except OSError as error:  # a replacement would get the previous material
            log.warning(Event("credentials not handed over", cause=error.strerror))

    async def _follow(self) -> None:
        while True:
            # Polls: network file systems do not notify of changes made on other machines.
            await asyncio.sleep(LOOK_S)
            try:
                await self.renew()
            except Exception:  # for example no thread could be started; the next try may succeed
                log.exception(Event("renewed files not looked at"))
