"""A command as a process of a test: bounded waits for what it prints, ended with its whole group.

Every test that starts a process starts it here, so that none outlives its test, none is waited for
without a bound, and the output of each is in the report when the test fails (tests/conftest.py).
"""

import contextlib
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from tests.forking import Forked, readable

COMMANDS = Path(sys.executable).parent
PATIENCE_S = 30.0
"""Bound of one wait; beyond it the test fails and shows the output. Far above what a start takes on
a busy machine, so only what hangs meets it; below pytest's time-out, which would show nothing."""

CONNECT_PAUSE_S = 0.05
"""Between two attempts to connect to a port that is still closed: nothing announces that a foreign
server listens. Shorter would burn processor time that the starting server needs."""

ASK_PAUSE_S = 0.01
ASK_SHARE, MOST_ASK_PAUSE_S = 0.1, 0.05
"""Between two questions of `until`: a share of what has been waited, within these bounds. Asked
without a pause, what is waited for has to share two processors with the questions."""

NONE = r"(?!)"
"""A pattern that is found nowhere."""

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Environment of the tests alone: beside others, threads of the libraries that they compare with
spin, which is processor time that the others lack. What a test starts is free to choose."""

FORKED = ("ie_serving", "tensorflow_model_server")
READ_EARLY = ("PYTHON", "LD_", "MALLOC_", "OMP_", "OPENBLAS_", "ONEDNN_", "OV_", "TF_")
"""Commands that are forked (`forking.py`), as programs of the tests are, but with variables that
their imports read."""

TAIL = 80
"""Lines of each process in the report of a failure: a traceback and what led to it."""

started: list["Process"] = []
"""Those of the running test and those that still run from before it, for the report."""

reserved: list[socket.socket] = []
"""Of `free_ports`."""


Own = TypeVar("Own", bound="Process")


class Process:
    """A running command; collects the lines of its standard output and standard error.

    It leads a process group of its own. A Ctrl-C at the terminal reaches only pytest, whose
    fixtures then end the process.
    """

    def __init__(
        self,
        *command: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        executed: bool = False,
        error: int | None = None,
    ) -> None:
        """Start `command`.

        Args:
            command: the first is a path, or the name of a command installed beside this Python.
            env: added to the environment of the tests.
            cwd: where it runs; by default where the tests run.
            executed: never fork, for tests of what a start imports and takes.
            error: where its standard error goes, if not with its standard output.
        """
        self.lines: list[str] = []
        self.unread: queue.Queue[str | None] = queue.Queue()
        args = [str(COMMANDS / command[0]), *map(str, command[1:])]
        is_ours = args[0] in [str(COMMANDS / name) for name in FORKED]
        forked = args if is_ours else args[1:] if _is_of_tests(args) else []
        environment = {n: v for n, v in os.environ.items() if n not in ONE_THREAD} | {**(env or {})}
        read_early = any(name.startswith(READ_EARLY) for name in env or {})
        if forked and not executed and not read_early:
            self.popen: subprocess.Popen[str] | Forked = Forked(forked, environment, cwd, error)
        else:
            self.popen = subprocess.Popen(
                args,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if error is None else error,
                text=True,
                errors="replace",
                env=environment,
                cwd=cwd,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        started.append(self)

    def _read(self) -> None:
        assert self.popen.stdout
        for line in self.popen.stdout:
            self.lines.append(line.rstrip("\n"))
            self.unread.put(line.rstrip("\n"))
        self.unread.put(None)

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    @property
    def runs(self) -> bool:
        return self.popen.poll() is None

    def line(self, pattern: str, patience_s: float = PATIENCE_S, progress: str = NONE) -> str:
        """Wait for the next line that `pattern` is found in.

        Args:
            pattern: a regular expression.
            patience_s: bound of the wait.
            progress: a line that this is found in begins `patience_s` anew.
        """
        deadline = time.monotonic() + patience_s
        while True:
            try:
                line = self.unread.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                pytest.fail(f"no line with {pattern!r} in time:\n{self.log}")
            if line is None:
                pytest.fail(f"ended without a line with {pattern!r}:\n{self.log}")
            if re.search(pattern, line):
                return line
            if re.search(progress, line):
                deadline = time.monotonic() + patience_s

    def listens(self, port: int, patience_s: float = PATIENCE_S) -> None:
        """Wait until something accepts connections at `port`; fail when the process ends first."""
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(CONNECT_PAUSE_S)
                self.kill()
                pytest.fail(f"ended before port {port} was open:\n{self.log}")
        pytest.fail(f"port {port} did not open:\n{self.log}")

    def send(self, number: int) -> None:
        """Send a signal to the process, not to its group."""
        self.popen.send_signal(number)

    def exit_code(self, patience_s: float = PATIENCE_S) -> int:
        """Wait until it ends and all its output is read."""
        try:
            code = self.popen.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"did not end:\n{self.log}")
        self._reader.join(patience_s)
        return code

    def stop(self) -> int:
        """End it with SIGTERM; the test fails when it does not heed that."""
        self.popen.terminate()
        return self.exit_code()

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop what still runs, then kill whatever it left behind."""
        try:
            if self.runs:
                self.stop()
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the whole group and wait for its end; does nothing to what has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)


