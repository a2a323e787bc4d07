"""What a process does to be replaced; its successors are real, and most of them fail."""

import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.core.values.errors import ServingError
from ie_serving.server.process import take_over
from ie_serving.server.process.gunicorn_app import ended_child
from ie_serving.server.process.take_over import VARIABLE, Succession, inherited, of_successor
from tests.process import until

NOT_REPLACED = "process not replaced, it goes on"


@pytest.fixture
def bound() -> Iterator[Sequence[socket.socket]]:
    with closing(socket.create_server(("127.0.0.1", 0))) as one:
        yield [one]


def command(monkeypatch: pytest.MonkeyPatch, path: Path, text: str) -> None:
    """Have this process be one that was started by a script."""
    path.write_text(text)
    path.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(path), "--flag"])


def ended(succession: Succession) -> None:
    """Wait for the successor's end, as the arbiter does, among children that other tests left."""

    def is_over() -> bool:
        if child := ended_child():
            succession.note_end(*child)
        return not succession.is_under_way

    until(is_over)


FAILURES = {
    "a bad flag": (
        "import sys; sys.exit('ie_serving: error: --prot: unknown argument')",
        "ie_serving: error: --prot: unknown argument",
    ),
    "a broken package": ("import no_such_module", "No module named 'no_such_module'"),
    "no word": ("import sys; sys.exit(3)", "exit code 3"),
    "killed": ("import os; os.kill(os.getpid(), 9)", "SIGKILL, perhaps out of memory"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_why_a_successor_has_ended_is_said(
    name: str,
    bound: Sequence[socket.socket],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    text, cause = FAILURES[name]
    command(monkeypatch, tmp_path / "command", f"#!{sys.executable}\n{text}\n")
    succession = Succession(os.environ)
    succession.begin(bound)
    assert succession.is_under_way
    ended(succession)
    assert not succession.is_under_way
    assert succession.ready_pid() == 0
    (line,) = [each for each in caplog.messages if NOT_REPLACED in each]
    assert cause in line
    if not cause.startswith(("exit", "SIG")):
        assert cause in capfd.readouterr().err, "the whole of what it said is in the log, too"


def test_a_command_that_is_gone_begins_no_replacement(
    bound: Sequence[socket.socket],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    command(monkeypatch, tmp_path / "command", "#!/no/such/python\n")
    succession = Succession(os.environ)
    succession.begin(bound)
    assert not succession.is_under_way
    assert f'cause="{tmp_path}/command: No such file or directory"' in caplog.text


SUCCESSOR = f"""#!{sys.executable}
import os, sys, time
sys.path.insert(0, {str(Path(__file__).parents[4])!r})
from ie_serving.server.process.take_over import inherited
print("early", file=sys.stderr)
predecessor = inherited(os.environ)
print("late", file=sys.stderr)
(one,) = predecessor.sockets
assert one.getsockname()
assert "{VARIABLE}" not in os.environ
predecessor.told_ready()
time.sleep(60)
"""


def test_a_replacement_that_is_ready_says_so(
    bound: Sequence[socket.socket],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It says so, and what it says on stderr is where this process says its own."""
    command(monkeypatch, tmp_path / "command", SUCCESSOR)
    succession = Succession(os.environ)
    succession.begin(bound)
    succession.begin(bound)
    assert "replacement already on its way" in caplog.text, "one at a time"
    assert "ends it, as where its models never load; then send SIGUSR2 again" in caplog.text
    assert NOT_REPLACED not in caplog.text, "nothing has failed"
    until(lambda: bool(succession.ready_pid()))
    succession.give_up()  # it has taken over: it stays
    pid = succession.ready_pid()
    # Beside it the log of this process may stand there.
    said = [line for line in capfd.readouterr().err.splitlines() if line in ("early", "late")]
    assert said == ["early", "late"]
    os.kill(pid, signal.SIGKILL)
    ended(succession)


def test_one_that_takes_too_long_is_ended(
    bound: Sequence[socket.socket],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sys, "argv", ["/bin/sleep", "60"])
    monkeypatch.setattr(take_over, "LONGEST_S", 0.0)
    succession = Succession(os.environ)
    succession.begin(bound)
    assert succession.ready_pid() == 0
    ended(succession)
    assert NOT_REPLACED in caplog.text
    assert "was not ready within 0 s, and was ended" in caplog.text


def test_a_replacement_that_ends_with_this_process_is_no_error(
    bound: Sequence[socket.socket],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sys, "argv", ["/bin/sleep", "60"])
    caplog.set_level(logging.INFO)
    succession = Succession(os.environ)
    succession.begin(bound)
    succession.stop()
    ended(succession)
    assert "replacement ended, this process stops" in caplog.messages[-1]
    assert "ERROR" not in [each.levelname for each in caplog.records]


@pytest.mark.parametrize(
    ("pid", "environment", "cause"),
    [
        (1, {}, "it is the first process of its container"),
        (7, {"SYSTEMD_EXEC_PID": "7"}, "set Type=notify in the unit"),
    ],
)
def test_a_replacement_that_would_end_both_processes_is_refused(
    pid: int,
    environment: dict[str, str],
    cause: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: pid)
    succession = Succession(environment)
    succession.begin([])
    assert cause in caplog.text
    assert not succession.is_under_way


def test_a_process_that_replaces_no_other_inherits_nothing() -> None:
    assert inherited({}) is None


def test_a_python_module_is_started_by_its_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [__file__, "x"])
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "module", "x"])
    assert take_over.command_again() == [sys.executable, "-m", "module", "x"]


@pytest.mark.parametrize(
    ("given", "required"),
    [
        ({"open_ports_early": True}, True),
        ({"allow_unavailable_models": True}, False),
        ({"allow_unavailable_models": True, "require_available": True}, True),
    ],
)
def test_it_waits_for_its_models(given: dict[str, bool], required: bool) -> None:
    server = ServerSettings(**given)  # type: ignore[arg-type]
    found = of_successor(Settings(server=server, models=())).server
    assert not found.open_ports_early
    assert found.require_available is required


def test_grpcio_takes_no_socket_over() -> None:
    server = ServerSettings(grpc_transport="grpcio")
    with pytest.raises(ServingError, match="binds sockets of its own"):
        of_successor(Settings(server=server, models=()))
