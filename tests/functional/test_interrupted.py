"""Ctrl-C and SIGTERM end every command with 130 and 143: what was cut short never looks done.

Each command is interrupted at its work, which it cannot finish: it asks a server that never
answers, reads a pipe without a writer, writes to one without a reader, or runs code that hangs.
"""

import array
import fcntl
import os
import shlex
import signal
import socket
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ie_serving.config.dialects.own_flags import CHECK, TUNE_COMMAND
from ie_serving.core.values.commands import ASKING, BESIDE
from ie_serving.core.values.tensors import DataType, Signature, TensorSpec
from ie_serving.wire.tfs.prediction_log import predict_record
from tests.process import COMMANDS, PATIENCE_S, Process, until
from tests.terminal import Terminal
from tests.unit.engines.openvino.models import linear

CODES = [
    pytest.param(signal.SIGINT, 130, id="SIGINT"),
    pytest.param(signal.SIGTERM, 143, id="TERM"),
]
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
AT_WORK = "at work"
SMALL_PIPE = 4096
"""Bytes that a pipe takes before its writer waits."""
LONG = "x" * 4 * SMALL_PIPE
HANGS = f"""
import threading

class Hangs:
    def execute(self, inputs, ctx):
        print({AT_WORK!r}, flush=True)
        threading.Event().wait()

    def metadata(self):
        number = {{"dtype": "float32", "shape": [-1, 4]}}
        return {{"inputs": {{"x": number}}, "outputs": {{"x": number}}}}
"""
WAITS = f"import threading\nprint({AT_WORK!r}, flush=True)\nthreading.Event().wait()\n"
DEAF = f"""
import threading

class Deaf:
    def load(self, ctx):
        print({AT_WORK!r}, flush=True)
        while True:
            try:
                threading.Event().wait()
            except BaseException:
                pass

    def execute(self, inputs, ctx):
        return inputs
"""


class Silent:
    """A server that accepts connections and never answers."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(PATIENCE_S)
        self.place = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._taken: list[socket.socket] = []

    def asked(self) -> None:
        """Wait until a client has begun to ask."""
        connection, _ = self._socket.accept()
        self._taken.append(connection)
        connection.settimeout(PATIENCE_S)
        assert connection.recv(1)

    def close(self) -> None:
        for each in (self._socket, *self._taken):
            each.close()


def unread(end: int) -> int:
    """Bytes that lie in a pipe."""
    count = array.array("i", [0])
    fcntl.ioctl(end, termios.FIONREAD, count)
    return count[0]


SPECS = {"x": TensorSpec("x", DataType.FP32, (1,), "x")}
TENSOR = {"x": np.zeros(1, np.float32)}
RECORD = predict_record(
    Signature("s", SPECS, SPECS), TENSOR, TENSOR, model="m", version=1, sampling_rate=1.0
)

At = Callable[[Path], AbstractContextManager[tuple[Process, Callable[[], object]]]]
"""Starts a command in a directory; gives its process, and what waits until it is at work."""


@dataclass
class Case:
    """A command at its work."""

    command: str
    at: At
    id: str = ""
    asks: bool = False


def asks(*words: str, what: str = "", program: str = "ie_serving") -> Case:
    """A command that asks a server at SERVER, HOST:PORT, which is also the store of s3://."""

    @contextmanager
    def at(directory: Path) -> Iterator[tuple[Process, Callable[[], object]]]:
        (directory / "request.json").write_text('{"instances": [1]}')
        (directory / "config.json").write_text('{"model_config_list": []}')
        (directory / "requests.tfrecord").write_bytes(RECORD)
        with closing(Silent()) as server:
            given = [word.replace("SERVER", server.place) for word in words]
            store = {**KEYS, "S3_ENDPOINT": f"http://{server.place}"}
            yield Process(program, *given, env=store, cwd=directory), server.asked

    return Case(words[0], at, what or " ".join(words[:2]), asks=program == "ie_serving")


