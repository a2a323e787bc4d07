"""What is read from files, and read again when they change."""

import asyncio
import logging
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from ie_serving.core.values.errors import ConfigError
from ie_serving.server.process.handover import Left
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

M = TypeVar("M")
P = TypeVar("P")

LOOK_S: Final = 10.0
"""Seconds between two looks for renewed files. Kubernetes itself takes about a minute to bring a
renewed Secret into a volume."""


class Renewed(ABC, Generic[M, P]):
    """The present material, ready for use. Belongs to one event loop.

    Args of the constructor:
        read: reads all of it anew. Blocking. Raises ConfigError.
        left: holds the material of the worker that this one replaces, which it goes on with where
            what is read cannot be used, as that one did; and then that of this one.

    Raises:
        ConfigError: what is read cannot be used, and no earlier worker has left any.

    Attributes:
        material: what was read last and can be used.
        prepared: what `prepare` made of it.
    """

    def __init__(self, read: Callable[[], M], left: Left) -> None:
        self._read = read
        self._left = left
        self._task: asyncio.Task[None] | None = None
        self._refused = ""
        # The interval and SIGHUP both ask. Of two looks that overlap, the one that read first could
        # finish last, and who was withdrawn would be let in again until the next look.
        self._turn = asyncio.Lock()
        self._use(*self._first())

    @abstractmethod
    def prepare(self, material: M) -> P:
        """Make of the material what requests need. Blocking. Raises: ConfigError."""

    @abstractmethod
    def renewed(self) -> None:
        """Say, and do, what a renewal asks for."""

    @abstractmethod
    def refused(self, cause: str) -> None:
        """Say that what was read cannot be used and the previous stays; once for each cause."""

    def follow(self) -> None:
        """Look for renewed files from now until `close`."""
        self._task = asyncio.ensure_future(self._follow())

    def close(self) -> None:
        """Look no more."""
        if self._task:
            self._task.cancel()

    async def renew(self) -> None:
        """Look now. What cannot be used is logged, once, and what was there before stays."""
        async with self._turn:
            await self._look()

    async def _look(self) -> None:
        try:
            material = await asyncio.to_thread(self._read)
            # By content, not by the times of files: Kubernetes swaps links when any key changes.
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
        # Unpickling runs what the bytes say. Only workers of this server can have written them: the
        # file has no name by which others could open it.
        material = pickle.loads(before)
        return material, self.prepare(material)

    def _use(self, material: M, prepared: P) -> None:
        self.material, self.prepared = material, prepared
        try:
            self._left.write(pickle.dumps(material))
        except OSError as error:  # a replacement would have what was left before
            log.warning(Event("credentials not handed over", cause=error.strerror))

    async def _follow(self) -> None:
        while True:
            # By looking: file systems over the network tell nobody of changes made elsewhere.
            await asyncio.sleep(LOOK_S)
            try:
                await self.renew()
            except Exception:  # such as for want of a thread, of which there may be one next time
                log.exception(Event("renewed files not looked at"))
