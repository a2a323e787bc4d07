"""A server that stops closes what its versions opened, code of users above all, and leaves nothing.

Each server has a directory for temporary files of its own, and its kernels write down what they are
told.
"""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.functional.servers import Server, config_flag
from tests.functional.test_old_contracts import ECHO
from tests.functional.tiny import Gate, pid_of
from tests.process import PATIENCE_S, until
from tests.unit.engines.openvino.models import linear

DIARY = '''
"""Writes down in DIARY what it is told."""
import os, threading

def note(text):
    with open(os.environ["DIARY"], "a") as file:
        print(text, file=file)

class Diary:
    def load(self, ctx):
        self.name = f"{ctx.name} {ctx.version}"
        (ctx.scratch_dir / "file").write_text("left by a kernel")
        note(f"loads {self.name}")
        if "loads_for_ever" in ctx.params:
            threading.Event().wait()
        self.params = ctx.params
    def metadata(self):
        number = {"dtype": "int64", "shape": []}
        return {"inputs": {"x": number}, "outputs": {"x": number}}
    def execute(self, inputs, ctx):
        note(f"begins {self.name}")
        if inputs["x"] == 9:
            os._exit(9)
        with open(os.environ["GATE"], "rb", buffering=0) as gate:
            gate.read(1)
        note(f"answers {self.name}")
        return inputs
    def close(self):
        if "hangs" in self.params:
            note(f"hangs {self.name}")
            threading.Event().wait()
        note(f"closes {self.name}")
        if "fails" in self.params:
            raise ValueError("told to")
'''
HOOKS = """
def preprocess(inputs, ctx):
    return inputs
"""
SHUTDOWN = """
    def on_kernel_shutdown(self):
        import os
        with open(os.environ["DIARY"], "a") as file:
            print("shuts down", file=file)
"""


class World:
    """A server on models of code, in a directory of its own."""

    def __init__(self, root: Path, gate: Gate, opened: ExitStack) -> None:
        self.root = root
        self._opened = opened
        self._gate = gate
        self._diary = root / "diary"
        self._temporary = root / "temporary"
        self._temporary.mkdir()

    def kernel(self, name: str, version: int = 1, code: str = DIARY) -> None:
        """Put a version with a kernel in place, in one step."""
        beside = self.root / f"{name}.{version}"
        beside.mkdir()
        (beside / "kernel.py").write_text(code)
        (self.root / name).mkdir(exist_ok=True)
        beside.rename(self.root / name / str(version))

    def serve(self, models: dict[str, dict[str, Any]], *flags: str, **top: Any) -> Server:
        """Start a server of these models, each with its keys."""
        entries = ({"name": n, "base_path": n, **keys} for n, keys in models.items())
        file = config_flag(self.root / "config.json", *entries, **top)
        given = ("config", file, "--allow_python", *flags)
        return self.start("ie_serving", *given)

    def start(self, *command: str) -> Server:
        """Start a server that does not outlive the test."""
        temporary, diary = str(self._temporary), str(self._diary)
        env = {"TMPDIR": temporary, "DIARY": diary, "GATE": self._gate.path}
        server = Server(*command, env=env)
        self._opened.callback(server.kill)
        return server

    def noted(self, *lines: str) -> Callable[[], bool]:
        """Tell whether the kernels have noted these lines among others."""
        return lambda: set(lines) <= set(self.notes)

    @property
    def notes(self) -> list[str]:
        """What kernels have written down, but for their loads."""
        lines = self._diary.read_text().splitlines() if self._diary.exists() else []
        return [line for line in lines if not line.startswith("loads")]

    @property
    def loads(self) -> int:
        """How often a kernel has begun to load."""
        return self._diary.read_text().count("loads") if self._diary.exists() else 0

    @property
    def left(self) -> list[str]:
        """Temporary files."""
        return os.listdir(self._temporary)


@pytest.fixture
def world(tmp_path: Path, gate: Gate) -> Iterator[World]:
    with ExitStack() as opened:
        yield World(tmp_path, gate, opened)


def asked(server: Server, model: str, x: int = 1) -> Any:
    return server.rest.post(f"/v1/models/{model}:predict", json={"inputs": {"x": x}})


