"""Python code that answers for a model: `kernel: "FILE[:NAME]"` of its entry."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ie_serving.core.errors import LoadFailed
from ie_serving.core.hints import Hint
from ie_serving.core.tensors import SERVING_DEFAULT, Signature
from ie_serving.engines import declared
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.batching import Batching
from ie_serving.engines.kernels import INLINE, KernelOptions, Place
from ie_serving.engines.openvino.unmet import refuse_unmet
from ie_serving.engines.others import AtHand
from ie_serving.engines.python.calls import InProcess
from ie_serving.engines.python.context import LoadContext
from ie_serving.engines.python.daemons import DaemonThreads
from ie_serving.engines.python.kernel import Kernel, kernel_of
from ie_serving.engines.python.model import KernelModel
from ie_serving.engines.python.own_modules import OwnModules
from ie_serving.engines.python.requirements import check
from ie_serving.engines.run.function import one_line
from ie_serving.engines.run.program import INFER_THREADS
from ie_serving.telemetry.logs import Event

log = logging.getLogger(__name__)

PYTHON = Hint("; to allow that, set {engine.allow_python}")
RESERVED = (declared.INPUTS, declared.OUTPUTS)
"""Words of `params` that are for the server, not for the kernel."""


def load(directory: Path, options: EngineOptions) -> KernelModel:
    """Make the model of a version's kernel. See `engines.listed.Load`."""
    own = options.of(KernelOptions)
    if own.place is None:
        raise LoadFailed('driver python runs a kernel: name it, as "kernel": "kernel.py:Name"')
    # Asked before the import: to import a module is to run its code.
    if not options.allow_python:
        raise LoadFailed(f"kernel {own.place} asks to run Python code", PYTHON)
    file = found(own.place, directory)
    check(file.parent)
    with ExitStack() as undone:
        ctx = _context(directory, options)
        undone.callback(ctx.close)
        modules = OwnModules(file.parent)
        undone.callback(modules.close)
        with _telling(own.place):
            kernel = kernel_of(modules.load(file), own.place.name, ctx, options)
        undone.callback(_close, kernel)
        return _model(kernel, options, undone)


def found(place: Place, directory: Path) -> Path:
    """Find the file of a kernel.

    Raises:
        LoadFailed: naming where it was looked for.
    """
    # An absolute path stays what it is behind any directory.
    paths = [directory / place.file, Path(place.beside) / place.file]
    file = next((path for path in paths if path.is_file()), None)
    if file is None:
        raise LoadFailed(f"kernel {place.file} is neither {' nor '.join(map(str, unique(paths)))}")
    return file


def unique(paths: Sequence[Path]) -> list[Path]:
    """Give each path once, in order."""
    return list(dict.fromkeys(paths))


def _context(directory: Path, options: EngineOptions) -> LoadContext:
    return LoadContext(
        name=options.of(AtHand).model,
        version=int(directory.name) if directory.name.isdecimal() else None,
        path=directory,
        params=_own_params(options.params),
    )


def _own_params(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name not in RESERVED}


@contextmanager
def _telling(place: Place) -> Iterator[None]:
    """Tell what a kernel raises while it is loaded: its class and text, and to the log where."""
    try:
        yield
    except LoadFailed:
        raise
    except (Exception, SystemExit) as error:
        log.warning(Event("kernel failed to load", kernel=place), exc_info=error)
        cause = f"{type(error).__name__}: {one_line(error)}"
        raise LoadFailed(f"kernel {place} cannot be loaded: {cause}") from error


def _close(kernel: Kernel) -> None:
    try:
        kernel.close()
    except Exception as error:  # what follows is freed all the same
        log.warning(Event("kernel failed to close", kernel=kernel.name), exc_info=error)


def _model(kernel: Kernel, options: EngineOptions, opened: ExitStack) -> KernelModel:
    own, batching = options.of(KernelOptions), options.of(Batching)
    gathers = kernel.execute_batch is not None
    signature = Signature(
        SERVING_DEFAULT,
        kernel.inputs,
        kernel.outputs,
        runs_on=f"kernel {kernel.name}, isolation {own.isolation}",
        gathers=gathers,
        # Whose rows share a batch with those of others, there is no single caller of.
        told=gathers or not batching.rows,
    )
    refuse_unmet(options, signature, f"kernel {kernel.name}")
    threads: Executor = INFER_THREADS
    if own.isolation != INLINE:
        threads = DaemonThreads(own.max_concurrency)
        opened.callback(threads.shutdown)
    runner = InProcess(kernel.execute, kernel.execute_batch)
    return KernelModel(
        kernel.name,
        signature,
        [runner] * own.max_concurrency,
        threads,
        most=max(1, batching.rows) if gathers else 1,
        timeout_s=own.timeout_ms / 1e3 or None,
        others=options.of(AtHand).others,
        update=kernel.update and _updates(kernel.update),
        freed=opened.pop_all().close,
    )


def _updates(update: Callable[[Mapping[str, Any]], object]) -> Callable[[Mapping[str, Any]], None]:
    def own(params: Mapping[str, Any]) -> None:
        update(_own_params(params))

    return own
