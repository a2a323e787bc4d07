"""Runs a kernel in a child process. If it crashes, hangs or fills its memory, its call fails."""

import json
import logging
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing
from functools import partial
from pathlib import Path

from ie_serving.core.runtime.scratch import Scratch
from ie_serving.core.runtime.waits import Backoff
from ie_serving.core.values.codes import ERROR_OF
from ie_serving.core.values.errors import DeadlineExceeded, QueueFull, ServingError
from ie_serving.core.values.tensors import Array, Arrays
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import Instances, KernelOptions
from ie_serving.engines.process.child_process import WorkerProcess, command_of
from ie_serving.engines.process.link import Link, LinkMessage, PeerGone, RemoteFault
from ie_serving.engines.process.protocol import KEPT, FrameKind, ProcessFrame, words
from ie_serving.engines.process.supervision import ProcessTask, Supervisor
from ie_serving.engines.python.child import job_of, specs_of
from ie_serving.engines.python.context import Context, kernel_scratch
from ie_serving.engines.python.fleet import Growth, RunnerFleet, RunningKernel
from ie_serving.engines.python.kernel_link import answered, packed
from ie_serving.engines.python.runners import KernelCall, RunnerReadiness

log = logging.getLogger(__name__)

COMMAND = command_of(
    "from ie_serving.engines.python.child import load;"
    " from ie_serving.engines.process.worker import serve; serve(load)"
)

BACKOFF = Backoff(first_s=0.2, longest_s=30.0)
"""Pauses before restarts of a process that ends again and again."""
CLOSING_S = 30.0
"""Seconds in which a kernel has to close itself, as long as requests have by default when their
version goes; then its process is ended. A server that stops waits for less, and ends it as well."""
AGAIN_S = 5.0
"""Seconds for which calls of a crashed batch wait for the restarted process."""


class KernelProcess(Supervisor):
    """The process of a kernel, kept alive.

    Args of the constructor:
        task: task of the process.
        scratch: directory for the kernel's files; removed after the process has ended in any way.
    """

    def __init__(self, task: ProcessTask, scratch: Scratch) -> None:
        super().__init__(task)
        self._scratch = scratch

    def _live(self) -> str:
        try:
            return super()._live()
        finally:
            self._scratch.empty()


def process_of(directory: Path, options: EngineOptions) -> KernelProcess:
    """Make the process of a version's kernel, not started yet."""
    source = options.of(KernelOptions).source
    scratch = kernel_scratch()
    task = ProcessTask(
        command=COMMAND,
        kind="kernel",
        job=job_of(directory, options, scratch),
        name=str(directory),
        what=f"the process of kernel {source}",
        backoff=BACKOFF,
        closing_s=CLOSING_S,
    )
    return KernelProcess(task, scratch)