# -- each kind of code ---------------------------------------------------------------------------


@pytest.mark.thinned
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("isolation", ["inline", "thread", "process"])
def test_kernels_are_closed(world: World, isolation: str, workers: int) -> None:
    world.kernel("m")
    keys = {"kernel": "kernel.py", "isolation": isolation}
    server = world.serve({"m": keys}, f"--workers={workers}").ready()
    assert world.left
    assert server.stop() == 0
    assert world.notes == ["closes m 1"] * workers
    assert world.left == []


def test_every_process_of_a_kernel_is_closed(world: World) -> None:
    world.kernel("m")
    keys = {"kernel": "kernel.py", "isolation": "process", "max_concurrency": 3}
    assert world.serve({"m": keys}).ready().stop() == 0
    assert world.notes == ["closes m 1"] * 3
    assert world.left == []


@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_packages_of_edi_are_shut_down(world: World, isolation: str) -> None:
    begin, main, end = ECHO.partition("\nif __name__")
    world.kernel("echo", code=f"{begin}{SHUTDOWN}{main}{end}")
    (world.root / "echo/1/model.json").write_text('{"name": "echo", "kernel_path": "kernel.py"}')
    server = world.serve({"echo": {"kernel": "kernel.py", "isolation": isolation}}).ready()
    assert server.rest.post("/dlim/v1/inference/echo", content="hi").text == "hi"
    assert server.stop() == 0
    assert world.notes == ["shuts down"]
    assert world.left == []


@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_kernels_of_graphs_are_closed(world: World, isolation: str) -> None:
    """The file of a graph that stands in the configuration lies in a temporary directory, too."""
    (world.root / "kernel.py").write_text(DIARY)
    step = {"kernel": "kernel.py", "isolation": isolation, "in": {"x": "request.x"}}
    graph = {"name": "g", "steps": {"k": step}, "outputs": {"x": "k.x"}}
    assert world.serve({}, graphs=[graph]).ready().stop() == 0
    assert len(world.notes) == 1 and world.notes[0].startswith("closes g")
    assert world.left == []


def test_hooks_around_models_of_single_files_leave_nothing(world: World) -> None:
    model = linear(world.root / "scale", 10.0) / "model.xml"
    hooks = world.root / "hooks.py"
    hooks.write_text(HOOKS)
    flags = (f"--model-path={model}", f"--hooks={hooks}")
    server = world.start("kserving", "--driver=openvino", *flags).ready()
    assert world.left
    assert server.stop() == 0
    assert world.left == []


def test_a_kernel_that_hooks_are_around_is_shut_down(world: World) -> None:
    begin, main, end = ECHO.partition("\nif __name__")
    world.kernel("echo", code=f"{begin}{SHUTDOWN}{main}{end}")
    package = world.root / "echo" / "1"
    (package / "model.json").write_text('{"name": "echo", "kernel_path": "kernel.py"}')
    (package / "hooks.py").write_text(HOOKS)
    assert world.serve({"echo": {"hooks": "hooks.py"}}).ready().stop() == 0
    assert world.notes == ["shuts down"]
    assert world.left == []


