"""Programs that write models with TensorFlow, each a process of its own: bounded, without a GPU.

What one has written is kept in `build/exports`, for other processes of the tests and later runs,
until a file of the tests that it uses, or a library, is another one. `make clean` removes it.
"""

import ast
import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib import metadata
from pathlib import Path

from tests.process import Process

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "exports"
EXPORT_S = 100.0
"""Bound of an export; to import TensorFlow takes 3 s on a quiet machine."""


def export(program: str | Path, directory: Path, *, last_line: str = "") -> Path:
    """Give a directory the models that a program of the tests writes, and return that.

    Args:
        program: the file; it may import from `tests`.
        directory: gets a copy, which tests may change.
        last_line: of a program that prints lines as it goes on; each begins the bound anew.
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
            _run(program, written, last_line)
            written.rename(kept)
        return shutil.copytree(kept, directory, dirs_exist_ok=True)


def _run(program: Path, directory: Path, last_line: str) -> None:
    """Let a program write into a directory, which is its one argument and where it runs."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": path}
    with closing(Process(sys.executable, program, directory, env=env, cwd=directory)) as process:
        if last_line:
            process.line(last_line, EXPORT_S, progress=".")
        code = process.exit_code(EXPORT_S)
        assert code == 0, f"exit code {code}:\n{process.log}"


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
