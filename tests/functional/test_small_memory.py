"""In 512 MB no traffic gets the server killed.

In a cgroup with that limit, which only root can make, the kernel kills no process. Without one the
budget is what a container of 512 MB would give. Either way the peak of private memory of all
processes of the server is measured. Pages of files, such as OpenVINO's libraries, do not count: the
kernel takes those back before it kills, and which are mapped depends on what else runs.
"""

import os
import re
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import httpx
import pytest

from tests.functional.cost import ROW, forget_peaks, inside, own_group
from tests.functional.hostile import REQUESTS, serve
from tests.functional.payloads import MEGABYTE
from tests.functional.servers import Server
from tests.process import PATIENCE_S, until

CONTAINER = 512 * MEGABYTE
KERNEL = 32 * MEGABYTE
"""Of the container: sockets, page tables, and files that are read just now."""
UNREAD = 30
"""Clients that read no reply; most of their 90 requests find no room."""
HUNGRY = (
    "many models",
    "64 MB from 41 bytes",
    "gzip over gRPC",
    "25 MB of tensors",
    "a million strings",
    "30 megapixels of PNG",
    "levels of JSON",
    "20 MB of JSON",
    "a million numbers in a reply",
)
"""What takes most memory of its kind; `test_loop_time.py` and `test_attacks.py` send the others."""
BODY = b'{"inputs": {"x": [1500000]}}'
ASKS_MUCH = b"POST /v1/models/range:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (
    len(BODY),
    BODY,
)
AT_ONCE = 6
"""Requests; each client here holds its own as well, which the machine of the tests must bear."""

pytestmark = pytest.mark.timeout(240)


def kilobytes(pid: int, file: str, name: str) -> int:
    text = Path(f"/proc/{pid}/{file}").read_text()
    return int(re.findall(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)[0])


def most_private(server: Server) -> int:
    """The most private memory since `forget_peaks`, in bytes.

    Pages of files that a process maps stay mapped, so those of now were part of its peak. What the
    arbiter shares with its worker is counted with the worker.
    """
    arbiter, *workers = server.pids()
    own = kilobytes(arbiter, "smaps_rollup", "Private_Dirty")
    peaks = [
        kilobytes(pid, "status", "VmHWM") - kilobytes(pid, "status", "RssFile") for pid in workers
    ]
    return (own + sum(peaks)) * 1024


@pytest.mark.parametrize(
    "kinds", [HUNGRY, pytest.param([*REQUESTS] * 2, marks=pytest.mark.soak)], ids=len
)
def test_hostile_traffic_stays_within_a_small_container(
    tmp_path: Path, group: Path | None, kinds: Sequence[str]
) -> None:
    """Many kinds at once: refused or answered, and good requests are answered afterwards.

    In a cgroup the server finds the limit by itself, and takes half of it.
    """
    flags = [] if group else [f"--memory_budget_bytes={CONTAINER // 2}"]
    with closing(serve(tmp_path, *flags, within=inside(group))) as server:
        worker = server.ready().pids()[1]
        page = server.rest.get("/metrics").text
        assert f"ie_serving_memory_budget_limit_bytes {CONTAINER // 2}\n" in page
        forget_peaks(server)
        before = most_private(server)
        ask_all(server, kinds)
        most = most_private(server)
        print(f"before {before >> 20} MB, peak {most >> 20} MB")
        assert server.pids()[1] == worker
        assert most < CONTAINER - KERNEL
        answers(server)
    assert group is None or killed(group) == 0


def test_unread_replies_of_many_clients_do_not_end_the_server(
    tmp_path: Path, group: Path | None
) -> None:
    """Requests of 100 bytes, replies of 15 MB, of which few can be encoded at a time."""
    if group is None:
        pytest.skip("no cgroup that limits memory can be made here")
    with closing(serve(tmp_path, within=inside(group))) as server, ExitStack() as clients:
        worker = server.ready().pids()[1]
        for _ in range(UNREAD):
            address = ("127.0.0.1", server.rest_port)
            client = clients.enter_context(socket.create_connection(address, PATIENCE_S))
            client.sendall(ASKS_MUCH * 3)
        # As many as fit are held, and all others have been refused.
        until(lambda: refused(server) >= UNREAD, 2 * PATIENCE_S)
        assert server.pids()[1] == worker
    assert killed(group) == 0


def refused(server: Server) -> int:
    """Tell how many requests the budget has refused."""
    name = r'^ie_serving_rejected_requests_total\{model_name="range",reason="memory"\} (\d+)'
    return sum(map(int, re.findall(name, server.rest.get("/metrics").text, re.MULTILINE)))


@pytest.fixture
def group() -> Iterator[Path | None]:
    """A group below that of the tests, with the limit of the container; None without rights."""
    path = own_group("memory") / f"ie_serving-{os.getpid()}"
    try:
        path.mkdir()
    except OSError:
        yield None
        return
    try:
        limit = next((each for each in LIMITS if (path / each).exists()), None)
        if limit is not None:
            (path / limit).write_text(str(CONTAINER))
        yield path if limit else None
    finally:
        path.rmdir()


LIMITS = ("memory.max", "memory.limit_in_bytes")
"""Of cgroups of version 2 and 1. Sources: cgroup-v2.rst and cgroup-v1/memory.rst of the kernel."""


def killed(group: Path) -> int:
    """How many processes the kernel has killed for want of memory."""
    files = (group / "memory.events", group / "memory.oom_control")
    text = "".join(file.read_text() for file in files if file.exists())
    return int(re.findall(r"^oom_kill (\d+)", text, re.MULTILINE)[0])


def ask_all(server: Server, kinds: Sequence[str]) -> None:
    """Send a request of each kind, several at a time."""

    def ask(name: str) -> None:
        with suppress(httpx.HTTPError):
            REQUESTS[name](server)

    with ThreadPoolExecutor(AT_ONCE) as clients:
        list(clients.map(ask, kinds))


def answers(server: Server) -> None:
    reply = server.rest.post("/v1/models/digits:predict", json={"instances": [ROW]})
    assert reply.status_code == 200
