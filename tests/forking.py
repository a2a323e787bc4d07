"""Installed commands as forks of one process that has already imported what they import.

A start takes 1.1 s of processor time, of which the imports are 0.8 s. Each process of the tests has
one such parent, started on first use, which has run nothing and has one thread. A command gets its
arguments, environment, folder, session and output as if it had been executed.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

IMPORTED = (
    "ie_serving.app.application",
    "ie_serving.app.command_line",
    "ie_serving.commands.check",
    "ie_serving.commands.verify",
    "ie_serving.server.fronts.tfs.rest",
    "ie_serving.server.transport.grpc.http2_server",
    "ie_serving.server.transport.http1.server",
    "boto3",
    "falcon.asgi",
    "google.cloud.storage",
    "minio",
    "openvino",
    "uvloop",
)
"""What servers and the longer commands import; commands that ask a server import less.

Some servers import less, too: the clients of stores take 0.2 s of processor time each, Falcon
0.03 s.
"""

PATIENCE_S = 30.0
REQUEST_BYTES = 1 << 17
NUMBER_BYTES = 8


def readable(handle: int, timeout: float | None) -> bool:
    """Wait for a handle, whose number may be above the 1023 of `select`."""
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    return bool(waiting.poll(None if timeout is None else timeout * 1e3))


class Forked:
    """A command that runs, with the part of `subprocess.Popen` that the tests use.

    Args of the constructor:
        error: where its standard error goes, if not with its standard output.
    """

    def __init__(
        self, args: Sequence[str], env: Mapping[str, str], cwd: Path | None, error: int | None
    ) -> None:
        self.args = args
        self.returncode: int | None = None
        output, its_output = os.pipe()
        self._told, tells = os.pipe()
        request = json.dumps([*map(str, (cwd or Path.cwd(), *args))]), json.dumps(dict(env))
        handles = [its_output, its_output if error is None else error, tells]
        socket.send_fds(_parent().requests, ["\n".join(request).encode()], handles)
        os.close(its_output)
        os.close(tells)
        self.stdout = os.fdopen(output, errors="replace")
        self.pid = self._number()

    def _number(self) -> int:
        return int.from_bytes(os.read(self._told, NUMBER_BYTES), signed=True)

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and readable(self._told, timeout):
            self.returncode = self._number()
            os.close(self._told)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class _Parent:
    """The process that forks; it ends when this process closes its socket."""

    def __init__(self) -> None:
        self.requests, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        number = its.fileno()
        self.popen = subprocess.Popen([sys.executable, __file__, str(number)], pass_fds=[number])
        its.close()


_parent = functools.cache(_Parent)


def end() -> None:
    """End the process that forks, so that its processor time is counted as that of the tests."""
    if _parent.cache_info().currsize:
        _parent().requests.close()
        _parent().popen.wait(PATIENCE_S)


def main(requests: socket.socket) -> list[str]:
    """Fork for each request; return, in the process of the command, its arguments."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    running: dict[int, tuple[int, int]] = {}  # by the handle of a process: its id, and who is told
    waiting = select.poll()
    waiting.register(requests, select.POLLIN)
    while True:
        for handle, _ in waiting.poll():
            if handle in running:
                waiting.unregister(handle)
                _tell_end(handle, *running.pop(handle))
                continue
            request, handles, _, _ = socket.recv_fds(requests, REQUEST_BYTES, 3)
            if not request:
                sys.exit()
            output, error, tells = handles
            if (pid := os.fork()) == 0:
                others = [each for number, (_, told) in running.items() for each in (number, told)]
                for each in (requests.detach(), tells, *others):
                    os.close(each)
                return _prepared(request.decode(), output, error)
            os.close(output)
            os.close(error)
            _tell(tells, pid)
            process = os.pidfd_open(pid)
            waiting.register(process, select.POLLIN)
            running[process] = pid, tells


def _tell_end(handle: int, pid: int, tells: int) -> None:
    """Tell the exit code of a command, whose processor time counts as this process's from now."""
    _tell(tells, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os.close(handle)
    os.close(tells)


def _tell(tells: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(tells, number.to_bytes(NUMBER_BYTES, signed=True))


def _prepared(request: str, output: int, error: int) -> list[str]:
    """Become what an executed command would be."""
    (folder, *args), environment = map(json.loads, request.split("\n"))
    os.setsid()
    for place, handle in ((1, output), (2, error)):
        os.dup2(handle, place)
        os.close(handle)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = os.path.dirname(args[0])
    sys.orig_argv[:] = [sys.executable, *args]  # a server starts its successor by these
    return args


def run(program: str) -> None:
    """Run it, and end without taking all modules apart, which would copy most pages of the parent.

    What else Python does at the end of a process is done: threads are awaited, exit functions are
    called, and output is flushed.
    """
    try:
        runpy.run_path(program, run_name="__main__")
        code = 0
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        code = end.code or 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.argv[:] = main(socket.socket(fileno=int(sys.argv[1])))
    run(sys.argv[0])
