"""Replays a version's recorded requests before it serves.

Source: `assets.extra/tf_serving_warmup_requests`, a TFRecord file of PredictionLog, as TensorFlow
Serving has it. There a bad record fails the load; here it is logged and the next one is replayed,
since a version that computes should not be kept from serving by its recording, and a signature that
is left out should not keep the others cold.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from ie_serving.core.values.errors import (
    DeadlineExceeded,
    InvalidRequest,
    NotSupported,
    ServingError,
)
from ie_serving.inference.deadline import limited
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

RECORDS = Path("assets.extra") / "tf_serving_warmup_requests"
MOST_RECORDS = 1000
"""Records of one file; one that has more is not replayed. As many as TensorFlow Serving takes."""

LONGEST_REPLAY_S = 60.0
"""Seconds that one recorded request may take. A longer one ends the warm-up, and the version serves
without the rest: a recording cannot hold a version back."""

Records = Callable[[BinaryIO], Iterator[tuple[str, bytes]]]
"""Reads a file of records: the kind of each, and its request, serialized. Raises InvalidRequest."""

Replay = Callable[[Servable, bytes], Coroutine[Any, Any, object]]
"""Answers one recorded request, serialized, with a servable that does not serve yet."""


class WarmUp:
    """Replays every record `iterations` times.

    Args of the constructor:
        records: reads the file.
        replays: by kind of record, `predict_log` and so on.
        iterations: how often each record is replayed; 0 replays none.
    """

    def __init__(self, records: Records, replays: Mapping[str, Replay], iterations: int) -> None:
        self._records = records
        self._replays = replays
        self._iterations = iterations

    async def __call__(self, servable: Servable, directory: Path) -> None:
        """Warm up `servable` from the files in `directory`. A bad record is logged, not raised."""
        path = directory / RECORDS
        if self._iterations == 0 or not path.is_file():
            return
        name, version = servable.name, servable.version
        try:
            recorded = await asyncio.to_thread(self._read, path)
            replayed = [await self._replayed(servable, *each) for each in enumerate(recorded)]
        # Anything else is a defect and fails the load, so that it is seen.
        except (ServingError, OSError) as error:
            log.error(Event("warm-up stopped", model=name, version=version, cause=error))
            return
        records = sum(replayed)
        log.info(Event("warm-up replayed", model=name, version=version, records=records))

    async def _replayed(self, servable: Servable, number: int, record: tuple[str, bytes]) -> bool:
        """Replay a record; False, with a log line, where it is a bad one.

        Raises:
            DeadlineExceeded: it takes too long.
        """
        try:
            for _ in range(self._iterations):
                # In front of each, and so behind a bad one, too: what runs on the loop never waits
                # by itself.
                await asyncio.sleep(0)
                await self._replay(servable, *record)
        except DeadlineExceeded:
            raise
        except ServingError as error:
            log.error(
                Event(
                    "warm-up record refused",
                    model=servable.name,
                    version=servable.version,
                    record=number,
                    cause=error,
                )
            )
            return False
        return True

    async def _replay(self, servable: Servable, kind: str, request: bytes) -> None:
        replay = self._replays.get(kind)
        if replay is None:
            raise NotSupported(f"Unsupported log_type for warmup: {kind}")
        await limited(LONGEST_REPLAY_S, replay(servable, request))

    def _read(self, path: Path) -> list[tuple[str, bytes]]:
        with path.open("rb") as file:
            found = list(islice(self._records(file), MOST_RECORDS + 1))
        if len(found) > MOST_RECORDS:
            raise InvalidRequest(
                f"Number of warmup records exceeds the maximum ({MOST_RECORDS}) at {path}"
            )
        return found
