"""Finds a kernel's file, runs it, and loads its kernel: in the server, or in a child process.

What a `requirements.txt` beside users' code names and the server lacks; nothing is installed.

Such a file is mostly that of the training, so it refuses no code that imports. It explains an
import that fails, and is a warning otherwise.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

from packaging.requirements import InvalidRequirement, Requirement

from ie_serving.core.compat import by_name, imported
from ie_serving.core.runtime.scratch import Scratch
from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines import declared
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import PROCESS, KernelOptions, Place
from ie_serving.engines.others import AtHand
from ie_serving.engines.python import ovms
from ie_serving.engines.python.context import LoadContext, kernel_scratch
from ie_serving.engines.python.kernel import Kernel, kernel_of
from ie_serving.engines.python.own_modules import OwnModules
from ie_serving.engines.run import forks
from ie_serving.engines.run.function import one_line
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

RESERVED = (declared.INPUTS, declared.OUTPUTS)
"""Words of `params` that are for the server, not for the kernel."""


def opened(
    directory: Path, options: EngineOptions, undone: ExitStack, scratch: Scratch | None = None
) -> Kernel:
    """Load a version's kernel, which `undone` closes.

    Args:
        directory: of the version.
        options: with `KernelOptions`.
        undone: closes the kernel.
        scratch: directory for its own files; None takes a new one.

    Raises:
        LoadFailed: the kernel raised an exception, or cannot be run.
    """
    place = options.of(KernelOptions).place
    assert place is not None  # the driver has looked
    file = found(place, directory)
    ctx = _context(directory, options, scratch or kernel_scratch())
    undone.callback(ctx.close)
    forks.watch()
    lacks = lacking(file.parent)
    with telling(place, lacks):
        kernel = forks.call(str(place), _kernel, file, place, ctx, options, undone)
    warn(place, lacks)
    undone.callback(_close, kernel)
    return kernel


def _kernel(
    file: Path, place: Place, ctx: LoadContext, options: EngineOptions, undone: ExitStack
) -> Kernel:
    foreign = None if place.name else _foreign(file, ctx, undone)
    if foreign is not None:
        return foreign
    modules = OwnModules(file.parent, {ovms.SHIM: ovms})
    undone.callback(modules.close)
    return kernel_of(modules.load(file), place.name, ctx, options)


def _foreign(file: Path, ctx: LoadContext, undone: ExitStack) -> Kernel | None:
    """Load a file that another system's adapter runs; None where the file is a kernel of ours."""
    for beside, opener in by_name("kernels").items():
        if (file.parent / beside).is_file():
            return cast("Kernel | None", imported(opener)(file.parent, ctx, undone))
    return None


def found(place: Place, directory: Path, what: str = "kernel") -> Path:
    """Find the file of a kernel, or of another object that `what` names.

    Raises:
        LoadFailed: naming the searched paths.
    """
    # Joining an absolute path to a directory gives that path.
    paths = [directory / place.file, Path(place.beside) / place.file]
    file = next((path for path in paths if path.is_file()), None)
    if file is None:
        looked = " nor ".join(map(str, unique(paths)))
        raise LoadFailed(f"{what} {place.file} is neither {looked}: put the file there")
    return file


def unique(paths: Sequence[Path]) -> list[Path]:
    """Give each path once, in order."""
    return list(dict.fromkeys(paths))


def _context(directory: Path, options: EngineOptions, scratch: Scratch) -> LoadContext:
    return LoadContext(
        name=options.of(AtHand).model,
        version=int(directory.name) if directory.name.isdecimal() else None,
        path=directory,
        params=own_params(options.params),
        own_process=options.of(KernelOptions).isolation == PROCESS,
        _scratch=scratch,
    )


def own_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Give the part of `params` that is for the kernel."""
    return {name: value for name, value in params.items() if name not in RESERVED}


@contextmanager
def telling(place: Place, lacks: str) -> Iterator[None]:
    """Report an exception of loading code by its class and text; the log has the traceback.

    Args:
        place: of the code.
        lacks: see `lacking`; told where an import fails.
    """
    try:
        yield
    except LoadFailed:
        raise
    # All: a KeyboardInterrupt that reached the event loop would end it.
    except BaseException as error:
        log.warning(Event("kernel failed to load", kernel=place), exc_info=error)
        cause = f"{type(error).__name__}: {one_line(error)}"
        if lacks and isinstance(error, ImportError):
            cause += (
                f"; {NAME} asks for {lacks}; nothing is installed by the server: install it with"
                " pip in the server's environment and start the server again"
            )
        raise LoadFailed(f"kernel {place} cannot be loaded: {cause}") from error


def warn(place: Place, lacks: str) -> None:
    """Log the requirements that a loaded version lacks, if there are any."""
    if lacks:
        log.warning(Event("requirements not met", kernel=place, file=NAME, lacking=lacks))


def _close(kernel: Kernel) -> None:
    try:
        kernel.close()
    except BaseException as error:  # the other resources are freed all the same
        log.warning(Event("kernel failed to close", kernel=kernel.name), exc_info=error)


NAME = "requirements.txt"


def lacking(directory: Path) -> str:
    """Name the requirements that are missing or have another version; empty if there are none.

    Lines that are no requirements of a package, such as those of a repository, count as missing:
    nothing says what they install.
    """
    try:
        text = (directory / NAME).read_text("utf-8", "replace")
    except OSError:
        return ""
    return ", ".join(_lacking(text))


def _lacking(text: str) -> Iterator[str]:
    # pip-compile ends a line with a backslash where hashes follow on the next.
    lines = (line.partition(" #")[0].strip(" \t\\\ufeff") for line in text.splitlines())
    for line in lines:
        if line and not line.startswith(("#", "-")) and (why := _why(line)):
            yield f"{line} ({why})"


def _why(line: str) -> str:
    """Say what a requirement lacks; empty if it is fulfilled, or is none here."""
    try:
        asked = Requirement(line)
    except InvalidRequirement:
        return "unknown"
    if asked.marker is not None and not asked.marker.evaluate():
        return ""
    try:
        has = version(asked.name)
    except PackageNotFoundError:
        return "not installed"
    # An installed pre-release was installed on purpose.
    return "" if asked.specifier.contains(has, prereleases=True) else f"{has} is installed"
