"""The child process of a kernel: loads the kernel, and runs calls and streams through links.

Arrays come through shared memory (`kernel_link.py`), and nothing is pickled.

`remote_stream.py` is the server's side of streams. They all run on one event loop in a dedicated
thread, as in the server (`streaming.py`). The kernel gets its next inputs when it requests them,
and is resumed for more outputs when the server has read the ones before.
"""

import asyncio
import json
import logging
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, aclosing, nullcontext, suppress
from functools import partial
from pathlib import Path

from ie_serving.core.runtime.scratch import Scratch
from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array, Arrays, DataType, Specs, TensorSpec
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import PROCESS, CodeSource, KernelOptions
from ie_serving.engines.other_models import Surroundings
from ie_serving.engines.process.link import PeerGone, RemoteFault, Segment
from ie_serving.engines.process.protocol import FrameKind
from ie_serving.engines.process.worker import Job, LoadedJob
from ie_serving.engines.python.context import Context
from ie_serving.engines.python.kernel import Kernel
from ie_serving.engines.python.kernel_link import Duplex, context_of, packed_reply
from ie_serving.engines.python.opening import opened
from ie_serving.engines.python.runners import InProcessRunner, KernelCall
from ie_serving.engines.run import forks
from ie_serving.telemetry.log import logs
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)


class ChildStreams:
    """All streams of a process."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self, way: socket.socket, writes: Segment, reads: Segment) -> None:
        """Answer one more; see `worker.LoadedJob.stream`. In one thread."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="streams", daemon=True).start()
        answers = _run_stream(self._kernel, Duplex(way, writes, reads))
        asyncio.run_coroutine_threadsafe(answers, self._loop)


async def _run_stream(kernel: Kernel, way: Duplex) -> None:
    try:
        with suppress(PeerGone):
            begun = await way.receive()
            await _StreamRun(kernel, way, context_of(begun.tensors[0])).run()
    except Exception as error:  # the server sees a way that is gone, and says so
        log.error(Event("stream failed by a defect", kernel=kernel.name), exc_info=error)
    finally:
        way.close()


