"""Replays a version's recorded requests before it serves.

Source: `assets.extra/tf_serving_warmup_requests`, a TFRecord file of PredictionLog, as TensorFlow
Serving has it. There a bad record fails the load; here it is logged and ends the warm-up, since a
version that computes should not be kept from serving by its recording.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from pathlib import Path

from ie_serving.errors import InvalidRequest, NotSupported, ServingError
from ie_serving.models.handle import Servable
from ie_serving.server.deadline import Limited
from ie_serving.server.wire.messages import Proto
from ie_serving.server.wire.prediction_log import read_prediction_logs
from ie_serving.telemetry.logs import Event

log = logging.getLogger(__name__)

RECORDS = Path("assets.extra") / "tf_serving_warmup_requests"
MOST_RECORDS = 1000
"""As many as TensorFlow Serving replays."""

LONGEST_REPLAY_S = 60.0
"""A recorded request that takes longer ends the warm-up, so that it cannot hold a version back."""

Replay = Callable[[Servable, bytes], Awaitable[bytes]]
"""Answers one recorded request, serialized, with a servable that does not serve yet."""


class WarmUp:
    """Replays every record `iterations` times.

    Args of the constructor:
        replays: by kind of record, `predict_log` and so on.
        iterations: how often each record is replayed; 0 replays none.
    """

    def __init__(self, replays: Mapping[str, Replay], iterations: int) -> None:
        self._replays = replays
        self._iterations = iterations

    async def __call__(self, servable: Servable, directory: Path) -> None:
        """Warm up `servable` from the files in `directory`. A bad record is logged, not raised."""
        path = directory / RECORDS
        if self._iterations == 0 or not path.is_file():
            return
        replayed = 0
        try:
            for record in await asyncio.to_thread(_read, path):
                for _ in range(self._iterations):
                    await self._replay(servable, record)
                replayed += 1
            log.info(
                Event(
                    "warm-up replayed",
                    model=servable.name,
                    version=servable.version,
                    records=replayed,
                )
            )
        except (ServingError, OSError) as error:
            log.error(
                Event(
                    "warm-up ended by a bad record",
                    model=servable.name,
                    version=servable.version,
                    record=replayed,
                    why=error,
                )
            )

    async def _replay(self, servable: Servable, record: Proto) -> None:
        kind = record.WhichOneof("log_type") or "none"
        replay = self._replays.get(kind)
        if replay is None:
            raise NotSupported(f"Unsupported log_type for warmup: {kind}")
        request = getattr(record, kind).request.SerializeToString()
        await Limited(LONGEST_REPLAY_S, replay(servable, request))


def _read(path: Path) -> list[Proto]:
    with path.open("rb") as file:
        records = list(islice(read_prediction_logs(file), MOST_RECORDS + 1))
    if len(records) > MOST_RECORDS:
        raise InvalidRequest(
            f"Number of warmup records exceeds the maximum ({MOST_RECORDS}) at {path}"
        )
    return records