# -- when, and for how long ------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_requests_are_answered_before(world: World, gate: Gate, isolation: str) -> None:
    world.kernel("m")
    server = world.serve({"m": {"kernel": "kernel.py", "isolation": isolation}}).ready()
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(asked, server, "m")
        until(world.noted("begins m 1"))
        server.send(signal.SIGTERM)
        server.line("server stops")
        gate.open()
        assert answer.result(PATIENCE_S).json() == {"outputs": 1}
    assert server.exit_code() == 0
    assert world.notes == ["begins m 1", "answers m 1", "closes m 1"]


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_one_that_hangs_or_fails_keeps_no_other_from_its_end(world: World, isolation: str) -> None:
    keys = {"kernel": "kernel.py", "isolation": isolation}
    for name in ("good", "fails", "hangs"):
        world.kernel(name)
    models: dict[str, Any] = {
        "hangs": {"params": {"hangs": 1}},
        "fails": {"params": {"fails": 1}},
        "good": {},
    }
    models = {name: {**keys, **own} for name, own in models.items()}
    server = world.serve(models, "--drain_timeout_seconds=1").ready()
    processes = psutil.Process(server.popen.pid).children(recursive=True)
    assert server.stop() == 0
    assert set(world.notes) == {"closes good 1", "closes fails 1", "hangs hangs 1"}
    assert "kernel failed to close kernel=Diary" in server.log
    late = [line for line in server.lines if "version not closed in time" in line]
    assert len(late) == 1 and "model=hangs version=1" in late[0]
    psutil.wait_procs(processes, PATIENCE_S)
    assert not any(each.is_running() for each in processes)
    assert world.left == []


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_version_that_was_being_replaced_is_closed_as_well(
    world: World, gate: Gate, isolation: str
) -> None:
    world.kernel("m")
    keys = {"kernel": "kernel.py", "isolation": isolation}
    server = world.serve({"m": keys}, "--file_system_poll_wait_seconds=0.1").ready()
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(asked, server, "m")
        until(world.noted("begins m 1"))
        world.kernel("m", 2)
        server.line("version=1 state=UNLOADING")
        server.send(signal.SIGTERM)
        server.line("server stops")
        gate.open()
        assert answer.result(PATIENCE_S).status_code == 200
    assert server.exit_code() == 0
    assert sorted(world.notes[2:]) == ["closes m 1", "closes m 2"]
    assert world.left == []


def test_a_version_of_a_model_that_was_being_removed_is_closed_as_well(
    world: World, gate: Gate
) -> None:
    models = {name: {"kernel": "kernel.py", "isolation": "thread"} for name in ("m", "n")}
    for name in models:
        world.kernel(name)
    server = world.serve(models).ready()
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(asked, server, "m")
        until(world.noted("begins m 1"))
        config_flag(world.root / "config.json", {"name": "n", "base_path": "n", **models["n"]})
        server.send(signal.SIGHUP)
        server.line("model=m version=1 state=UNLOADING")
        server.send(signal.SIGTERM)
        server.line("server stops")
        gate.open()
        assert answer.result(PATIENCE_S).status_code == 200
    assert server.exit_code() == 0
    assert sorted(world.notes[2:]) == ["closes m 1", "closes n 1"]
    assert world.left == []


@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_a_load_under_way_leaves_nothing(world: World, isolation: str) -> None:
    world.kernel("m")
    keys = {"kernel": "kernel.py", "isolation": isolation, "params": {"loads_for_ever": 1}}
    server = world.serve({"m": keys})
    until(lambda: world.loads == 1)
    assert world.left
    assert server.stop() == 0
    assert world.left == []


def test_a_process_that_is_replaced_closes_its_kernels(world: World) -> None:
    world.kernel("m")
    server = world.serve({"m": {"kernel": "kernel.py"}}).ready()
    server.send(signal.SIGUSR2)
    successor = pid_of(server.line("replacement started"))
    assert server.popen.wait(PATIENCE_S) == 0
    assert world.notes == ["closes m 1"]
    server.line("server has stopped")
    os.kill(successor, signal.SIGTERM)
    server.line("server has stopped")
    assert world.notes == ["closes m 1"] * 2


# -- before the stop -------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_version_that_is_replaced_is_closed(world: World, isolation: str) -> None:
    world.kernel("m")
    keys = {"kernel": "kernel.py", "isolation": isolation}
    server = world.serve({"m": keys}, "--file_system_poll_wait_seconds=0.1").ready()
    world.kernel("m", 2)
    server.line("version=1 state=END")
    assert world.notes == ["closes m 1"]
    assert len(world.left) == 1


def test_a_process_that_crashed_leaves_nothing(world: World, gate: Gate) -> None:
    world.kernel("m")
    server = world.serve({"m": {"kernel": "kernel.py", "isolation": "process"}}).ready()
    assert asked(server, "m", 9).status_code == 500
    server.line("model process ended")
    gate.open()
    assert asked(server, "m").status_code == 200
    assert server.stop() == 0
    assert world.notes[-1] == "closes m 1"
    assert world.left == []
