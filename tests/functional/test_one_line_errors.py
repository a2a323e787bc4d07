"""What a machine or an installation lacks is one line with what to do, not a traceback."""

import shutil
import signal
import site
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.functional.servers import READY, ROOT, SAMPLE_FLAGS
from tests.process import COMMANDS, PATIENCE_S, Process, free_ports

COMMAND = COMMANDS / "ie_serving"
STARTS = (
    "import sys; sys.argv[0] = 'ie_serving'; from ie_serving.app.main import main; sys.exit(main())"
)

Run = Callable[..., Process]


@pytest.fixture
def run() -> Iterator[Run]:
    with ExitStack() as stack:

        def start(*command: str | Path, **options: object) -> Process:
            process = Process(*command, executed=True, **options)  # type: ignore[arg-type]
            stack.callback(process.close)
            return process

        yield start


@pytest.fixture
def lacking(run: Run, tmp_path: Path) -> Run:
    """Runs `ie_serving` with every installed package but one."""

    def start(package: str, *words: str) -> Process:
        (tmp_path / "site").mkdir()
        for each in Path(site.getsitepackages()[0]).iterdir():
            if not each.name.startswith((f"{package}-", f"{package}.")) and each.name != package:
                (tmp_path / "site" / each.name).symlink_to(each)
        path = f"{tmp_path / 'site'}:{ROOT}"
        return run(sys.executable, "-S", "-c", STARTS, *words, env={"PYTHONPATH": path})

    return start


def error_of(process: Process, code: int = 1) -> str:
    """Give the error of a command that has failed by one."""
    assert process.exit_code() == code, process.log
    assert "Traceback" not in process.log
    assert "defect" not in process.log
    (error,) = [line for line in process.lines if "ERROR" in line or "error: " in line]
    return error


def served(*words: str) -> Sequence[str]:
    port, rest_port = free_ports(2)
    return ["model", *SAMPLE_FLAGS, f"--port={port}", f"--rest_port={rest_port}", *words]


@pytest.mark.parametrize("package", ["openvino", "uvloop"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    lacking: Run, package: str
) -> None:
    error = error_of(lacking(package, *served()))
    assert f"{package}>=" in error and "(not installed)" in error
    assert f"{sys.executable} -m pip install '{package}>=" in error


def test_a_check_names_the_missing_package_too(lacking: Run) -> None:
    error = error_of(lacking("openvino", "check", *SAMPLE_FLAGS))
    assert error.startswith("ie_serving: error: this Python lacks packages of ie_serving: openvino")


def test_a_package_that_is_too_old_is_named_with_its_version(run: Run, tmp_path: Path) -> None:
    (tmp_path / "openvino").mkdir()
    (tmp_path / "openvino" / "__init__.py").touch()
    installed = tmp_path / "openvino-2023.0.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: openvino\nVersion: 2023.0.0\n"
    )
    error = error_of(run(COMMAND, *served(), env={"PYTHONPATH": str(tmp_path)}))
    assert "openvino>=2026.0 (2023.0.0 is installed)" in error


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_too_few_open_files_are_an_error_with_the_limit(run: Run, workers: int) -> None:
    command = " ".join(served(f"--workers={workers}"))
    error = error_of(run("/bin/sh", "-c", f"ulimit -n 20; exec {COMMAND} {command}"))
    needed = 64 * workers
    assert f"20 files may be open, and the server needs at least {needed}" in error
    assert "ulimit -Hn" in error


def test_a_low_soft_limit_of_open_files_is_raised(run: Run) -> None:
    command = " ".join(served())
    run("/bin/sh", "-c", f"ulimit -Sn 20; exec {COMMAND} {command}").line(READY)


def test_a_check_whose_reader_has_gone_ends_as_other_commands_do(run: Run) -> None:
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as reader:
        reader.wait(PATIENCE_S)
        words = [str(COMMAND), "check", *SAMPLE_FLAGS]
        ended = subprocess.run(
            words, stdout=reader.stdin, stderr=subprocess.PIPE, timeout=PATIENCE_S, check=False
        )
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, b"")


def test_a_check_onto_a_full_disk_says_so(run: Run) -> None:
    words = " ".join(["check", *SAMPLE_FLAGS])
    error = error_of(run("/bin/sh", "-c", f"exec {COMMAND} {words} > /dev/full"))
    assert error.startswith("ie_serving: error: No space left on device: free space")


def test_a_full_disk_under_the_log_is_said_once(run: Run) -> None:
    server = run(COMMAND, *served("--log_path=/dev/full"))
    server.line(READY)
    assert server.stop() == 0
    assert "Traceback" not in server.log
    (lost,) = [line for line in server.lines if "log file lines lost" in line]
    assert 'path=/dev/full lines=1 cause="No space left on device"' in lost


def test_signals_are_heeded_before_slow_imports() -> None:
    """A Ctrl-C before would be a traceback; `typing` alone takes as long as the rest together."""
    modules = "import sys; import ie_serving.app.main; print(*sys.modules)"
    environment = {"PYTHONPATH": str(ROOT)}
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", modules],
        capture_output=True,
        env=environment,
        timeout=PATIENCE_S,
        check=True,
    ).stdout.split()
    assert not {b"typing", b"contextlib", b"re", b"argparse"}.intersection(loaded)


def test_the_renderer_of_the_chart_takes_a_new_directory(run: Run, tmp_path: Path) -> None:
    renderer = ROOT / "deploy" / "helm" / "render.py"
    process = run(sys.executable, renderer, tmp_path / "new" / "directory")
    assert process.exit_code() == 0
    assert [*(tmp_path / "new" / "directory").glob("local/*.yaml")]


def test_the_renderer_of_the_chart_explains_its_words_and_writes_nothing(
    run: Run, tmp_path: Path
) -> None:
    renderer = shutil.copytree(ROOT / "deploy" / "helm", tmp_path / "helm") / "render.py"
    process = run(sys.executable, renderer, "--help", cwd=tmp_path)
    assert process.exit_code() == 0
    assert "usage: render.py" in process.log
    assert not (tmp_path / "--help").exists()
