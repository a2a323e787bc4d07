"""The commands that ask a server, run as their process does, but in this one."""

import contextlib
import io
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from ie_serving.commands import remote as command


@dataclass
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


def ie_serving(*words: str | Path, env: Mapping[str, str] | None = None, data: bytes = b"") -> Ran:
    """Run a command; to start forty processes would take seconds."""
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = command.run([str(word) for word in words], env or {})
    out.flush()
    return Ran(code, out.buffer.getvalue().decode(), err.getvalue())  # type: ignore[attr-defined]
