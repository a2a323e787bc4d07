"""The server's side of the process that compares two engines."""

import json
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ie_serving.core.spare_cpu import SPARE_CPU
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.generated import Kind
from ie_serving.engines.verification.verdict import OPENVINO, Findings, Task

# As a kernel's process: the path as this process has it, and nothing of the working directory.
COMMAND = (
    sys.executable,
    "-c",
    "import sys; sys.path[:] = sys.argv[1].split('\\n');"
    " from ie_serving.engines.verification.child import run; run()",
    "\n".join(sys.path),
)
CRASHES = frozenset({signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGILL, signal.SIGBUS})
"""Signals by which a library ends its own process."""
LIMIT_S = 20
"""Seconds of one comparison: beyond them the model counts as not compared."""
DYING_S = 5.0
"""Seconds that a process has to end which has closed its output: with much memory it takes some."""
MOST_DEATHS = 3
"""Ends of the process by one model before the rest of its requests is left out."""


class Verifier:
    """Compares models in a child process, one at a time. In any thread."""

    def __init__(self) -> None:
        self._alone = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def findings(self, file: Path, options: EngineOptions) -> Findings:
        """Compare one model; blocking, at most `LIMIT_S` for each end of the process."""
        crashed: dict[Kind, str] = {}
        task = Task(file, options, LIMIT_S)
        with self._alone:
            for _ in range(MOST_DEATHS):
                last, found = self._asked(task)
                if found is not None:
                    return replace(found, crashed=crashed)
                code = self._ended()
                if not last and code == 0:
                    continue  # it ended for want of models while this one was handed over
                if not last or -code not in CRASHES:
                    return Findings(why_not=_why_not(code), crashed=crashed)
                kind, text = Kind[last["kind"]], f"{last['engine']} ended its process"
                if kind not in crashed or last["engine"] == OPENVINO:
                    how = signal.Signals(-code).name
                    crashed[kind] = f"{text} by {how}: {last['request']}"
                task = replace(task, skipped=task.skipped | {last["number"]})
        return Findings(why_not="its process has ended too often", crashed=crashed)

    def close(self) -> None:
        """End the process, if there is one."""
        with self._alone:
            if self._process is not None:
                self._process.kill()
            self._ended()

    def _asked(self, task: Task) -> tuple[Mapping[str, Any], Findings | None]:
        """Hand one task over; give the last step that was begun, and what was found."""
        process = self._running()
        last: Mapping[str, Any] = {}
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(pickle.dumps(task))
            process.stdin.flush()
        for line in process.stdout:
            try:
                said = json.loads(line)
            except ValueError:  # cut off by the end of the process
                return last, None
            if "found" in said:
                return last, pickle.loads(bytes.fromhex(said["found"]))
            last = said
        return last, None

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            self._ended()
            with SPARE_CPU.everywhere():
                # In a session of its own: Ctrl-C is for the server, whose end it sees.
                self._process = subprocess.Popen(
                    COMMAND,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,
                )
        return self._process

    def _ended(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        with process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(DYING_S)
            process.kill()
        return process.returncode


def _why_not(code: int) -> str:
    if code == -signal.SIGALRM:
        return f"it took longer than {LIMIT_S} s"
    return f"its process was ended, with {code}"  # by others, as when memory runs out
