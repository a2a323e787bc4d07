"""Watches the configuration file, so that edits take effect without a restart.

The file is compared by content, so a ConfigMap's switched link, a rename and an edit in place are
all noticed, and a touch is not. A broken edit changes nothing and is logged once. A configuration
that came by RPC stays until the file's content changes: the last change wins. A file that cannot be
read counts as unchanged, and is logged.
"""

import asyncio
import enum
import hashlib
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ie_serving.config.files.json_file import ConfigFile
from ie_serving.config.files.source import ConfigPath
from ie_serving.core.values.errors import ServingError, causes
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

LoadFile = Callable[[ConfigPath], ConfigFile]
"""Reads and checks the file. Raises ConfigError with all its faults."""

ApplyConfig = Callable[[ConfigFile], Awaitable[None]]
"""Applies a configuration. Raises ServingError, and then nothing has changed."""


class _RefusedContent(NamedTuple):
    """The content that was refused last, as a digest, and why; empty where none was."""

    digest: str | None = None
    why: str = ""


class ContentState(enum.Enum):
    """State of the file at a look."""

    UNREADABLE = enum.auto()
    CHANGED = enum.auto()  # neither applied nor refused yet
    APPLIED = enum.auto()
    REFUSED = enum.auto()


def compare(digest: str | None, seen: str | None, refused: str | None) -> ContentState:
    """Tell what the file holds, by digests.

    Args:
        digest: digest of the content now; None if it cannot be read.
        seen: digest of the content last applied or refused.
        refused: digest of the content last refused; None where none was.
    """
    if digest is None:
        return ContentState.UNREADABLE
    if digest != seen:
        return ContentState.CHANGED
    return ContentState.REFUSED if digest == refused else ContentState.APPLIED


class ConfigWatch:
    """Applies the file at `path` whenever its content changes.

    Args of the constructor:
        path: the file.
        load, apply: see their types.
        poll_wait_s: seconds between two polls of the file.
        leads: tells whether this process polls; otherwise another worker does.

    Attributes:
        seen: digest of the content last applied or refused; None if the file could not be read yet.
    """

    def __init__(
        self,
        path: ConfigPath,
        load: LoadFile,
        apply: ApplyConfig,
        *,
        poll_wait_s: float,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._path = path
        self._leads = leads
        self._load = load
        self._apply = apply
        self._poll_wait_s = poll_wait_s
        self._unreadable = ""
        self._refused = _RefusedContent()
        # Polls, SIGHUP and clients start reloads. Of two overlapping reloads, the one that read
        # first could apply last, and the older content would serve.
        self._turn = asyncio.Lock()
        self.seen = self._digest()

    @property
    def fault(self) -> str:
        """Why the content that the file has now is not applied; empty where it is."""
        return self._unreadable or self._refused.why

    async def run(self) -> None:
        """Poll the file at each interval, for ever; return at once if the interval is 0."""
        while self._poll_wait_s > 0:
            await asyncio.sleep(self._poll_wait_s)
            try:
                if self._leads():
                    await self._look()
            except Exception:  # such as no thread left; the next poll tries again
                log.exception(Event("configuration not applied", path=self._path))

    async def _look(self) -> None:
        digest = await asyncio.to_thread(self._digest)
        content = compare(digest, self.seen, self._refused.digest)
        if content is ContentState.CHANGED:
            await self._reload_and_log(digest)
        elif content is ContentState.APPLIED:
            self._refused = _RefusedContent()

    async def reload(self) -> None:
        """Read and apply the file now, changed or not.

        Raises:
            ConfigError: the file is broken; nothing has changed.
            ServingError: the file cannot be applied; nothing has changed.
        """
        async with self._turn:
            await self._read_and_apply()

    async def reload_if_changed(self) -> bool:
        """Apply the file if its content has changed since the last reload; tell whether it has.

        Raises:
            OSError: it cannot be read.
            ConfigError, ServingError: as `reload`.
        """
        async with self._turn:
            digest = await asyncio.to_thread(self._read_digest)
            if compare(digest, self.seen, self._refused.digest) is ContentState.APPLIED:
                self._refused = _RefusedContent()
                return False
            await self._read_and_apply()
            return True

    async def _read_and_apply(self) -> None:
        # The digest first: the next poll then sees an edit between the two reads as a change.
        digest = await asyncio.to_thread(self._digest)
        try:
            await self._apply_newest(digest)
        except ServingError as error:
            self._refused = _RefusedContent(digest, str(error))
            raise
        self._refused = _RefusedContent()

    def note(self, error: ServingError) -> None:
        """Take note that the content that was seen last cannot be used."""
        self._refused = _RefusedContent(self.seen, str(error))

    async def _apply_newest(self, digest: str | None) -> None:
        content = await asyncio.to_thread(self._load, self._path)
        # Set before applying, which stores `seen` for the worker's replacement.
        before, self.seen = self.seen, digest
        try:
            await self._apply(content)
        except BaseException:
            self.seen = before
            raise

    async def _reload_and_log(self, digest: str | None) -> None:
        try:
            await self.reload()
        except ServingError as error:
            # A line for each fault: a file may have many, each with its place.
            for cause in causes(error):
                log.error(Event("configuration not applied", path=self._path, cause=cause))
        except Exception as error:
            log.exception(Event("configuration not applied", path=self._path))
            self._refused = _RefusedContent(
                digest, f"{self._path}: {error!r}; the log has its traceback"
            )
        else:
            return
        # Set although not applied, so that a fault is logged once and not at every poll.
        self.seen = digest

    def _digest(self) -> str | None:
        """Give the digest of the content; None when it cannot be read, which is logged once."""
        try:
            digest = self._read_digest()
        except OSError as error:
            cause = f"cannot be read: {error.strerror}"
            if not self._unreadable:
                log.error(Event("configuration not applied", path=self._path, cause=cause))
            self._unreadable = f"{self._path} {cause}"
            return None
        return digest

    def _read_digest(self) -> str:
        """Identify the content. Raises: OSError."""
        digest = hashlib.sha256(self._path.read_bytes()).hexdigest()
        self._unreadable = ""
        return digest
