"""`tests/process.py`: a process of a test is waited for with a bound, and leaves nothing behind."""

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import process
from tests.process import Process, ended, free_ports, output_of, ran

Failed = pytest.fail.Exception
Shell = Callable[[str], Process]


@pytest.fixture
def shell() -> Iterator[Shell]:
    with ExitStack() as stack:

        def start(script: str) -> Process:
            started = Process("/bin/sh", "-c", script)
            stack.callback(started.kill)
            return started

        yield start


def test_a_line_is_waited_for(shell: Shell) -> None:
    asked = shell("echo one; echo two; echo three >&2")
    assert asked.line("t[h]") == "three"
    assert asked.exit_code() == 0
    assert asked.lines == ["one", "two", "three"]


def test_an_end_without_the_line_fails_with_the_output(shell: Shell) -> None:
    with pytest.raises(Failed, match="ended without a line with 'ready':\nbroken"):
        shell("echo broken").line("ready")


def test_progress_begins_the_patience_anew(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that is 10 s later at each look."""
    asked = shell("echo step; echo step; echo ready")
    assert asked.exit_code() == 0
    clock, unread, waits = itertools.count(0.0, 10.0), asked.unread.get, []

    def get(timeout: float) -> str | None:
        waits.append(timeout)
        return unread(timeout=timeout)

    monkeypatch.setattr(asked.unread, "get", get)
    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert asked.line("ready", 30.0, progress="step") == "ready"
    assert waits == [20.0, 20.0, 20.0]


def test_progress_without_an_end_fails(shell: Shell) -> None:
    asked = shell("echo step; sleep 1000")
    with pytest.raises(Failed, match="no line with 'ready' in time"):
        asked.line("ready", 0.1, progress="step")


def test_a_process_that_hangs_fails_with_the_output_and_is_killed(shell: Shell) -> None:
    asked = shell("echo waits; sleep 1000")
    asked.line("waits")
    with pytest.raises(Failed, match="did not end:\nwaits"):
        asked.exit_code(0.01)
    assert not asked.runs


def test_the_whole_group_ends(shell: Shell) -> None:
    """The output ends only when the last process that holds it has ended."""
    asked = shell("sleep 1000 & echo started")
    asked.line("started")
    asked.kill()
    with pytest.raises(Failed, match="ended without"):
        asked.line("more")


def test_output_of_fails_with_what_was_said() -> None:
    assert output_of(sys.executable, "-c", "print('a')") == ["a"]
    with pytest.raises(AssertionError, match="exit code 3:\nno"):
        output_of(sys.executable, "-c", "print('no'); raise SystemExit(3)")


def test_the_report_shows_each_process_of_the_test() -> None:
    output_of(sys.executable, "-c", "print('said')")
    (title, text) = process.report()[-1]
    assert title.startswith(f"output of {sys.executable} -c")
    assert text == "said"


@pytest.mark.parametrize("executed", [True, False], ids=["executed", "forked"])
def test_a_command_has_its_folder_environment_session_and_end(
    tmp_path: Path, executed: bool
) -> None:
    words = ("ie_serving", "config", "--config_path=here.json")
    (tmp_path / "here.json").write_text('{"model_config_list": []}')
    with Process(*words, "--port=x", cwd=tmp_path, executed=executed) as refused:
        assert refused.exit_code() == 2
    assert refused.line("port")
    (port,) = free_ports(1)
    port_flag, odd = f"--port={port}", {"LOG_LEVEL": "loud"}
    process = Process(*words, port_flag, cwd=tmp_path, env=odd, executed=executed)
    with closing(process):
        process.line(f"server listens on port {port}")
        assert "loud" in process.log
        assert os.getsid(process.popen.pid) == process.popen.pid != os.getsid(0)
        assert process.popen.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.popen.wait(0.0)
        process.send(signal.SIGKILL)
        assert process.exit_code() == -signal.SIGKILL


def test_streams_are_kept_apart() -> None:
    found = ran("/bin/sh", "-c", "echo said; echo wrong >&2; exit 3")
    assert (found.returncode, found.stdout, found.stderr) == (3, "said\n", "wrong\n")
    forked = ran("ie_serving", "gen", "client", "--lang=none")
    assert (forked.returncode, forked.stdout) == (2, "")
    assert "--lang" in forked.stderr


def test_processes_are_waited_for_beside_a_thousand_open_files() -> None:
    with ExitStack() as opened:
        for _ in range(1024):
            opened.callback(os.close, os.dup(0))
        process = Process("ie_serving", "--version")
        assert process.exit_code() == 0
        assert ended(process.popen.pid)
