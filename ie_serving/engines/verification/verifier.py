"""Manages, in the server, the child processes that compare two engines."""

import json
import os
import pickle
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ie_serving.core.runtime.scratch import Scratch
from ie_serving.core.runtime.spare_cpu import SPARE_CPU
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.generated_requests import ValueKind
from ie_serving.engines.process.child_process import command_of
from ie_serving.engines.verification.comparison import ReferenceOutputs
from ie_serving.engines.verification.verdict import OPENVINO, ComparisonTask, Findings

COMMAND = command_of("from ie_serving.engines.verification.child import run; run(int(sys.argv[2]))")
CRASHES = frozenset({signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGILL, signal.SIGBUS})
"""Signals of a library's crash."""
LIMIT_S = 20
"""Longest comparison in seconds; beyond it the model counts as not compared."""
DYING_S = 5.0
"""Seconds for a process to end after it closed its output; freeing much memory takes a while."""
MOST_DEATHS = 3
"""Crashes by one model after which the rest of its requests is left out."""


class Verifier:
    """Compares models in child processes, one process for each comparison. In any thread.

    Concurrent loads use different processes; an idle process exits after `child.IDLE_S`.

    Attributes:
        idle: processes that wait for the next task.
    """

    def __init__(self) -> None:
        self.idle: list[_Child] = []  # append and pop are atomic

    def findings(
        self, file: Path, options: EngineOptions, *, large: bool = False
    ) -> Findings | ReferenceOutputs:
        """Compare one model; blocking, at most `LIMIT_S` for each process that it takes.

        Returns:
            Findings; for a large model only the outputs of the second engine.
        """
        try:  # one step: another load may take the last one meanwhile
            child = self.idle.pop()
        except IndexError:
            child = _Child()
        scratch = Scratch()
        try:
            return _compared(child, ComparisonTask(file, options, large, LIMIT_S, scratch.path))
        finally:
            scratch.close()
            self.idle.append(child)

    def close(self) -> None:
        """End the idle processes."""
        while self.idle:
            self.idle.pop().kill()


def _compared(child: "_Child", task: ComparisonTask) -> Findings | ReferenceOutputs:
    crashed: dict[ValueKind, str] = {}
    for _ in range(MOST_DEATHS):
        last, found = child.asked(task)
        if found is not None:
            return replace(found, crashed=crashed)
        code, said = child.ended()
        if not last and code == 0:
            continue  # it exited, idle, just before it got this model
        if not last or -code not in CRASHES:
            return Findings(why_not=_why_not(code, said), crashed=crashed)
        kind, engine = ValueKind[last["kind"]], last["engine"]
        if engine not in (before := crashed.get(kind, "")):
            by = signal.Signals(-code).name
            both = [before, f"{engine} ended its process by {by}: {last['request']}"]
            crashed[kind] = "; ".join(filter(None, both[:: -1 if engine == OPENVINO else 1]))
        task = replace(task, skipped=task.skipped | {last["number"]})
    return Findings(why_not="its process has ended too often", crashed=crashed)


class _Child:
    """One process, started at its first task. Used by one thread at a time.

    Attributes:
        process: None before the first task, and after its end.
    """

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def asked(
        self, task: ComparisonTask
    ) -> tuple[Mapping[str, Any], Findings | ReferenceOutputs | None]:
        """Send one task; give the last step that began, and the findings."""
        process = self._running()
        last: Mapping[str, Any] = {}
        found: Findings | ReferenceOutputs | None = None
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(pickle.dumps(task))
            process.stdin.flush()
        for line in process.stdout:
            try:
                said = json.loads(line)
            except ValueError:  # a line cut off by the end of the process
                break
            if "found" not in said:
                last = said
                continue
            found = pickle.loads(bytes.fromhex(said["found"]))
            if not said["goes_on"]:
                return last, found
        if found is not None:  # its last comparison has ended the process, and no other model has
            self.ended()
        return last, found

    def _running(self) -> "subprocess.Popen[bytes]":
        if self.process is not None and self.process.poll() is None:
            return self.process
        self.kill()
        with ExitStack() as undone:
            reads, lifeline = os.pipe()
            undone.callback(os.close, lifeline)
            # Output of libraries does not belong into the server's log.
            said = undone.enter_context(tempfile.TemporaryFile())
            try:
                with SPARE_CPU.everywhere():
                    # A session of its own keeps Ctrl-C from the child, which ends with the server.
                    self.process = subprocess.Popen(
                        (*COMMAND, str(reads)),
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=said,
                        pass_fds=[reads],
                        start_new_session=True,
                    )
            finally:
                os.close(reads)
            undone.pop_all()  # `ended` closes both
        self._lifeline, self._said = lifeline, said
        return self.process

    def ended(self) -> tuple[int, str]:
        """Wait for the end of a process that has closed its output; give its code and last output.

        A process that does not end in `DYING_S` is killed.
        """
        process, self.process = self.process, None
        if process is None:
            return 0, ""
        with process, self._said:
            # `close` writes unread data once more, and fails once more.
            with suppress(BrokenPipeError):
                if process.stdin:
                    process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(DYING_S)
            process.kill()
            os.close(self._lifeline)
            self._said.seek(0)
            words = self._said.read().decode(errors="replace").strip().splitlines()
        return process.returncode, words[-1] if words else ""

    def kill(self) -> None:
        """End the process, if there is one."""
        if self.process is not None:
            self.process.kill()
        self.ended()


def _why_not(code: int, said: str) -> str:
    if code == -signal.SIGALRM:
        return f"it took longer than {LIMIT_S} s"
    # Killed by another program, as when memory runs out, or by our own fault, which it reports.
    return f"its process was ended, with {code}" + (f": {said}" if said else "")
