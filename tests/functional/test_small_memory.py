"""In 512 MB no traffic gets the server killed.

Without a container: the budget is what a container of 512 MB would give, and the peak of private
memory of all processes of the server is measured. Pages of files, such as OpenVINO's libraries, do
not count: the kernel takes those back before it kills anybody, and which are mapped depends on what
else runs on the machine.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import httpx
import pytest

from tests.functional.cost import ROW, forget_peaks
from tests.functional.hostile import REQUESTS, serve
from tests.functional.payloads import MEGABYTE
from tests.functional.servers import Server

CONTAINER = 512 * MEGABYTE
KERNEL = 32 * MEGABYTE
"""Of the container: sockets, page tables, and files that are read just now."""
AT_ONCE = 6
"""Requests; each client here holds its own as well, which the machine of the tests must bear."""

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with closing(serve(tmp_path_factory.mktemp("models"), CONTAINER // 2)) as server:
        yield server.ready()


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


def test_hostile_traffic_stays_within_a_small_container(server: Server) -> None:
    """Every kind at once: refused or answered, and good requests are answered afterwards."""
    worker = server.pids()[1]
    forget_peaks(server)
    before = most_private(server)

    def ask(name: str) -> None:
        with suppress(httpx.HTTPError):
            REQUESTS[name](server)

    with ThreadPoolExecutor(AT_ONCE) as clients:
        list(clients.map(ask, [*REQUESTS, *reversed(REQUESTS)]))
    most = most_private(server)
    print(f"before {before >> 20} MB, peak {most >> 20} MB")
    assert server.pids()[1] == worker
    assert most < CONTAINER - KERNEL
    reply = server.rest.post("/v1/models/digits:predict", json={"instances": [ROW]})
    assert reply.status_code == 200
