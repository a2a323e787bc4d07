"""Programs that write models with TensorFlow, each a process of its own: bounded, without a GPU.

Each is forked from one process per process of the tests that has imported TensorFlow, which takes
4 s of processor time, and has done nothing else.

What one has written is kept in `build/exports`, for other processes of the tests and later runs,
until a file of the tests that it uses, or a library, is another one. `make clean` removes it.
"""

import ast
import fcntl
import hashlib
import multiprocessing
import os
import runpy
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "exports"
EXPORT_S = 100.0
"""Bound of an export, which each further output begins anew."""


def export(program: str | Path, directory: Path) -> Path:
    """Give a directory the models that a program of the tests writes, and return that.

    Args:
        program: the file; it may import from `tests`.
        directory: gets a copy, which tests may change.
    """
    program = Path(program)
    name = ".".join(program.resolve().relative_to(ROOT).with_suffix("").parts)
    kept = KEPT / f"{name}-{_digest(program)}"
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{name}.lock").open("w") as lock:
        # Another process of the tests that holds it is writing the same, within its bound.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            for old in KEPT.glob(f"{name}-*"):
                shutil.rmtree(old)
            written = KEPT / f"{name}-unfinished"
            written.mkdir()
            _run(program, written, str(written))
            written.rename(kept)
        return shutil.copytree(kept, directory, dirs_exist_ok=True)


def printed(program: Path, directory: Path, *arguments: str) -> str:
    """Run a program in a directory, again each time, and give what it prints."""
    return _run(program, directory, *arguments)


def _run(program: Path, directory: Path, *arguments: str) -> str:
    """Let a program run in a directory, and give what it prints."""
    log = directory.with_name(f".{directory.name}.log")
    log.write_bytes(b"")
    # What has imported nothing is started for other libraries, which may abort beside TensorFlow.
    uses = "import tensorflow" in program.read_text()
    context = multiprocessing.get_context("forkserver" if uses else "spawn")
    context.set_forkserver_preload(["tensorflow"])
    given = (program, directory, log, ROOT, arguments)
    process = context.Process(target=_write, args=given, daemon=True)
    process.start()
    seen = -1
    while process.exitcode is None and log.stat().st_size > seen:
        seen = log.stat().st_size
        process.join(EXPORT_S)
    process.kill()
    process.join()
    said = log.read_text()
    assert process.exitcode == 0, f"exit code {process.exitcode}:\n{said}"
    log.unlink()
    return said


def _write(
    program: Path, directory: Path, log: Path, root: Path, arguments: tuple[str, ...]
) -> None:
    """Run a program in this process, as its text is run by its name."""
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(directory)
    os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
    sys.path[0:0] = [str(root), str(program.parent)]
    sys.argv = [str(program), *arguments]
    runpy.run_path(str(program), run_name="__main__")
    sys.stdout.flush()


def _digest(program: Path) -> str:
    """Sum up the texts of a program and of what it uses of `tests`, and each library's version."""
    files, ahead = set[Path](), [program]
    while ahead:
        file = ahead.pop()
        files.add(file)
        ahead += {*_used(file)} - files
    digest = hashlib.sha256(sys.version.encode())
    for file in sorted(files):
        digest.update(file.read_bytes())
    for line in sorted(f"{each.name} {each.version}" for each in metadata.distributions()):
        digest.update(line.encode())
    return digest.hexdigest()[:16]


def _used(file: Path) -> Iterator[Path]:
    """Name the files of `tests` that one imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}", *(f"{node.module}.{alias.name}" for alias in node.names)]
        paths = (ROOT.joinpath(*name.split(".")).with_suffix(".py") for name in names)
        yield from (path for path in paths if ROOT / "tests" in path.parents and path.exists())
