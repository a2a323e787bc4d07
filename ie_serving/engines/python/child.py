"""The child process of a kernel: loads the kernel, and runs calls that come through a link.

Arrays come through shared memory (`packing.py`), and nothing is pickled.
"""

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from ie_serving.core.runtime.scratch import Scratch
from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array, DataType, Specs, TensorSpec
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import PROCESS, KernelOptions, Place
from ie_serving.engines.others import AtHand
from ie_serving.engines.process.link import Fault, Segment
from ie_serving.engines.process.worker import Job, Loaded
from ie_serving.engines.python.kernel import Kernel
from ie_serving.engines.python.opening import opened
from ie_serving.engines.python.packing import context_of, packed_answer
from ie_serving.engines.python.runners import InProcess, KernelCall
from ie_serving.telemetry.log import logs

Told = Mapping[str, tuple[str, Sequence[int] | None, bool]]
"""Tensors as JSON has them: dtype, shape, and whether it is one of JSON, by name."""


_HELD = ExitStack()
"""Resources of this process's kernel; closed when the server unloads the version."""


def job_of(directory: Path, options: EngineOptions, scratch: Scratch) -> str:
    """Write the job of the process; `load` reads it. The server removes `scratch`, too."""
    own = options.of(KernelOptions)
    assert own.place is not None  # the driver has looked
    return json.dumps(
        {
            "directory": str(directory),
            "place": vars(own.place),
            "model": options.of(AtHand).model,
            "params": options.params,
            "scratch": str(scratch.path),
            "memory_bytes": own.memory_limit_mb * 1_000_000,
            "log": logs.chosen(),
        }
    )


def load(job: Job) -> Loaded:
    """Load a kernel, in its process. Raises: Fault."""
    logs.configure(**job["log"])
    options = EngineOptions(params=job["params"], allow_python=True)
    options = options.having(KernelOptions(place=Place(**job["place"]), isolation=PROCESS))
    options = options.having(AtHand(job["model"]))
    scratch = Scratch(path=Path(job["scratch"]))
    try:
        kernel = opened(Path(job["directory"]), options, _HELD, scratch)
    except LoadFailed as error:
        raise Fault(Code.INTERNAL, str(error)) from error
    found = {
        "name": kernel.name,
        "inputs": told(kernel.inputs),
        "outputs": told(kernel.outputs),
        "batches": kernel.execute_batch is not None,
        "streams": kernel.stream is not None,
    }
    stream = _streams(kernel) if kernel.stream else None
    return Loaded(partial(_run, kernel), found, lends=True, stream=stream, close=_HELD.close)


def _streams(kernel: Kernel) -> Callable[[socket.socket, Segment, Segment], None]:
    # Here: kernels without streams, most by far, need none of it.
    from ie_serving.engines.python.child_streams import Streams

    return Streams(kernel).begin


def told(specs: Specs) -> Told:
    """Give tensors as JSON takes them."""
    return {name: (spec.dtype.name, spec.shape, spec.json) for name, spec in specs.items()}


def specs_of(found: Told) -> dict[str, TensorSpec]:
    """Read the specs that `told` wrote."""
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
    InProcess(kernel.execute, kernel.execute_batch).run(calls)
    return [array for call in calls for array in packed_answer(call, kernel.outputs)]


def _call(kernel: Kernel, tensors: Sequence[Array]) -> KernelCall:
    ctx = context_of(tensors[0])
    # Read-only, as in the server; kept views are noticed (`worker.Loaded.lends`).
    for each in tensors:
        each.flags.writeable = False
    inputs = dict(zip(kernel.inputs, tensors[1:], strict=True))
    return KernelCall(kernel.name, kernel.outputs, inputs, ctx)
