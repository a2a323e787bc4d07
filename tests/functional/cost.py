"""What a request costs a server that serves the sample: processor time, memory, others' waiting."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.functional.servers import PLAIN, Server
from tests.process import PATIENCE_S

ROW = [0.0] * 64
MOST_S = 5.0
"""Seconds of processor time that an odd request may cost; what grows with the square costs more."""
MOST_WAIT_S = 8.0
"""Seconds that a probe of health may take meanwhile. The machine of the tests is busy, so this is
far above what the server needs; what held the event loop by the square took 20 s and more."""
PAUSE_S = 0.02
"""Seconds between two probes."""


def forget_peaks(server: Server) -> int:
    """Let peaks of memory begin anew; return what is in use, in bytes."""
    for pid in server.pids():
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    return peak(server)


def peak(server: Server) -> int:
    """The most memory in use since `forget_peaks`, in bytes."""
    states = (Path(f"/proc/{pid}/status").read_text() for pid in server.pids())
    return sum(int(re.findall(r"VmHWM:\s+(\d+) kB", state)[0]) * 1024 for state in states)


@contextmanager
def cheap(server: Server, most_bytes: int, most_s: float = MOST_S) -> Iterator[None]:
    """The block costs the server little time and memory, and it still serves.

    Processor time, not the clock's: what else the machine does says nothing about the server.
    """
    before, began, logged = forget_peaks(server), server.spent_s(), len(server.lines)
    yield
    assert server.spent_s() - began < most_s
    assert peak(server) - before < most_bytes
    answered = server.rest.post("/v1/models/digits:predict", json={"instances": [ROW]})
    assert answered.status_code == 200
    assert not [line for line in server.lines[logged:] if "Traceback" in line]


class Probes:
    """Asks for health again and again.

    Attributes:
        slowest_s: the longest that an answer took.
        failed: why a probe had no answer; empty where all had.
    """

    def __init__(self, server: Server) -> None:
        self._url = f"http://127.0.0.1:{server.rest_port}/v2/health/live"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._probe)
        self.slowest_s = 0.0
        self.failed = ""

    def __enter__(self) -> "Probes":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _probe(self) -> None:
        # A connection each: others must be let in, too.
        while not self._over.wait(PAUSE_S):
            began = time.monotonic()
            try:
                httpx.get(self._url, timeout=PATIENCE_S, trust_env=False, verify=PLAIN)
            except httpx.HTTPError as error:
                self.failed = repr(error)
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)


@contextmanager
def bounded(server: Server, most_bytes: int, most_s: float = MOST_S) -> Iterator[None]:
    """As `cheap`, and a client that asks for health meanwhile is answered within `MOST_WAIT_S`."""
    with cheap(server, most_bytes, most_s), Probes(server) as probes:
        yield
    assert not probes.failed
    assert probes.slowest_s < MOST_WAIT_S


def own_group(controller: str) -> Path:
    """Give the directory of the group in which the tests run, of a controller's hierarchy."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    groups = {names: path for _, names, path in (line.split(":", 2) for line in lines)}
    for names, path in groups.items():
        if controller in names.split(","):
            return Path("/sys/fs/cgroup", names, path.lstrip("/"))
    return Path("/sys/fs/cgroup", groups.get("", "/").lstrip("/"))


def inside(group: Path | None) -> tuple[str, ...]:
    """Give the command that runs the one behind it in a control group."""
    if group is None:
        return ()
    return ("/bin/sh", "-ec", 'echo $$ > "$0"; exec "$@"', str(group / "cgroup.procs"))
