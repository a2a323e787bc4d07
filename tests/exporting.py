"""Programs that write models with TensorFlow, each a process of its own: bounded, without a GPU."""

import os
import sys
from contextlib import closing
from pathlib import Path

from tests.process import Process

ROOT = Path(__file__).resolve().parents[1]
EXPORT_S = 100.0
"""Bound of an export; to import TensorFlow takes 3 s on a quiet machine."""


def export(program: str | Path, directory: Path, *, last_line: str = "") -> Path:
    """Let a program of the tests write its models into a directory, and return that.

    Args:
        program: the file; it may import from `tests`.
        directory: its one argument, and where it runs.
        last_line: of a program that prints lines as it goes on; each begins the bound anew.
    """
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": path}
    with closing(Process(sys.executable, program, directory, env=env, cwd=directory)) as process:
        if last_line:
            process.line(last_line, EXPORT_S, progress=".")
        code = process.exit_code(EXPORT_S)
        assert code == 0, f"exit code {code}:\n{process.log}"
    return directory
