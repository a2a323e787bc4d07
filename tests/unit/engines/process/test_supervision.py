"""A process under supervision: real processes, without TensorFlow (`standin.py`)."""

import json
import os
import re
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from ie_serving.core.values.errors import LoadFailed, NotAvailable
from ie_serving.engines.process.child_process import WorkerProcess
from ie_serving.engines.process.link import Link, PeerGone, RemoteFault
from ie_serving.engines.process.protocol import FrameKind, text, words
from ie_serving.engines.process.supervision import Supervisor
from ie_serving.engines.tensorflow.tensorflow_program import COMMAND
from tests.process import PATIENCE_S, Process, ended
from tests.unit.engines.process.processes import SOON, Begin, task


def ask(link: Link, command: str) -> str:
    link.send(link.pack(FrameKind.RUN, 0, [text(command)]))
    return words(link.reply().tensors[0])


def pid_of(supervisor: Supervisor) -> int:
    return int(ask(supervisor.link()[1], "pid"))


def test_a_start_gives_what_the_process_found() -> None:
    with closing(Supervisor(task())) as supervisor:
        found = json.loads(words(supervisor.start().tensors[0]))
        assert found == {"pid": pid_of(supervisor)}


@pytest.mark.parametrize(
    ("job", "cause"),
    [
        pytest.param({"refuse": "no such table"}, "no such table", id="refused"),
        pytest.param({"die": True}, "exit code 3", id="ended"),
        pytest.param({"hang": True, "load_limit_s": 1.0}, "did not load the model", id="hangs"),
    ],
)
def test_a_start_that_fails_is_not_repeated(job: dict[str, object], cause: str) -> None:
    supervisor = Supervisor(task(**job))
    with pytest.raises(LoadFailed, match=cause):
        supervisor.start()
    with pytest.raises(NotAvailable):
        supervisor.link()


WORDLESS = (
    "import socket, sys\n"
    "from ie_serving.engines.process.protocol import HEAD, FrameKind\n"
    "control = socket.socket(fileno=int(sys.argv[-2]))\n"
    "control.sendall(HEAD.pack(FrameKind.FAULT, 0, 0, 0))\n"
    "control.recv(1 << 16, socket.MSG_WAITALL)\n"
)


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        pytest.param(("/no/such/command",), "No such file", id="not there"),
        pytest.param(("a\0b",), "no process can be started: embedded null byte", id="no command"),
        pytest.param((sys.executable, "-c", WORDLESS), "IndexError", id="fault without words"),
    ],
)
def test_a_command_that_cannot_serve_fails_the_start(command: tuple[str, ...], cause: str) -> None:
    with pytest.raises(LoadFailed, match=cause):
        Supervisor(replace(task(), command=command)).start()


def test_a_process_that_still_imports_its_library_ignores_ctrl_c_and_is_killed_before_the_server(
    tmp_path: Path,
) -> None:
    """In place of TensorFlow, whose import cannot be halted, one that waits and then fails."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "tensorflow").mkdir()
    library = tmp_path / "tensorflow" / "__init__.py"
    library.write_text(f"open({str(gate)!r}).read()\nraise ImportError('no such symbol')\n")
    *begins, paths = COMMAND
    process = WorkerProcess((*begins, f"{tmp_path}\n{paths}"), {})
    with ExitStack() as stack:
        stack.callback(process.close)
        stack.callback(process.wait)
        threads = stack.enter_context(ThreadPoolExecutor(2))
        stack.callback(process.kill)
        stack.callback(lambda: os.close(os.open(gate, os.O_RDWR)))  # a waiter at it goes on
        load = threads.submit(process.load, "{}", PATIENCE_S)
        with threads.submit(gate.open, "w").result(PATIENCE_S):
            assert Path(f"/proc/{process.pid}/oom_score_adj").read_text() == "500\n"
            os.kill(process.pid, signal.SIGINT)
        with pytest.raises(RemoteFault, match="ImportError: no such symbol"):
            load.result(PATIENCE_S)


def test_every_link_leads_to_the_same_process(begin: Begin) -> None:
    supervisor = begin()
    assert [ask(supervisor.link()[1], "count") for _ in range(3)] == ["1", "2", "3"]


def test_a_process_that_is_killed_is_started_again_at_once(begin: Begin) -> None:
    supervisor = begin()
    first = pid_of(supervisor)
    _, old = supervisor.link()
    os.kill(first, signal.SIGKILL)
    assert ended(first)
    assert pid_of(supervisor) != first
    assert not old.alive


def test_the_request_that_ends_the_process_learns_it(begin: Begin) -> None:
    supervisor = begin()
    with pytest.raises(PeerGone):
        ask(supervisor.link()[1], "die")
    assert ask(supervisor.link()[1], "count") == "1"


def test_a_process_that_ends_again_and_again_is_paused_and_requests_are_told(begin: Begin) -> None:
    supervisor = begin()
    for _ in range(2):
        with pytest.raises(PeerGone):
            ask(supervisor.link()[1], "die")
    told = (
        r"ended 2 times without serving for 60 s in between \(exit code 4\);"
        r" it is started again in \d+ s"
    )
    with pytest.raises(NotAvailable, match=told):
        supervisor.link()


def test_after_the_pause_it_serves_again(begin: Begin, tmp_path: Path) -> None:
    marker = tmp_path / "once"
    supervisor = begin(backoff=SOON, once=str(marker))
    marker.touch()  # from now on every start fails, until the marker is gone
    with pytest.raises(PeerGone):
        ask(supervisor.link()[1], "die")
    with pytest.raises(NotAvailable, match="it ended while it loaded the model: exit code 3"):
        while True:
            supervisor.link()
    marker.unlink()
    assert answers(supervisor) == "1"


def answers(supervisor: Supervisor) -> str:
    """Ask until it is not paused; each attempt waits for a start of the process."""
    while True:
        try:
            return ask(supervisor.link()[1], "count")
        except NotAvailable:
            continue


def test_a_close_ends_the_process(begin: Begin) -> None:
    supervisor = begin()
    pid = pid_of(supervisor)
    supervisor.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(NotAvailable, match="unloaded"):
        supervisor.link()


def test_an_abandoned_process_ends_without_a_waiter(begin: Begin) -> None:
    supervisor = begin()
    pid = pid_of(supervisor)
    supervisor.abandon()
    assert ended(pid)


def test_the_process_ends_when_the_server_is_killed() -> None:
    program = (
        "import threading\n"
        "from ie_serving.engines.process.supervision import Supervisor\n"
        "from ie_serving.engines.process.protocol import words\n"
        "from tests.unit.engines.process.processes import task\n"
        "print(words(Supervisor(task()).start().tensors[0]), flush=True)\n"
        "threading.Event().wait()\n"
    )
    with Process(sys.executable, "-c", program, cwd=Path(__file__).parents[4]) as server:
        found = re.search(r"\d+", server.line("pid"))
        assert found
        server.send(signal.SIGKILL)
        assert ended(int(found[0]))


def test_a_limit_of_memory_costs_the_request_alone(begin: Begin) -> None:
    supervisor = begin(memory_bytes=1 << 29)
    _, link = supervisor.link()
    with pytest.raises(RemoteFault, match="has no memory for this request"):
        ask(link, "grow")
    assert ask(link, "count") == "1"