def reads(*words: str, name: str) -> Case:
    """A command that reads FIFO, of which there is only the beginning."""

    @contextmanager
    def at(directory: Path) -> Iterator[tuple[Process, Callable[[], object]]]:
        fifo = directory / "fifo.json"
        os.mkfifo(fifo)
        end = os.open(fifo, os.O_RDWR)
        os.write(end, b"{")
        given = [word.replace("FIFO", str(fifo)) for word in words]
        process = Process("ie_serving", *given, cwd=directory)
        yield process, lambda: until(lambda: unread(end) == 0)
        os.close(end)

    return Case(name, at, name)


def writes(*words: str, name: str = "") -> Case:
    """A command whose output is longer than the pipe that it writes to."""

    @contextmanager
    def at(directory: Path) -> Iterator[tuple[Process, Callable[[], object]]]:
        for number in range(200):
            (directory / "models" / f"{number}{LONG[:100]}" / "1" / "file").mkdir(parents=True)
        fifo = directory / "output"
        os.mkfifo(fifo)
        end = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, SMALL_PIPE)

        command = shlex.join([str(COMMANDS / "ie_serving"), *words])
        process = Process("/bin/sh", "-c", f"exec {command} > output", cwd=directory)
        yield process, lambda: until(lambda: unread(end) > 0)
        os.close(end)

    return Case(name or words[0], at, name or " ".join(words[:2]))


def runs(
    *words: str, code: str = "", says: str, what: str = "", files: Mapping[str, str] | None = None
) -> Case:
    """A command that says something when it is at work, in a directory with a model and code."""

    @contextmanager
    def at(directory: Path) -> Iterator[tuple[Process, Callable[[], object]]]:
        version = linear(directory / "m" / "1", 2.0)
        (version / "kernel.py").write_text(code)
        (directory / "request.json").write_text('{"inputs": {"x": [[1, 2, 3, 4]]}}')
        for name, text in (files or {}).items():
            (directory / name).write_text(text)
        process = Process(*words, cwd=directory, env={"PYTHONPATH": str(directory)})
        yield process, lambda: process.line(says)

    return Case(words[1], at, what or " ".join(words[:2]))


@contextmanager
def asking_for_a_password(_: Path) -> Iterator[tuple[Process, Callable[[], object]]]:
    with Terminal() as terminal:
        command = shlex.join([str(COMMANDS / "ie_serving"), "key", "password", "bob"])
        # The shell leads the session: what it opens first is the terminal that `getpass` asks at.
        process = Process("/bin/sh", "-c", f"exec {command} < {os.ttyname(terminal.end)}")
        yield process, lambda: terminal.until("assword")
        assert termios.tcgetattr(terminal.end)[3] & termios.ECHO


KERNEL = ("--model_name=m", "--model_path=m", "--kernel=kernel.py", "--allow_python=true")
CASES = [
    asks("status", "--url=http://SERVER"),
    asks("metadata", "m", "--url=http://SERVER"),
    asks("predict", "--model_name=m", "--file=request.json", "--url=http://SERVER"),
    asks("replay", "requests.tfrecord", "--to=SERVER"),
    asks("reload", "--url=http://SERVER"),
    asks("reload", "--config=config.json", "--url=grpc://SERVER", what="reload over gRPC"),
    asks("poll", "m", "--url=http://SERVER"),
    asks("labels", "list", "m", "--url=http://SERVER"),
    asks("labels", "set", "m", "stable=1", "--url=http://SERVER"),
    asks("gen", "client", "--lang=python", "--model_name=m", "--url=http://SERVER"),
    asks("gen", "request", "--model_name=m", "--url=http://SERVER"),
    asks("bridge", "mqtt", "--broker=SERVER", "--topic=t", "--model_name=m"),
    asks(CHECK, "--model_name=m", "--model_path=s3://bucket/m", what="check of a store"),
    asks(
        *("--dry_run", "--model_name=m", "--model_base_path=s3://bucket/m"),
        program="tensorflow_model_server",
    ),
    reads("config", "import", "FIFO", name="config import"),
    reads("--add_to_config", "--config_path=FIFO", "--model_name=m", "--model_path=m", name="add"),
    reads("--remove_from_config", "--config_path=FIFO", "--model_name=m", name="remove"),
    writes("completion", "bash"),
    writes("key", "new", "bob", f"--models={LONG}"),
    writes("--list_models", "--model_repository_path=models", name="list"),
    Case("key", asking_for_a_password, "key password"),
    runs("ie_serving", CHECK, *KERNEL, code=DEAF, says=AT_WORK),
    runs(
        *("ie_serving", "verify", "m/1", "--against=tensorflow"),
        files={"tensorflow.py": WAITS},
        says=AT_WORK,
    ),
    runs("ie_serving", TUNE_COMMAND, "--model_path=m", "--seconds=60", says="requests:"),
    runs(
        *("ie_serving", "kernel", "run", "m/1", "--input=request.json"),
        code=HANGS,
        says=AT_WORK,
        what="kernel run",
    ),
]


