"""Trial loads: a version is compiled in a process of its own before a worker compiles it.

A load that uses up the memory or crashes in the engine then ends that process and not the worker
with its requests. An orderly failure is left to the worker, whose own load reports it. The child's
side is `app/trial_child.py`.
"""

import json
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag

from ie_serving.core.runtime.heaps import unreclaimable_bytes
from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.process.child_process import WorkerProcess, command_of
from ie_serving.engines.process.link import PeerGone, RemoteFault

COMMAND = command_of(
    "from ie_serving.engines.process.worker import serve;"
    " from ie_serving.app.trial_child import load; serve(load)"
)
LOOK_S = 0.02
"""Seconds between two looks at the process, which takes some 50 MB of memory meanwhile. It stops as
late when it is given up."""

Room = Callable[[], int]
"""Gives bytes."""


@dataclass(frozen=True)
class TrialTask:
    """The version that is loaded.

    Attributes:
        directory: its files.
        options: options of its model.
    """

    directory: Path
    options: EngineOptions


class TrialLoads:
    """Loads each content of a version once in a child process. In any thread.

    Args of the constructor:
        room: gives the bytes that a child may hold now.
    """

    def __init__(self, room: Room = lambda: sys.maxsize) -> None:
        self._room = room
        self._passed: set[int] = set()

    def run(self, load: str, directory: Path, options: EngineOptions, given_up: Flag) -> None:
        """Load a version in a child, unless that has succeeded before; or until `given_up` is set.

        Args:
            load: the name of the load: equal for equal content.
            directory: the version's files.
            options: options of its model.
            given_up: set when the version is no longer wanted; then this returns soon.

        Raises:
            LoadFailed: the load ended the child, found no memory, or took more than there is.
        """
        job = json.dumps({"task": pickle.dumps(TrialTask(directory, options)).hex()})
        trial = hash((load, job))
        if trial not in self._passed and _passes(job, given_up, self._room):
            self._passed.add(trial)


def trial_loads(
    room: Room, *, wanted: bool
) -> Callable[[str, Path, EngineOptions, Flag], None] | None:
    """Give `TrialLoads.run` of a server, where that is wanted."""
    return TrialLoads(room).run if wanted else None


def _passes(job: str, given_up: Flag, room: Room) -> bool:
    try:
        process = WorkerProcess(COMMAND, {})
    except OSError as error:
        raise LoadFailed(f"no process can be started for its trial load: {error}") from error
    most = 0
    lacks = False
    try:
        process.begin(job)
        while not process.has_replied(LOOK_S):
            # Mapped weights do not count: the kernel drops those pages before it ends a process.
            most = max(most, unreclaimable_bytes(process.pid))
            lacks = lacks or most > room()
            if lacks or given_up.is_set():
                process.kill()
        process.reply()
        process.hang_up()
    except RemoteFault as fault:
        if fault.code == Code.RESOURCE_EXHAUSTED:
            raise _failed(str(fault), most) from fault
        return False
    except PeerGone as gone:
        ended = process.wait()
        if given_up.is_set():  # the caller looks at it
            return False
        how = "and there is no more for it" if lacks else f"the process ended: {ended}"
        raise _failed(how, most) from gone
    finally:
        process.cut_off()
        process.close()
    return True


def _failed(how: str, most: int) -> LoadFailed:
    used = f" with {most >> 20} MB in use" if most else ""
    return LoadFailed(
        f"its trial load in a process of its own failed{used}, {how}; the server goes on: allow"
        " more memory, or replace the version"
    )
