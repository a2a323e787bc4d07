"""A server of many tiny models: its threads, and of a thousand the start and the idle hours."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.functional.servers import Server
from tests.functional.storage.serving import several
from tests.process import PATIENCE_S
from tests.unit.engines.openvino.models import add_one

MANY = 40

MOST_THREADS = 32
"""Beside the engine's, of which there is one for each processor."""

LONGEST_START_S = 40.0
MOST_IDLE = 0.02
"""Of a processor, at a poll a second."""

SETTLED_S, IDLE_S = 15.0, 40.0


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[ExitStack]:
    add_one(tmp_path / "model")
    with ExitStack() as stack:
        yield stack


def serving(servers: ExitStack, directory: Path, count: int) -> Server:
    """Start a server of so many models with files of their own, and wait until all serve."""
    models = {}
    for number in range(count):
        base = directory / f"m{number}"
        (base / "1").mkdir(parents=True, exist_ok=True)
        for file in (directory / "model").iterdir():
            (base / "1" / file.name).hardlink_to(file)
        models[base.name] = str(base)
    server = Server("ie_serving", *several(directory / f"{count}.json", models))
    servers.callback(server.close)
    return server.ready()


def threads(server: Server) -> int:
    return sum(len(os.listdir(f"/proc/{pid}/task")) for pid in server.pids())


def test_threads_do_not_grow_with_the_number_of_models(servers: ExitStack, tmp_path: Path) -> None:
    server = serving(servers, tmp_path, MANY)
    assert threads(server) <= MOST_THREADS + (os.cpu_count() or 1)
    assert f"models loaded models={MANY} serving={MANY} failed=0" in server.log


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_thousand_models_start_soon_and_cost_little(
    servers: ExitStack, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    server = serving(servers, tmp_path, 1000)
    start_s = time.monotonic() - began
    assert server.rest.get("/v2/health/ready", timeout=PATIENCE_S).status_code == 200
    passes(server, SETTLED_S)
    spent, began = server.spent_s(), time.monotonic()
    passes(server, IDLE_S)
    idle = (server.spent_s() - spent) / (time.monotonic() - began)
    with capfd.disabled():
        print(f"\nstart {start_s:.1f} s, idle {idle:.2%}, {threads(server)} threads")
    assert threads(server) <= MOST_THREADS + (os.cpu_count() or 1)
    assert start_s <= LONGEST_START_S
    assert idle <= MOST_IDLE


def passes(server: Server, seconds: float) -> None:
    """Let time pass, in which the server does not end."""
    with pytest.raises(subprocess.TimeoutExpired):
        server.popen.wait(seconds)
