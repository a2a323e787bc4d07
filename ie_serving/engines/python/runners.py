"""Calls of a kernel, and the runners that run one or several of them."""

import enum
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ie_serving.core.values.errors import (
    DeadlineExceeded,
    LoadFailed,
    NotAvailable,
    QueueFull,
    ServingError,
)
from ie_serving.core.values.tensors import Arrays, Specs
from ie_serving.engines.python.context import Context, failure
from ie_serving.engines.python.outputs import checked
from ie_serving.engines.run import forks
from ie_serving.engines.run.function import one_line
from ie_serving.telemetry.log.logs import About, Event

log = logging.getLogger(__name__)

_LATER = (DeadlineExceeded, NotAvailable, QueueFull)
"""Errors of an asked model that its asker's client gets as well, since it may ask again."""

_TAKING = threading.Lock()
"""Held for the moment in which a call takes its answer; one for all, since that takes no time."""


def read_only(inputs: Arrays) -> Arrays:
    """Give read-only views: the arrays may be views of a request's received bytes."""
    views = {name: array.view() for name, array in inputs.items()}
    for view in views.values():
        view.flags.writeable = False
    return views


def for_client(error: BaseException) -> ServingError | None:
    """Give an error that users' code meant for its client; None for a fault of that code.

    What it asks another model is its own: that model's refusal says nothing of the client's
    request. A failure of that model is INTERNAL for both.
    """
    if not isinstance(error, ServingError) or isinstance(error, LoadFailed):
        return None
    is_answer = not error.of_asked or type(error) is ServingError or isinstance(error, _LATER)
    return error if is_answer else None


class KernelCall:
    """One call, as `execute_batch` sees it.

    Attributes:
        kernel: its name.
        inputs: arrays by name.
        ctx: the caller's context.
        outcome: the outputs, or the error; None before there is either.
        over: the memory was full.
        told: called when `reply` or `fail` has answered; unset where no early answer is needed.
    """

    __slots__ = ("_about", "_outputs", "ctx", "inputs", "kernel", "outcome", "over", "told")

    told: Callable[[], object]

    def __init__(
        self, kernel: str, about: About, outputs: Specs, inputs: Arrays, ctx: Context
    ) -> None:
        self.kernel = kernel
        self._about = about
        self._outputs = outputs
        self.inputs = inputs
        self.ctx = ctx
        self.over = False
        self.outcome: Arrays | ServingError | None = None

    def reply(self, tensors: object) -> None:
        """Answer with the outputs at once; a result returned by `execute_batch` is then ignored."""
        self._answer(self._checked(tensors))

    def fail(self, code: str, text: str) -> None:
        """Answer with an error of a canonical code, such as `INVALID_ARGUMENT`, at once."""
        self._answer(failure(code, text))

    def _answer(self, outcome: "Arrays | ServingError") -> None:
        if not self._take(outcome):
            # The first answer may have been sent, and stays.
            request = self.ctx.request_id
            with self._about():
                log.error(Event("kernel answered twice", kernel=self.kernel, request_id=request))
            return
        told = getattr(self, "told", None)
        if told is not None:
            told()

    def _take(self, outcome: "Arrays | ServingError") -> bool:
        """Take the first answer alone: a kernel may reply from threads of its own."""
        with _TAKING:
            if self.outcome is not None:
                return False
            self.outcome = outcome
            return True

    def _checked(self, tensors: object) -> "Arrays | ServingError":
        try:
            return checked(self.kernel, tensors, self._outputs)
        except ServingError as error:
            return error

    def failed(self, error: BaseException) -> None:
        """Answer with the class and text of the kernel's exception; the log has its place."""
        # Without the traceback, whose frames would keep the inputs until the next collection of
        # garbage: they refer to this call, and it to the error.
        meant = for_client(error)
        outcome = meant.with_traceback(None) if meant else self._unforeseen(error)
        self._take(outcome)  # an earlier reply stays

    def finish(self, given: object) -> None:
        """Answer with the kernel's return value, unless it has answered or called `skip`."""
        if self.outcome is not None:
            return
        if isinstance(given, BaseException):
            self.failed(given)
        else:
            self._take(self._checked(self.ctx.skipped if given is None else given))

    def _unforeseen(self, error: BaseException) -> ServingError:
        request = self.ctx.request_id
        with self._about():
            event = Event("kernel failed", kernel=self.kernel, request_id=request)
            log.error(event, exc_info=error)
        if isinstance(error, MemoryError):
            self.over = True
            return QueueFull(f"kernel {self.kernel} has no memory for this call: {one_line(error)}")
        text = f"kernel {self.kernel} failed: {type(error).__name__}: {one_line(error)}"
        return ServingError(text)


