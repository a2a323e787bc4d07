"""Files of tests side by side, in processes forked from the one that has collected all tests.

Collection takes 9 s of processor time, TensorFlow's import included; in pytest-xdist each process
collects for itself, and each test is told by several messages.
"""

import faulthandler
import io
import itertools
import os
import sys
import time
import traceback
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing import Pipe, connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.config import create_terminal_writer
from _pytest.faulthandler import fault_handler_stderr_fd_key

THREADS = Path("/proc/self/task")
CRASHES = 2
"""So many ended processes end the run: after the first, its test is tried again in a new one."""

AGAIN_S = 30.0
"""So long is shorter than `faulthandler_timeout`, which begins anew only then. Each begin starts a
thread and awaits the end of one, for milliseconds where more processes than processors run."""

threaded: list[str] = []
"""What had been collected when there were threads, such as TensorFlow's once it computes."""


def look_for_threads(name: str) -> None:
    """Remember after which file that has been collected there are threads."""
    if THREADS.exists() and len(os.listdir(THREADS)) > 1:
        threaded.append(name)


class Run:
    """A run of all collected tests in `count` processes, each of which runs whole files.

    A file's tests stay together, since they share servers. The first half of the processes takes
    files from the end: functional tests, which come first, wait for processes half of their time,
    and unit tests, which come last, never.
    """

    def __init__(self, session: pytest.Session, count: int) -> None:
        if threaded:
            text = f"{threaded[0]} starts threads when it is imported; no fork would have them"
            raise pytest.UsageError(text)
        self._session, self._hook = session, session.config.hook
        files = itertools.groupby(
            range(len(session.items)), lambda place: session.items[place].path
        )
        self._files = deque([*places] for _, places in files)
        self._crashes = 0
        self._workers: dict[connection.Connection, Worker] = {}
        for number in range(count):
            self._begin(number, from_end=number < count // 2)

    def _begin(self, number: int, from_end: bool) -> None:
        """Fork; in the child, run tests until none is left, and end."""
        ours, theirs = Pipe()
        if (pid := os.fork()) == 0:
            for each in [ours, *self._workers]:
                each.close()
            _work(self._session, theirs, number)
        theirs.close()
        self._workers[ours] = Worker(pid, number, from_end)

    def run(self) -> bool:
        """Give out files and pass reports on until all processes have ended."""
        try:
            while self._workers:
                for ready in connection.wait([*self._workers]):
                    assert isinstance(ready, connection.Connection)
                    self._listen(ready)
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                if self._session.shouldstop:
                    raise self._session.Interrupted(self._session.shouldstop)
            return True
        finally:
            self._close()

    def _listen(self, channel: connection.Connection) -> None:
        worker = self._workers[channel]
        try:
            told = channel.recv()
        except (EOFError, ConnectionResetError):
            del self._workers[channel]
            self._ended(worker)
        else:
            self._heard(channel, worker, told)

    def _close(self) -> None:
        """Wait for processes that are left: the next send of each fails, and ends it."""
        for channel in self._workers:
            channel.close()
        for worker in self._workers.values():
            os.waitpid(worker.pid, 0)

    def _heard(self, channel: connection.Connection, worker: "Worker", told: Any) -> None:
        """Answer what a process says: None where it needs a file, else the reports of a test."""
        if told is None:
            file = self._next(worker)
            worker.left.extend(file)
            channel.send(file)
            return
        if isinstance(told, dict):
            self._hook.pytest_warning_recorded.call_historic(kwargs=told)
            return
        worker.left.popleft()
        for data in told:
            report = self._hook.pytest_report_from_serializable(
                config=self._session.config, data=data
            )
            self._tell(worker, report)

    def _next(self, worker: "Worker") -> list[int]:
        if not self._files:
            return []
        return self._files.pop() if worker.from_end else self._files.popleft()

    def _ended(self, worker: "Worker") -> None:
        """Replace a process that ended before its tests did; the test that it ran fails."""
        status = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if status == 0 and not worker.left:
            return
        self._crashes += 1
        what = f"{worker.id} ended with exit code {status}"
        if worker.left:
            name = self._session.items[worker.left[0]].nodeid
            text = f"{what} while it ran {name!r}"
            place = (name.partition("::")[0], None, "")
            self._tell(worker, pytest.TestReport(name, place, (), "failed", text, "call"))
        if not worker.left or self._crashes == CRASHES:
            self._session.shouldstop = what
        else:
            self._files.appendleft([*worker.left])
            self._begin(worker.number, from_end=False)

    def _tell(self, worker: "Worker", report: Any) -> None:
        report.node = worker  # where the terminal finds it for pytest-xdist
        self._hook.pytest_runtest_logreport(report=report)


class Worker:
    """What the first process knows of another."""

    def __init__(self, pid: int, number: int, from_end: bool) -> None:
        self.pid, self.number, self.from_end = pid, number, from_end
        self.left = deque[int]()
        """Tests of the files that it has, in order; the first of them runs."""
        self.id = f"p{number}"
        self.gateway = self
        """Has the `id` that pytest's terminal prints."""
        self.workerinfo = {
            "id": self.id,
            "sysplatform": sys.platform,
            "version_info": sys.version_info,
            "executable": f"process {pid}",
        }
        """Heads its failures."""


def _work(session: pytest.Session, channel: connection.Connection, number: int) -> None:
    """Run tests in a process just forked, and end it without what the first one has to do."""
    code = 1
    try:
        _make_apart(session.config, number)
        reports = _Reports(session.config, channel)
        session.config.pluginmanager.register(reports)
        reports.are_new = True
        _run(session, channel)
        session.config.hook.pytest_sessionfinish(session=session, exitstatus=0)
        code = 0
    except BaseException as error:
        _captured(session.config).stop_global_capturing()
        # The others are of a run that was interrupted, or stopped by its first process.
        if not isinstance(error, KeyboardInterrupt | BrokenPipeError | ConnectionResetError):
            traceback.print_exc()
        session._setupstate.teardown_exact(None)
    finally:
        os._exit(code)


def _make_apart(config: pytest.Config, number: int) -> None:
    """Share neither captured output nor temporary directories, nor write on the terminal."""
    config.workerinput = {}  # type: ignore[attr-defined]  # by which plugins know such a process
    nowhere = io.TextIOWrapper(io.FileIO(os.devnull, "w"))
    _captured(config).stop_global_capturing()
    os.dup2(nowhere.fileno(), 1)
    _captured(config).start_global_capturing()
    writer = create_terminal_writer(config, nowhere)  # pytest-timeout asks for one
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.unregister(name="faulthandler")  # instead of it: `_watch`
    config.pluginmanager.register(SimpleNamespace(_tw=writer), "terminalreporter")
    temporary: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    temporary._basetemp = temporary.getbasetemp() / f"p{number}"
    temporary._basetemp.mkdir(exist_ok=True)


def _captured(config: pytest.Config) -> Any:
    return config.pluginmanager.getplugin("capturemanager")


def _run(session: pytest.Session, channel: connection.Connection) -> None:
    """Ask for the next file before the last test of one, after which its fixtures may end."""
    items = _items(session.items, channel)
    item = next(items, None)
    watched_s = -AGAIN_S
    while item is not None:
        if time.monotonic() - watched_s >= AGAIN_S:
            watched_s = time.monotonic()
            _watch(session.config)
        following = next(items, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following


def _watch(config: pytest.Config) -> None:
    """End this process, with the traceback of each thread, where it hangs from now on."""
    if limit_s := float(config.getini("faulthandler_timeout") or 0.0):
        error = config.stash[fault_handler_stderr_fd_key]
        faulthandler.dump_traceback_later(limit_s, file=error, exit=True)


def _items(items: Sequence[pytest.Item], channel: connection.Connection) -> Iterator[pytest.Item]:
    while True:
        channel.send(None)
        if not (file := channel.recv()):
            return
        for place in file:
            yield items[place]


class _Reports:
    """Sends the reports of each test at once; of one that passes that of its call alone."""

    def __init__(self, config: pytest.Config, channel: connection.Connection) -> None:
        self._config, self._channel = config, channel
        self._reports: list[Any] = []
        self._all = config.option.durations is not None
        self.are_new = False
        """False while it is registered, and given the warnings that the first process has."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.passed and not self._all:
            if report.when != "call":
                return
            report.keywords, report.sections = {}, []
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._reports.append(data)

    def pytest_runtest_logfinish(self) -> None:
        self._channel.send(self._reports)
        self._reports = []

    def pytest_warning_recorded(
        self, warning_message: Any, when: str, nodeid: str, location: Any
    ) -> None:
        if not self.are_new:
            return
        # As text: a warning may hold what no other process can be given.
        category, text = warning_message.category, str(warning_message.message)
        place = (warning_message.filename, warning_message.lineno)
        sent = warnings.WarningMessage(text, category, *place)
        self._channel.send(
            {"warning_message": sent, "when": when, "nodeid": nodeid, "location": location}
        )
