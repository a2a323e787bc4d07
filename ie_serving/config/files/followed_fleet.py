"""Follows directories of models in one worker: makes the served models those of the directories.

The worker that leads lists the directories, reads what is new in them, and changes all workers. A
model that cannot be served as its directory says has a fault, and concerns no other.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial

from ie_serving.config.files.fleet_models import FleetModels
from ie_serving.core.runtime.waits import Tasks
from ie_serving.core.values.errors import NotThereYet, ServingError
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.fleet.repository import ModelRepository, changed, differ, staying, together
from ie_serving.models.fleet.watch import Fleet
from ie_serving.models.manager import ApplyEdit
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)


class FollowedFleet:
    """Lives on one event loop.

    Args of the constructor:
        fleet: lists the directories.
        read: makes models of them.
        desired: gives the models that are desired now.
        change: the edit, an `ApplyEdit`.
        is_lenient: whether the server starts although a directory cannot be listed.
        is_explicit: whether clients decide which models are loaded.

    Attributes:
        tasks: readings of the models that are under way.
    """

    def __init__(
        self,
        fleet: Fleet,
        read: FleetModels,
        desired: Callable[[], Sequence[ModelConfig]],
        change: ApplyEdit,
        *,
        is_lenient: bool,
        is_explicit: bool,
    ) -> None:
        self._fleet = fleet
        self._read = read
        self._desired = desired
        self._change = change
        self._is_lenient = is_lenient
        self._is_explicit = is_explicit
        self._reading = asyncio.Lock()
        self._changing = asyncio.Lock()
        self.tasks = Tasks()
        self._left_out: Sequence[str] = ()

    def follow(self, repositories: Sequence[ModelRepository]) -> None:
        """Watch these directories from now on, and no others."""
        self._fleet.follow(repositories)

    def begin(self) -> None:
        """Change the models with the directories from now on, until `close`."""
        self._fleet.on_news = self._note
        self._note()  # of what has changed since the first listing

    def close(self) -> None:
        """Change nothing any more."""
        self._fleet.on_news = lambda: None
        self._fleet.close()
        self.tasks.cancel()

    async def first(self, configured: Sequence[ModelConfig]) -> Sequence[ModelConfig]:
        """Give all models at the server's start.

        Raises:
            StorageError: a directory cannot be listed, unless that is allowed; one on disk that
                does not exist yet is waited for.
        """
        for error in (await self._fleet.listed()).values():
            if not self._is_lenient and not isinstance(error, NotThereYet):
                raise error
        return await self._joined(configured)

    async def joined(
        self, configured: Sequence[ModelConfig], *, anew: bool = False
    ) -> Sequence[ModelConfig]:
        """Give the configured models with those of the directories; trouble of these is logged.

        Args:
            configured: take precedence.
            anew: list the directories now, also those that are known.
        """
        await self._fleet.listed(anew=anew)
        return await self._joined(configured)

    async def reload(self) -> bool:
        """List the directories and change the models now; tell whether anything changed."""
        await self._fleet.listed(anew=True)
        return await self._refresh()

    async def _joined(self, configured: Sequence[ModelConfig]) -> Sequence[ModelConfig]:
        found, unlisted = await self._read_models()
        # A change of the file beside an outage takes no model away, and neither does a refresh.
        going_on = staying(self._desired(), unlisted)
        models, left_out = together(configured, [*found, *going_on])
        self._log_left_out(left_out)
        return models

    def _log_left_out(self, left_out: Sequence[str]) -> None:
        """Log each directory that is left out, once."""
        for each in left_out:
            if each not in self._left_out:
                log.warning(Event("directory of a model ignored", cause=each))
        self._left_out = left_out

    async def _read_models(self) -> tuple[Sequence[ModelConfig], Collection[ModelRepository]]:
        """Read the models of the repositories; give those that were never listed beside them."""
        async with self._reading:
            # The listings are taken now: one may come while files are read.
            shelves, unlisted = self._fleet.shelves(), self._fleet.unlisted()
            found = await asyncio.to_thread(self._read.of, shelves)
            if not self._read.is_whole:
                self._fleet.not_applied()
        return found, unlisted

    def _note(self) -> None:
        self.tasks.begin(self._refresh_alone())

    async def _refresh_alone(self) -> None:
        try:
            await self._refresh()
        except ServingError as error:
            self._fleet.not_applied()
            log.error(Event("directories of models not applied", cause=error))
        except Exception:
            self._fleet.not_applied()
            log.exception(Event("directories of models not applied"))

    async def _refresh(self) -> bool:
        async with self._changing:
            found, unlisted = await self._read_models()
            configured = [config for config in self._desired() if not config.repository]
            self._log_left_out(together(configured, found)[1])
            edit = partial(changed, found=found, unlisted=unlisted, only_known=self._is_explicit)
            if not differ(edit(self._desired()), self._desired()):
                return False
            await self._change(edit, all_or_nothing=False)
            return True
