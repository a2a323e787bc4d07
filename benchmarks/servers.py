"""The servers under test: how each is installed, started, reached and stopped."""

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks import environments
from benchmarks.calls import Call, Dialect, WrongReplyError, tfs_grpc, tfs_rest
from benchmarks.load import HOST, ask_rest

READY_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class Target:
    """What a server is asked to serve, and where.

    Attributes:
        model: name in requests.
        repository: holds numeric version directories with `model.xml` and `model.bin`.
        scratch: empty directory that the server's own files may be written to.
    """

    model: str
    repository: Path
    scratch: Path
    grpc_port: int
    rest_port: int
    metrics_port: int

    @property
    def log(self) -> Path:
        """The file that the server's output is written to."""
        return self.scratch / "log.txt"


@dataclass(frozen=True)
class Server:
    """One server under test.

    Attributes:
        name: heading in the report.
        install: makes the environment and returns its folder.
        command: given the environment's folder, writes what the server needs into the target's
            scratch directory and returns the command line that serves the target.
        grpc: how it is asked over gRPC; None when it has none.
        rest: how it is asked over REST.
        further: other ways of asking it, by name; REST's names begin with `REST`.
        variables: added to its environment.
        tls: what its REST port is agreed upon with; None: it is plain.
    """

    name: str
    install: Callable[[], Path]
    command: Callable[[Path, Target], list[str]]
    grpc: Dialect | None
    rest: Dialect
    further: Mapping[str, Dialect] = field(default_factory=dict)
    variables: Callable[[Path, Target], Mapping[str, str]] = field(
        default=lambda environment, target: {}
    )
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True)
class Running:
    """A server that answers.

    Attributes:
        pid: root of its process tree.
        ready_s: seconds from its start to its first right reply.
    """

    pid: int
    target: Target
    ready_s: float


def project(name: str, revision: str | None, python: str = sys.executable) -> Server:
    """Give this project as of a Git revision, or with None the working tree as it is at first.

    The interpreter `python` runs it.
    """

    @cache
    def install() -> Path:
        source = environments.snapshot(revision)
        return environments.ensure_project(source, f"project-{name}", python)

    return Server(name, install, _serve_model, tfs_grpc, tfs_rest)


def with_flags(server: Server, flags: Sequence[str]) -> Server:
    """Give the same server, started with further flags."""

    def command(environment: Path, target: Target) -> list[str]:
        return [*server.command(environment, target), *flags]

    return replace(server, command=command)


def _serve_model(environment: Path, target: Target) -> list[str]:
    return [
        *(str(environment / "bin" / "ie_serving"), "model"),
        *("--model_name", target.model, "--model_path", str(target.repository)),
        *("--port", str(target.grpc_port), "--rest_port", str(target.rest_port)),
    ]


def target(model: str, repository: Path, scratch: Path) -> Target:
    """Choose three free ports."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
        for one in sockets:
            one.bind((HOST, 0))
        return Target(model, repository, scratch, *(one.getsockname()[1] for one in sockets))


@contextmanager
def running(
    server: Server, target: Target, probe: Call, right: Callable[[bytes], None]
) -> Iterator[Running]:
    """Start the server, wait for its first right REST reply, and stop it at the end.

    `probe` is asked until `right` accepts the reply; it raises WrongReplyError for a wrong one.

    Raises:
        TimeoutError: no right reply within three minutes; the text ends with the server's log.
    """
    environment = server.install()
    log = target.log
    with log.open("wb") as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            server.command(environment, target),
            cwd=target.scratch,
            env={**os.environ, **server.variables(environment, target)},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        ask = partial(ask_rest, target.rest_port, probe, server.tls)
        _await_ready(process, ask, right, log)
        yield Running(process.pid, target, time.perf_counter() - started)
    finally:
        _stop(process)


def _await_ready(
    process: "subprocess.Popen[bytes]",
    ask: Callable[[], Coroutine[Any, Any, bytes]],
    right: Callable[[bytes], None],
    log: Path,
) -> None:
    problem: Exception | None = None
    end = time.perf_counter() + READY_TIMEOUT_S
    while time.perf_counter() < end and process.poll() is None:
        try:
            return right(asyncio.run(ask()))
        except (OSError, EOFError, WrongReplyError) as error:
            problem = error
            time.sleep(0.01)
    tail = log.read_bytes()[-9000:].decode(errors="replace")
    raise TimeoutError(f"{process.args!r} does not answer ({problem!r}); it said:\n{tail}")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Ask the server to stop; kill what is left of its group after a while."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_TIMEOUT_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
