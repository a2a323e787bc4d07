"""The configuration of one worker over time: what it begins with, and what its file says later."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ie_serving.config.files import source
from ie_serving.config.files.watch import Apply, ConfigWatch
from ie_serving.config.settings import ModelConfig, Settings
from ie_serving.core.errors import ConfigError
from ie_serving.telemetry.logs import Event

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Applied:
    """How far the configuration has come, for a worker that takes over.

    Attributes:
        desired: what was applied last, whether it came from the file or by RPC.
        serving: the models as they are served: of one whose successor does not serve yet, what it
            was before.
        seen: digest of the file's content that was applied or refused last, if any.
    """

    desired: tuple[ModelConfig, ...]
    serving: tuple[ModelConfig, ...]
    seen: str | None


class FollowedConfig:
    """Follows the configuration file; without one it stays at what the command line said.

    Made before the first load, so that an edit during that load is noticed after it.

    Args of the constructor:
        settings: the file's path, what the arbiter read from it at the server's start, and how
            often to look at it.
        apply: makes a configuration that the file has changed to the present one.
        before: where a worker that this one replaces has left off.
    """

    def __init__(self, settings: Settings, apply: Apply, before: Applied | None = None) -> None:
        self._settings = settings
        self._before = before
        self._task: asyncio.Task[None] | None = None
        self._watch: ConfigWatch | None = None
        if settings.config_path is not None:
            self._watch = ConfigWatch(
                settings.config_path,
                partial(source.load, engine=settings.engine),
                apply,
                poll_wait_s=settings.server.config_poll_wait_s,
            )

    @property
    def seen(self) -> str | None:
        """Digest of the file's content that was applied or refused last, if any."""
        return self._watch.seen if self._watch else None

    async def first(self) -> Sequence[ModelConfig]:
        """Give the models to begin with: the last change wins, also across workers.

        What was applied last, by RPC perhaps, stands until the content of the file changes; and
        while the file is broken.
        """
        path, before = self._settings.config_path, self._before
        last = before.desired if before else self._settings.models
        if path is None or (before and self.seen in (None, before.seen)):
            return last
        try:
            found = await asyncio.to_thread(source.read, path, self._settings.engine)
        except ConfigError as error:
            for fault in error.faults:
                log.error(
                    Event(
                        "configuration file is broken, the one applied last is used",
                        path=path,
                        cause=fault,
                    )
                )
            return last
        return found.models

    def follow(self) -> None:
        """Apply what the file changes to from now on, until `close`."""
        if self._watch:
            self._task = asyncio.create_task(self._watch.run(), name="watch configuration")

    async def reload(self) -> None:
        """Read the file and apply it now, changed or not.

        Raises:
            ServingError: it is broken or cannot be applied; nothing has changed.
        """
        if self._watch:
            await self._watch.reload()

    def close(self) -> None:
        """Follow the file no longer."""
        if self._task:
            self._task.cancel()
