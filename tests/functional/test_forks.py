"""Forks that Python code makes: they take no signal, no client and no request of the server."""

import signal
import socket
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.functional.servers import Server, config_flag
from tests.process import PATIENCE_S, until
from tests.unit.engines.openvino.models import linear

NUMBERS = '{"dtype": "float32", "shape": [-1]}'
FORKS = f"""
import os

class Forks:
    def metadata(self):
        return {{"inputs": {{"x": {NUMBERS}}}, "outputs": {{"y": {NUMBERS}}}}}

    def execute(self, inputs):
        if inputs["x"][0] < 0:
            os.fork()
        return inputs["x"]
"""
POOLS = f"""
import multiprocessing

def half(x):
    return x / 2

class Pools:
    def metadata(self):
        return {{"inputs": {{"x": {NUMBERS}}}, "outputs": {{"y": {NUMBERS}}}}}

    def execute(self, inputs):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            return pool.map(half, inputs["x"].tolist())
"""
STAYS = f"""
import multiprocessing, os, time

class Stays:
    def metadata(self):
        number = {{"dtype": "int64", "shape": []}}
        return {{"inputs": {{"x": {NUMBERS}}}, "outputs": {{"pid": number}}}}

    def execute(self, inputs):
        process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
        process.start()
        return {{"pid": process.pid}}
"""
HOOKS = """
import os

def process(inputs):
    if inputs["x"].min() < 0:
        os.fork()
    return {"y": inputs["x"]}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("forks")
    models: dict[str, dict[str, Any]] = {
        "thread": {"kernel": "kernel.py:Forks"},
        "inline": {"kernel": "kernel.py:Forks", "isolation": "inline"},
        "process": {"kernel": "kernel.py:Forks", "isolation": "process"},
        "pools": {"kernel": "kernel.py:Pools"},
        "pools_apart": {"kernel": "kernel.py:Pools", "isolation": "process"},
        "stays": {"kernel": "kernel.py:Stays"},
        "stays_apart": {"kernel": "kernel.py:Stays", "isolation": "process"},
        "hooked": {"hooks": "hooks.py"},
    }
    for name in models:
        version = root / name / "1"
        version.mkdir(parents=True)
        (version / "kernel.py").write_text(FORKS + POOLS + STAYS)
    linear(root / "hooked/1/model", 1.0)
    for part in (root / "hooked/1/model").iterdir():
        part.rename(root / "hooked/1" / part.name)
    (root / "hooked/1/hooks.py").write_text(HOOKS)
    entries = [{"name": n, "base_path": n, **own} for n, own in models.items()]
    file = config_flag(root / "config.json", *entries)
    with Server("ie_serving", "config", file, "--allow_python") as server:
        yield server.ready()


def ask(server: Server, model: str, x: list[float]) -> Any:
    found = server.rest.post(f"/v1/models/{model}:predict", json={"inputs": {"x": x}})
    assert found.status_code == 200, found.text
    outputs = found.json()["outputs"]
    return outputs["y"] if isinstance(outputs, dict) else outputs


@pytest.mark.parametrize("model", ["thread", "inline", "process", "hooked"])
def test_a_fork_that_comes_back_answers_no_client(server: Server, model: str) -> None:
    """Both processes had read the next calls and answered them, each with the other's outputs."""
    for x in ([1.0], [2.0]):
        ask(server, model, x)
    before = descendants(server)
    for number in range(3):
        assert ask(server, model, [-5.0 - number]) == [-5.0 - number]
        for x in ([3.0], [4.0, 4.0, 4.0], [5.0]):
            assert ask(server, model, x) == x
    until(lambda: descendants(server) <= before)
    server.line("fork ended")


@pytest.mark.parametrize("model", ["pools", "pools_apart"])
def test_a_pool_of_forks_does_not_stop_the_server(server: Server, model: str) -> None:
    """The end of a pool sends SIGTERM to its processes, which had handed it to the event loop."""
    pids = server.pids()
    for number in range(4):
        assert ask(server, model, [8.0 + number, 6.0]) == [4.0 + number / 2, 3.0]
    assert server.pids() == pids
    assert "server stops" not in server.log


def test_a_fork_keeps_no_port_when_the_server_has_ended(server: Server) -> None:
    own = Server(*server.popen.args[:3], "--allow_python")  # type: ignore[index]
    stayed: list[psutil.Process] = []
    try:
        own.ready()
        # The first is a fork of the worker, the second one of the kernel's process.
        for model in ("stays", "stays_apart"):
            with socket.create_connection(("127.0.0.1", own.port)):  # a client's, that both have
                stayed.append(psutil.Process(ask(own, model, [1.0])))
        # Not `close`, which reads to the end of the output: the forks hold it open.
        own.send(signal.SIGTERM)
        own.popen.wait(PATIENCE_S)
        for port in (own.port, own.rest_port):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        assert all(each.is_running() for each in stayed)
    finally:
        for each in stayed:
            each.kill()
        own.close()


def descendants(server: Server) -> set[int]:
    alive = psutil.Process(server.popen.pid).children(recursive=True)
    return {each.pid for each in alive if each.status() != psutil.STATUS_ZOMBIE}
