"""The end of all versions with the process: their code is closed, and their memory is not freed.

To free a thousand models takes five seconds of processor time, and the process gives it back at
once. What is more than memory is closed: kernels, their processes, and files.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from ie_serving.models.version.control import VersionControl
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)


async def leave_all(
    versions: Collection[VersionControl],
    works: Iterable["asyncio.Future[Any]"],
    limit_s: float | None = None,
) -> None:
    """Leave every version, for so many seconds at most; None sets no limit.

    Args:
        versions: see `VersionControl.leave`.
        works: are ending by themselves, such as loads that were cancelled.
        limit_s: what hangs is left as it is then.
    """
    coded = [version for version in versions if not version.is_memory]
    plain = [version for version in versions if version.is_memory]
    calls: list[Callable[[], object]] = [partial(_leave, plain), *(each.leave for each in coded)]
    # A thread for each that runs code: one that hangs holds up no other.
    threads = ThreadPoolExecutor(len(calls), "leave")
    loop = asyncio.get_running_loop()
    begun = [loop.run_in_executor(threads, call) for call in calls]
    await asyncio.wait([*begun, *works], timeout=limit_s)
    threads.shutdown(wait=False)
    for version, left in zip(coded, begun[1:], strict=True):
        if not left.done():
            log.warning(Event("version not closed in time", **version.facts, limit_s=limit_s))


def _leave(versions: Iterable[VersionControl]) -> None:
    for version in versions:
        version.leave()