class RemoteRunner:
    """Runs calls in a process. See `calls.Runner`.

    Args of the constructor:
        process: started.
        kernel: its name, for errors.
        inputs: specs in the order of the metadata.
        outputs: specs in the order of the metadata.
        timeout_s: longest time of a run, after which the process is ended; None sets no limit.
    """

    def __init__(
        self,
        process: KernelProcess,
        kernel: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        timeout_s: float | None,
    ) -> None:
        self._process = process
        self._kernel = kernel
        self._inputs = inputs
        self._outputs = outputs
        self._timeout_s = timeout_s
        self._way: tuple[WorkerProcess, Link] | None = None
        # A version that is still in use after the drain is not closed: the process goes with it.
        weakref.finalize(self, process.abandon)

    @property
    def readiness(self) -> RunnerReadiness:
        """See `Runner`."""
        if self._process.serves:
            return RunnerReadiness.NOW
        return RunnerReadiness.SOON if self._process.starts else RunnerReadiness.LATER

    def run(self, calls: Sequence[KernelCall]) -> None:
        """See `Runner`."""
        try:
            tensors = self._run_in_process(calls)
        except PeerGone:
            self._crashed(calls)
        except TimeoutError:
            limit = f"{(self._timeout_s or 0) * 1e3:g} ms"
            self._end(f"a call took longer than {limit}")
            text = (
                f"kernel {self._kernel} hung for {limit} (timeout_ms of the model), and was ended"
            )
            self._fail(calls, DeadlineExceeded(text))
        except RemoteFault as error:
            self._fail(calls, ERROR_OF.get(error.code, ServingError)(str(error)))
        except OSError as error:
            self._fail(calls, QueueFull(f"the tensors cannot be handed over: {error.strerror}"))
        except ServingError as error:
            self._fail(calls, error)
        else:
            self._share(calls, iter(tensors))

    def stream(self, items: AsyncIterator[Arrays], ctx: Context) -> AsyncGenerator[object, None]:
        """Answer a stream in the process; see `calls.Stream`. On one event loop."""
        # Here: few kernels have streams.
        from ie_serving.engines.python.remote_stream import RemoteStream

        own = RemoteStream(
            self._process, self._kernel, self._inputs, self._outputs, self._timeout_s
        )
        return own.replies(items, ctx)

    def ask_to_end(self) -> None:
        """See `Runner`."""
        self._process.ask_to_end()

    def close(self) -> None:
        """See `Runner`."""
        self._process.close()
        if self._way is not None:
            self._way[1].close()

    def _run_in_process(self, calls: Sequence[KernelCall]) -> Sequence[Array]:
        if self._way is not None and not self._way[1].alive:
            self._end()
        if self._way is None:
            self._way = self._process.link()
        link = self._way[1]
        # The outputs of the run before, which lie there, are read (`Line._run`) or copied below.
        link.shrink()
        tensors = [each for call in calls for each in packed(call, self._inputs)]
        frame = link.pack(FrameKind.RUN, len(calls), tensors)
        try:
            reply = self._exchange(link, frame)
        except RemoteFault:
            self._leave(link)  # whether the kernel keeps the inputs is not known
            raise
        if reply.number == KEPT:
            # The outputs can be read all the same, as long as anything refers to them.
            self._leave(link)
        return reply.tensors

    def _exchange(self, link: Link, frame: ProcessFrame) -> LinkMessage:
        # The limit is for the run alone: with it, the check whether a link is alive would wait.
        link.limit(self._timeout_s)
        try:
            link.send(frame)
            return link.reply()
        finally:
            link.limit(None)

    def _leave(self, link: Link) -> None:
        """Use another link from now on: the kernel may hold views of this link's memory."""
        self._way = None
        link.close()

    def _share(self, calls: Sequence[KernelCall], tensors: Iterator[Array]) -> None:
        over = False
        for call in calls:
            call.outcome, is_over = answered(tensors, self._outputs)
            over = over or is_over
        if over:  # the memory stays full: a new process begins empty
            self._end("its memory was full")

    def _crashed(self, calls: Sequence[KernelCall]) -> None:
        self._end()
        if len(calls) > 1:  # one of them did: the others must not suffer from it
            for call in calls:
                self._process.settled(AGAIN_S)
                self.run([call])
                # The next one's outputs come where these lie.
                if isinstance(call.outcome, Mapping):
                    call.outcome = {name: each.copy() for name, each in call.outcome.items()}
            return
        cause = self._process.cause
        self._fail(
            calls,
            ServingError(
                f"the process of kernel {self._kernel} ended while it ran this call: {cause}; it is"
                " started again"
            ),
        )

    def _fail(self, calls: Sequence[KernelCall], error: ServingError) -> None:
        for call in calls:
            call.outcome = type(error)(str(error))

    def _end(self, why: str = "") -> None:
        """End the process, which is started again, and forget the way to it. `why`: for `lost`."""
        if self._way is not None:
            process, link = self._way
            self._way = None
            link.close()
            self._process.lost(process, why)


def begin(directory: Path, options: EngineOptions, undone: ExitStack) -> RunningKernel:
    """Start the processes of a kernel, which `undone` ends. Blocking.

    Raises:
        LoadFailed: the kernel cannot be loaded.
    """
    own = options.of(KernelOptions)
    count = own.instances.min if own.instances else own.max_concurrency
    processes = [process_of(directory, options) for _ in range(count)]
    for process in processes:
        undone.callback(process.close)
        tensors = process.start().tensors
    found = json.loads(words(tensors[0]))
    name, inputs, outputs = found["name"], specs_of(found["inputs"]), specs_of(found["outputs"])

    def runner(process: KernelProcess) -> RemoteRunner:
        return RemoteRunner(process, name, [*inputs], [*outputs], own.timeout_ms / 1e3 or None)

    def start() -> RemoteRunner:
        process = process_of(directory, options)
        process.start()
        return runner(process)

    fleet = RunnerFleet([runner(each) for each in processes], _growth(name, own.instances, start))
    stream = partial(_stream, fleet) if found["streams"] else None
    return RunningKernel(name, inputs, outputs, fleet, batches=found["batches"], stream=stream)


def _growth(
    name: str, instances: Instances | None, start: Callable[[], RemoteRunner]
) -> Growth | None:
    """Say how many processes there may be; None where there are always as many."""
    if instances is None or instances.max <= instances.min:
        return None
    return Growth(
        name=name,
        least=instances.min,
        most=instances.max,
        idle_s=instances.idle_seconds,
        start=start,
    )


async def _stream(
    fleet: RunnerFleet, items: AsyncIterator[Arrays], ctx: Context
) -> AsyncGenerator[object, None]:
    """Let one of the processes answer a stream. Raises: NotAvailable."""
    with fleet.for_stream() as runner:
        assert isinstance(runner, RemoteRunner)  # a fleet of `begin` has no others
        async with aclosing(runner.stream(items, ctx)) as replies:
            async for each in replies:
                yield each