class _StreamRun:
    """One stream of a kernel that runs here."""

    def __init__(self, kernel: Kernel, way: Duplex, ctx: Context) -> None:
        self._kernel = kernel
        self._way = way
        self._ctx = ctx
        self._arrived: asyncio.Queue[Arrays | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(1)

    async def run(self) -> None:
        """Answer to the end: the kernel's, or the client's."""
        loop = asyncio.get_running_loop()
        work, reading = loop.create_task(self._work()), loop.create_task(self._read())
        await asyncio.wait((work, reading), return_when=asyncio.FIRST_COMPLETED)
        # Reading ends when the server has left: then the kernel is cancelled, without a wait.
        work.cancel()
        await asyncio.wait((work,))
        reading.cancel()
        await asyncio.wait((reading,))
        for task in (work, reading):
            if not task.cancelled():
                task.result()

    async def _work(self) -> None:
        assert self._kernel.stream is not None  # checked before a stream is begun
        try:
            async with aclosing(self._kernel.stream(self._requests(), self._ctx)) as replies:
                async for outputs in replies:
                    forks.leave_if_forked(self._kernel.name)
                    await self._put(outputs)
        except (asyncio.CancelledError, GeneratorExit, PeerGone):
            raise
        # SystemExit as well: it would end the loop, and with it the streams of others.
        except BaseException as error:
            forks.leave_if_forked(self._kernel.name)
            call = self._call()
            call.failed(error)
            await self._way.send(FrameKind.END, [*packed_reply(call, {})])
        else:
            forks.leave_if_forked(self._kernel.name)
            await self._way.send(FrameKind.END)

    async def _put(self, outputs: object) -> None:
        call = self._call()
        call.finish(outputs)
        await self._room.acquire()
        await self._way.send(FrameKind.RESULT, [*packed_reply(call, self._kernel.outputs)])

    async def _requests(self) -> AsyncGenerator[Arrays, None]:
        while True:
            await self._way.send(FrameKind.NEXT)
            inputs = await self._arrived.get()
            if inputs is None:
                return
            yield inputs

    async def _read(self) -> None:
        with suppress(PeerGone):
            while True:
                message = await self._way.receive()
                if message.kind is FrameKind.TAKEN:
                    self._room.release()
                    continue
                self._arrived.put_nowait(self._inputs(message.tensors) if message.tensors else None)

    def _inputs(self, tensors: Sequence[Array]) -> Arrays:
        # Copies: the kernel may keep them after it requests the next inputs.
        copies = [each.copy() for each in tensors]
        for each in copies:
            each.flags.writeable = False
        return dict(zip(self._kernel.inputs, copies, strict=True))

    def _call(self) -> KernelCall:
        return KernelCall(self._kernel.name, nullcontext, self._kernel.outputs, {}, self._ctx)


JsonTensors = Mapping[str, tuple[str, Sequence[int] | None, bool]]
"""Tensors as JSON has them: dtype, shape, and whether it is one of JSON, by name."""

_HELD = ExitStack()
"""Resources of this process's kernel; closed when the server unloads the version."""


def job_of(directory: Path, options: EngineOptions, scratch: Scratch) -> str:
    """Write the job of the process; `load` reads it. The server removes `scratch`, too."""
    own = options.of(KernelOptions)
    assert own.source is not None  # the driver has looked
    return json.dumps(
        {
            "directory": str(directory),
            "source": vars(own.source),
            "model": options.of(Surroundings).model,
            "params": options.params,
            "scratch": str(scratch.path),
            "memory_bytes": own.memory_limit_mb * 1_000_000,
            "log": logs.chosen(),
        }
    )


def load(job: Job) -> LoadedJob:
    """Load a kernel, in its process. Raises: RemoteFault."""
    logs.configure(**job["log"])
    options = EngineOptions(params=job["params"], allow_python=True)
    options = options.having(KernelOptions(source=CodeSource(**job["source"]), isolation=PROCESS))
    options = options.having(Surroundings(job["model"]))
    scratch = Scratch(path=Path(job["scratch"]))
    try:
        kernel = opened(Path(job["directory"]), options, _HELD, scratch)
    except LoadFailed as error:
        raise RemoteFault(Code.INTERNAL, str(error)) from error
    found = {
        "name": kernel.name,
        "inputs": specs_as_json(kernel.inputs),
        "outputs": specs_as_json(kernel.outputs),
        "batches": kernel.execute_batch is not None,
        "streams": kernel.stream is not None,
    }
    stream = _streams(kernel) if kernel.stream else None
    return LoadedJob(partial(_run, kernel), found, lends=True, stream=stream, close=_HELD.close)


def _streams(kernel: Kernel) -> Callable[[socket.socket, Segment, Segment], None]:
    # Here: kernels without streams, most by far, need none of it.

    return ChildStreams(kernel).begin


def specs_as_json(specs: Specs) -> JsonTensors:
    """Give tensors as JSON takes them."""
    return {name: (spec.dtype.name, spec.shape, spec.json) for name, spec in specs.items()}


def specs_of(found: JsonTensors) -> dict[str, TensorSpec]:
    """Read the specs that `specs_as_json` wrote."""
    return {
        name: TensorSpec(
            name,
            DataType[dtype],
            shape if shape is None else tuple(shape),
            name,
            json=is_json,
        )
        for name, (dtype, shape, is_json) in found.items()
    }


def _run(kernel: Kernel, count: int, tensors: Sequence[Array]) -> list[Array]:
    each = len(tensors) // count
    calls = [_call(kernel, tensors[at : at + each]) for at in range(0, len(tensors), each)]
    InProcessRunner(kernel.execute, kernel.execute_batch).run(calls)
    return [array for call in calls for array in packed_reply(call, kernel.outputs)]


def _call(kernel: Kernel, tensors: Sequence[Array]) -> KernelCall:
    ctx = context_of(tensors[0])
    # Read-only, as in the server; kept views are noticed (`worker.LoadedJob.lends`).
    for each in tensors:
        each.flags.writeable = False
    inputs = dict(zip(kernel.inputs, tensors[1:], strict=True))
    return KernelCall(kernel.name, nullcontext, kernel.outputs, inputs, ctx)