@dataclass(frozen=True, slots=True)
class CheckedReply:
    """A reply of a stream in a child process, checked there against the kernel's declaration.

    Attributes:
        outputs: values by name.
    """

    outputs: Arrays


class RunnerReadiness(enum.IntEnum):
    """When a runner would run the calls that it is given."""

    LATER = 0
    """They would be refused: its process has ended, and its next start is put off."""
    SOON = 1
    """They would wait: its process is starting."""
    NOW = 2
    """They would run at once."""


class Runner(Protocol):
    """Runs calls, one batch at a time."""

    @property
    def readiness(self) -> RunnerReadiness:
        """When it would run calls."""

    def run(self, calls: Sequence[KernelCall]) -> None:
        """Give each of them, one at least, its outcome. Blocking. Raises nothing a kernel does."""

    def ask_to_end(self) -> None:
        """Let it begin to end, if that takes long. `close` follows, and waits."""

    def close(self) -> None:
        """End it. Nothing runs any more."""


Execute = Callable[[Arrays, Context], object]
ExecuteBatch = Callable[[Sequence[KernelCall]], "Sequence[object] | None"]
StreamFunction = Callable[[AsyncIterator[Arrays], Context], AsyncGenerator[object, None]]
"""Takes a client's inputs, and gives any number of outputs; see `streaming.py`."""


@dataclass(frozen=True)
class InProcessRunner:
    """Runs calls in the calling thread. See `Runner`."""

    execute: Execute | None
    execute_batch: ExecuteBatch | None

    @property
    def readiness(self) -> RunnerReadiness:
        """See `Runner`."""
        return RunnerReadiness.NOW

    def run(self, calls: Sequence[KernelCall]) -> None:
        """See `Runner`."""
        if self.execute_batch is None:
            for call in calls:
                self._run_alone(call)
        elif not self._run_together(self.execute_batch, calls) and len(calls) > 1:
            # One that fails must not fail those beside it: which it is, is found one by one.
            for call in [each for each in calls if each.outcome is None]:
                self.run([call])

    def ask_to_end(self) -> None:
        """See `Runner`."""

    def close(self) -> None:
        """See `Runner`."""

    def _run_alone(self, call: KernelCall) -> None:
        assert self.execute is not None  # a kernel has either
        try:
            call.finish(forks.call(call.kernel, self.execute, call.inputs, call.ctx))
        # SystemExit as well: code that exits the program in a call ends only the call.
        except BaseException as error:
            call.failed(error)

    def _run_together(self, execute: ExecuteBatch, calls: Sequence[KernelCall]) -> bool:
        """Run a batch; False where it failed as a whole, with more than one call in it."""
        try:
            given = forks.call(calls[0].kernel, execute, calls)
        except BaseException as error:
            if len(calls) > 1 and any(each.outcome is None for each in calls):
                return False
            calls[0].failed(error)  # also where all have been answered: the log has it
            return True
        _share(given, calls)
        return True


def _share(given: Any, calls: Sequence[KernelCall]) -> None:  # noqa: ANN401  anything
    """Give each call its part of the result of `execute_batch`."""
    fits = isinstance(given, Sequence) and len(given) == len(calls)
    for at, call in enumerate(calls):
        if fits:
            call.finish(given[at])
        elif call.outcome is None:
            call.failed(_unanswered(given, len(calls)))


def _unanswered(given: object, count: int) -> ServingError:
    has = f"{len(given)} answers" if isinstance(given, Sequence) else type(given).__name__
    return ServingError(
        f"execute_batch left this call without an answer: it returned {has} for {count} calls;"
        " return one for each, or use call.reply or call.fail"
    )