CHECKED = next(n for n, case in enumerate(CASES) if case.command == CHECK and not case.asks)
EACH = [
    pytest.param(
        case,
        *code.values,
        id=f"{case.id}-{code.id}",
        # All that ask wait for a reply in the same place.
        marks=[pytest.mark.soak] if place not in (0, CHECKED) and code is CODES[1] else [],
    )
    for place, case in enumerate(CASES)
    for code in CODES
]
"""The first, which asks a server, and `check` are ended by TERM as well; others by `make soak`."""


def test_every_command_is_here() -> None:
    beside = {CHECK, TUNE_COMMAND, "config import", "add", "remove", "list", "--dry_run"}
    assert {case.command for case in CASES} == {*ASKING, *BESIDE, *beside}


@pytest.mark.parametrize(("case", "number", "code"), EACH)
def test_an_interrupted_command_tells(case: Case, number: int, code: int, tmp_path: Path) -> None:
    with case.at(tmp_path) as (process, is_at_work):
        is_at_work()
        process.send(number)
        assert process.exit_code() == code
    assert "Traceback" not in process.log


PROGRAMS = [
    ("ie_serving", "status"),
    ("ie_serving", "model"),
    *((name,) for name in ("tensorflow_model_server", "kibernetika-serving", "kserving")),
    *((name,) for name in ("simple_tensorflow_serving", "stfs")),
]


@pytest.mark.thinned
@pytest.mark.parametrize(("number", "code"), CODES)
@pytest.mark.parametrize("command", PROGRAMS, ids=" ".join)
def test_one_that_is_interrupted_while_it_imports_tells(
    command: tuple[str, ...], number: int, code: int, tmp_path: Path
) -> None:
    """Servers as well: none has served yet."""
    hangs = f"import threading\nprint({AT_WORK!r}, flush=True)\nthreading.Event().wait()\n"
    (tmp_path / "argparse.py").write_text(hangs)
    process = Process(*command, env={"PYTHONPATH": str(tmp_path)})
    process.line(AT_WORK)
    process.send(number)
    assert process.exit_code() == code
    assert "Traceback" not in process.log


@pytest.mark.parametrize(("number", "code"), CODES)
def test_one_in_a_long_call_of_a_library_tells(number: int, code: int, tmp_path: Path) -> None:
    """As in OpenVINO's compiler: Python runs its handlers between calls, and none returns."""
    hangs = f"""
import ctypes

lock = ctypes.CDLL(None).pthread_mutex_lock
mutex = ctypes.create_string_buffer(64)
lock(mutex)
print({AT_WORK!r}, flush=True)
lock(mutex)
"""
    (tmp_path / "argparse.py").write_text(hangs)
    process = Process("ie_serving", CHECK, env={"PYTHONPATH": str(tmp_path)})
    process.line(AT_WORK)
    process.send(number)
    assert process.exit_code() == code
