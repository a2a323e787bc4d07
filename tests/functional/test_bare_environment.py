"""The installed command in a process without standard streams, or without places to write to."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.functional.servers import READY, SAMPLE
from tests.process import COMMANDS, PATIENCE_S, Process, free_ports, until

COMMAND = f"exec {COMMANDS}/ie_serving model --model_name=digits --model_path={SAMPLE}"
IN_A_NAMESPACE = ("/usr/bin/unshare", "--map-root-user", "--mount", "--")
"""Runs a command with mounts of its own."""
READ_ONLY = "mount -t tmpfs -o ro none {}; "
NO_DISK = "".join(READ_ONLY.format(place) for place in ("/tmp", "/var/tmp")) + "cd /proc; "

Run = Callable[..., Process]


@pytest.fixture
def run() -> Iterator[Run]:
    with ExitStack() as stack:

        def start(script: str, *before: str) -> Process:
            process = Process(*before, "/bin/sh", "-c", script)
            stack.callback(process.close)
            return process

        yield start


@pytest.fixture
def in_a_namespace(run: Run) -> Run:
    if COMMANDS.is_relative_to("/tmp"):
        pytest.skip("the command itself lies in /tmp, which these tests hide")
    if subprocess.run([*IN_A_NAMESPACE, "true"], check=False, timeout=PATIENCE_S).returncode:
        pytest.skip("namespaces of mounts are not permitted here")
    return lambda script: run(script, *IN_A_NAMESPACE)


@pytest.mark.thinned
@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("workers", [1, 2])
def test_standard_streams_may_be_closed(
    run: Run, tmp_path: Path, closed: str, workers: int
) -> None:
    file = tmp_path / "log"
    (port,) = free_ports(1)
    server = run(f"{COMMAND} --port={port} --workers={workers} --log_path={file} {closed}")
    until(lambda: file.exists() and READY in file.read_text())
    descriptors = Path(f"/proc/{server.popen.pid}/fd")
    opened = [(descriptors / f"{number}").readlink() for number in range(3)]
    assert opened[2] == Path("/dev/null"), "else libraries write into a file or a connection"
    assert server.stop() == 0


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_without_a_disk_temporary_files_are_in_memory(in_a_namespace: Run, workers: int) -> None:
    (port,) = free_ports(1)
    server = in_a_namespace(f"{NO_DISK}{COMMAND} --port={port} --workers={workers}")
    server.line("WARNING .* temporary files are in memory path=/dev/shm")
    server.line(READY)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_without_any_place_for_temporary_files_the_error_says_so(
    in_a_namespace: Run, workers: int
) -> None:
    script = f"{NO_DISK}{READ_ONLY.format('/dev/shm')}{COMMAND} --workers={workers}"
    server = in_a_namespace(script)
    assert server.exit_code() == 2
    assert server.lines[-1].startswith("ie_serving: error: no directory for temporary files: mount")
    assert "Traceback" not in server.log