def _is_of_tests(args: list[str]) -> bool:
    """Tell whether a program is run that the tests have beside them."""
    tests = Path(__file__).parent
    return args[0] == sys.executable and len(args) > 1 and tests in Path(args[1]).parents


def output_of(
    *command: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    patience_s: float = PATIENCE_S,
) -> list[str]:
    """Run `command` to its end and give its lines; the test fails when its exit code is not 0."""
    process = Process(*command, env=env, cwd=cwd)
    code = process.exit_code(patience_s)
    assert code == 0, f"exit code {code}:\n{process.log}"
    return process.lines


def ran(
    *command: str | Path, env: Mapping[str, str] | None = None, patience_s: float = PATIENCE_S
) -> subprocess.CompletedProcess[str]:
    """Run `command` to its end, whatever that is, and give what it writes to each stream."""
    with tempfile.TemporaryFile("w+", errors="replace") as error:
        process = Process(*command, env=env, error=error.fileno())
        code = process.exit_code(patience_s)
        error.seek(0)
        written = "".join(f"{line}\n" for line in process.lines)
        return subprocess.CompletedProcess(command, code, written, error.read())


def free_ports(count: int) -> list[int]:
    """Ports that no other process is given while these tests run.

    A socket stays bound to each and never listens: the kernel gives such a port neither to a
    connection nor to `bind()` of port 0, while a server that binds it with SO_REUSEADDR, as all
    here do, gets it.
    """
    ports: list[int] = []
    while len(ports) < count:
        bound = _bound(socket.AF_INET, "127.0.0.1", 0)
        port = int(bound.getsockname()[1])
        reserved.append(bound)
        # Servers listen for both kinds of addresses, and clients of localhost use IPv6 first: of it
        # the kernel gives the same number to others all the same.
        if socket.has_ipv6 and os.path.exists("/proc/net/if_inet6"):
            try:
                reserved.append(_bound(socket.AF_INET6, "::1", port))
            except OSError:
                continue
        ports.append(port)
    return ports


def _bound(family: int, host: str, port: int) -> socket.socket:
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((host, port))
    return bound


def until(holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Ask again until `holds`: for what announces itself to nobody."""
    begun = time.monotonic()
    while not holds():
        waited = time.monotonic() - begun
        assert waited < patience_s, "did not happen in time"
        time.sleep(min(max(ASK_PAUSE_S, ASK_SHARE * waited), MOST_ASK_PAUSE_S))


def ended(pid: int) -> bool:
    """Wait until a process has ended; False when it does not."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return readable(handle, PATIENCE_S)
    finally:
        os.close(handle)


def report() -> list[tuple[str, str]]:
    """The end of each process's output, with its command."""
    return [
        (f"output of {' '.join(map(str, each.popen.args))}", "\n".join(each.lines[-TAIL:]))  # type: ignore[arg-type]
        for each in started
    ]


def forget_ended() -> None:
    """A new test begins: only what still runs belongs in its report."""
    started[:] = [each for each in started if each.runs]
