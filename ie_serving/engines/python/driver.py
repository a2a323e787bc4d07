"""The driver of kernels, Python code that answers for a model: `kernel: "FILE[:NAME]"`."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from ie_serving.core.compat import added
from ie_serving.core.runtime.threads import Begin, DaemonThreads
from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import ABSENT, SERVING_DEFAULT, Signature
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import INLINE, PROCESS, THREAD, CodeSource, KernelOptions
from ie_serving.engines.layer_options import Batching
from ie_serving.engines.openvino.unsupported_settings import refuse_unsupported
from ie_serving.engines.other_models import Surroundings
from ie_serving.engines.python.fleet import RunnerFleet, RunningKernel
from ie_serving.engines.python.kernel_model import KernelModel
from ie_serving.engines.python.opening import found, opened, own_params
from ie_serving.engines.python.runners import InProcessRunner
from ie_serving.engines.run import forks
from ie_serving.engines.run.program import INFER_THREADS

PYTHON = Hint("; to allow that, set {engine.allow_python}")


def load(directory: Path, options: EngineOptions) -> KernelModel:
    """Make the model of a version's kernel. See `engines.drivers.LoadDirectory`."""
    own = options.of(KernelOptions)
    if own.source is None:
        raise LoadFailed('driver python runs a kernel: name it, as "kernel": "kernel.py:Name"')
    # Checked before the import: importing a module runs its code.
    if not options.allow_python:
        raise LoadFailed(f"kernel {own.source} asks to run Python code", PYTHON)
    isolation = own.isolation or _usual(own.source, directory)
    options = options.having(replace(own, isolation=isolation))
    with ExitStack() as undone:
        if isolation != PROCESS:
            return _model(_in_threads(directory, options, undone), options, undone)
        # Imported here: only a kernel in a process needs it.
        from ie_serving.engines.python.remote import begin

        return _model(begin(directory, options, undone), options, undone)


def _usual(source: CodeSource, directory: Path) -> str:
    """Give the isolation that the author of a kernel counts on."""
    home = found(source, directory).parent
    is_foreign = not source.name and any(takes(home) for takes in added("foreign_kernels"))
    return PROCESS if is_foreign else THREAD


def _in_threads(directory: Path, options: EngineOptions, undone: ExitStack) -> RunningKernel:
    kernel = opened(directory, options, undone)
    runner = InProcessRunner(kernel.execute, kernel.execute_batch)
    return RunningKernel(
        kernel.name,
        kernel.inputs,
        kernel.outputs,
        # One for all: it keeps nothing between calls, and the kernel is one object.
        RunnerFleet([runner] * options.of(KernelOptions).max_concurrency),
        batches=kernel.execute_batch is not None,
        update=kernel.update and _updates(kernel.update),
        stream=kernel.stream,
    )


def _model(kernel: RunningKernel, options: EngineOptions, undone: ExitStack) -> KernelModel:
    own, batching = options.of(KernelOptions), options.of(Batching)
    gathers = kernel.batches
    signature = Signature(
        SERVING_DEFAULT,
        kernel.inputs,
        kernel.outputs,
        runs_on=f"kernel {kernel.name}, isolation {own.isolation}",
        defaults={name: ABSENT for name, spec in kernel.inputs.items() if spec.optional},
        gathers=gathers,
        # Rows of several callers may share a batch: such a call has no single caller.
        sees_caller=gathers or not batching.rows,
    )
    refuse_unsupported(options, signature, f"kernel {kernel.name}")
    begin: Begin = INFER_THREADS.begin
    if own.isolation != INLINE:
        threads = DaemonThreads(kernel.fleet.most)
        begin = threads.begin
        undone.callback(threads.shutdown, wait=False)
    return KernelModel(
        kernel.name,
        signature,
        kernel.fleet,
        begin,
        shared=own.isolation == INLINE,
        most=max(1, batching.rows) if gathers else 1,
        timeout_s=own.timeout_ms / 1e3 or None,
        # A process sends all outputs of a batch together.
        early=gathers and own.isolation != PROCESS,
        others=options.of(Surroundings).others,
        update=kernel.update,
        stream=kernel.stream,
        freed=undone.pop_all().close,
    )


def _updates(update: Callable[[Mapping[str, Any]], object]) -> Callable[[Mapping[str, Any]], None]:
    def own(params: Mapping[str, Any]) -> None:
        forks.call("update", update, own_params(params))

    return own
