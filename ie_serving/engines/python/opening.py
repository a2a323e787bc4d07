"""Finds a kernel's file, imports it under module names of its version's own, and loads its kernel.

A kernel is loaded in the server, or in a child process. What a `requirements.txt` beside users'
code names and the server lacks is reported, and nothing is installed: such a file is mostly that of
the training, so it refuses no code that imports. It explains an import that fails, and is a warning
otherwise.

Versions have files of the same names, which must not share modules. So each kernel's directory is a
package with a number, and `import helpers` in it means the file beside it, if there is one. Nothing
is written into the directory, and the directory is not on `sys.path`.
"""

import builtins
import importlib
import itertools
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from packaging.requirements import InvalidRequirement, Requirement

from ie_serving.core.compat import by_name, imported
from ie_serving.core.runtime.scratch import Scratch
from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines import driver_params
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import PROCESS, CodeSource, KernelOptions
from ie_serving.engines.other_models import Surroundings
from ie_serving.engines.python import ovms
from ie_serving.engines.python.context import LoadContext, kernel_scratch
from ie_serving.engines.python.kernel import Kernel, kernel_of
from ie_serving.engines.run import forks
from ie_serving.engines.run.function import one_line
from ie_serving.telemetry.log import logs
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)
_numbers = itertools.count(1)

NO_SHIMS: Final[Mapping[str, ModuleType]] = {}

CONVERTER: Final = "openvino.tools.ovc"
FUNCTION: Final = "convert_model"
RESERVED = (driver_params.INPUTS, driver_params.OUTPUTS)
"""Words of `params` that are for the server, not for the kernel."""
NAME = "requirements.txt"


class OwnModules:
    """The modules of one version.

    Args of the constructor:
        directory: directory of its files.
        shims: modules that only its files can import, by their full names, packages included: they
            stand in for a library that the files were written for.
    """

    def __init__(self, directory: Path, shims: Mapping[str, ModuleType] = NO_SHIMS) -> None:
        self._shims = shims
        self._directory = directory
        self._package = f"ie_serving_kernel_{next(_numbers)}"
        self._builtins = {**vars(builtins), "__import__": self._import}
        self._beside: dict[str, bool] = {}
        self._finder = _Finder(f"{self._package}.", partial(_Source, self._builtins))
        package = ModuleType(self._package)
        package.__path__ = [str(directory)]
        sys.modules[self._package] = package
        sys.meta_path.insert(0, self._finder)  # before the one that reads any path
        logs.hear(f"{directory}/")
        allow_converter()

    def load(self, file: Path) -> ModuleType:
        """Run a file as a module. Raises whatever it raises."""
        name = f"{self._package}.{file.stem.replace('.', '_')}"
        spec = spec_from_file_location(name, file, loader=_Source(self._builtins, name, str(file)))
        assert spec is not None  # a loader was given
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    def close(self) -> None:
        """Forget them all."""
        if self._finder not in sys.meta_path:
            return
        sys.meta_path.remove(self._finder)
        logs.unhear(f"{self._directory}/")
        # A list first: threads that import change the dict meanwhile.
        for name in [n for n in list(sys.modules) if f"{n}.".startswith(f"{self._package}.")]:
            # Cycles between functions and their module would stay until the next garbage
            # collection, which may be minutes away.
            vars(sys.modules.pop(name)).clear()
        self._builtins.clear()

    # Args as those of `builtins.__import__`.
    def _import(
        self,
        name: str,
        names: Mapping[str, object] | None = None,
        local: Mapping[str, object] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        top = name.partition(".")[0]
        # A module of the version's directory has precedence over a shim of its name.
        if top in self._shims and not level and not self._has(top):
            return _shim(self._shims, name, fromlist)
        if level or not self._has(top):
            return builtins.__import__(name, names, local, fromlist, level)
        own = f"{self._package}.{name}"
        if fromlist:
            return builtins.__import__(own, names, local, fromlist)
        importlib.import_module(own)
        return sys.modules[f"{self._package}.{top}"]

    def _has(self, top: str) -> bool:
        if top not in self._beside:
            files = (f"{top}.py", f"{top}/__init__.py", *(f"{top}{e}" for e in EXTENSION_SUFFIXES))
            is_regular = any((self._directory / file).is_file() for file in files)
            self._beside[top] = is_regular or self._has_folder(top)
        return self._beside[top]

    def _has_folder(self, top: str) -> bool:
        """Tell whether a folder without `__init__.py` is meant: as in Python, after all libraries.

        It may as well be one of assets, called as a library is.
        """
        return (self._directory / top).is_dir() and find_spec(top) is None


def _shim(shims: Mapping[str, ModuleType], name: str, fromlist: Sequence[str] | None) -> ModuleType:
    """Give a shim as `import` does: `a.b` is `a`, unless names are taken from it."""
    if name not in shims:
        top = name.partition(".")[0]
        has = ", ".join(sorted(shims))
        raise ModuleNotFoundError(
            f"No module named {name!r}: of {top} the server has {has}", name=name
        )
    return shims[name] if fromlist else shims[name.partition(".")[0]]


class _Finder(MetaPathFinder):
    """Finds the modules whose names begin with `start`."""

    def __init__(self, start: str, source: Any) -> None:  # noqa: ANN401  makes a loader
        self._start = start
        loaders = ((ExtensionFileLoader, EXTENSION_SUFFIXES), (source, SOURCE_SUFFIXES))
        self._finder = FileFinder.path_hook(*loaders)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if not fullname.startswith(self._start):
            return None
        found = (self._finder(each).find_spec(fullname) for each in path or ())
        return next((spec for spec in found if spec is not None), None)


class _Source(SourceFileLoader):
    """Reads the source each time, and keeps no compiled file beside it, or takes one from there."""

    def __init__(self, its_builtins: dict[str, Any], name: str, path: str) -> None:
        super().__init__(name, path)
        self._builtins = its_builtins

    def path_stats(self, path: str) -> Mapping[str, Any]:
        """Tell nothing, by which no compiled file is looked for. See `SourceLoader.get_code`."""
        raise OSError

    def exec_module(self, module: ModuleType) -> None:
        """Run it with an `import` that knows the files beside it."""
        vars(module)["__builtins__"] = self._builtins
        super().exec_module(module)


# -- OpenVINO's converter of models, which `engines/openvino` keeps out of the server -----------


def allow_converter() -> None:
    """Let the converter be imported, when users' code first asks for it."""
    if sys.modules.get(CONVERTER, sys) is not None:  # it is there, or nothing keeps it out
        return
    del sys.modules[CONVERTER]
    if (openvino := sys.modules.get("openvino")) is not None:
        vars(openvino)["__getattr__"] = _of_openvino


def _of_openvino(name: str) -> object:
    """Give what `openvino` takes from its converter, when it is there. Source: PEP 562."""
    if name != FUNCTION:
        raise AttributeError(f"module 'openvino' has no attribute {name!r}")
    import openvino
    from openvino.tools.ovc import convert_model

    vars(openvino)[FUNCTION] = convert_model
    return convert_model


def opened(
    directory: Path, options: EngineOptions, undone: ExitStack, scratch: Scratch | None = None
) -> Kernel:
    """Load a version's kernel, which `undone` closes.

    Args:
        directory: directory of the version.
        options: options of the version, with `KernelOptions`.
        undone: closes the kernel.
        scratch: directory for its own files; None takes a new one.

    Raises:
        LoadFailed: the kernel raised an exception, or cannot be run.
    """
    source = options.of(KernelOptions).source
    assert source is not None  # the driver has looked
    file = found(source, directory)
    ctx = _context(directory, options, scratch or kernel_scratch())
    undone.callback(ctx.close)
    forks.watch()
    lacks = lacking(file.parent)
    with telling(source, lacks):
        kernel = forks.call(str(source), _kernel, file, source, ctx, options, undone)
    warn(source, lacks)
    undone.callback(_close, kernel)
    return kernel


def _kernel(
    file: Path, source: CodeSource, ctx: LoadContext, options: EngineOptions, undone: ExitStack
) -> Kernel:
    foreign = None if source.name else _foreign(file, ctx, undone)
    if foreign is not None:
        return foreign
    modules = OwnModules(file.parent, {ovms.SHIM: ovms})
    undone.callback(modules.close)
    return kernel_of(modules.load(file), source.name, ctx, options)


def _foreign(file: Path, ctx: LoadContext, undone: ExitStack) -> Kernel | None:
    """Load a file that another system's adapter runs; None where the file is a kernel of ours."""
    for beside, opener in by_name("kernels").items():
        if (file.parent / beside).is_file():
            return cast("Kernel | None", imported(opener)(file.parent, ctx, undone))
    return None


def found(source: CodeSource, directory: Path, what: str = "kernel") -> Path:
    """Find the file of a kernel, or of another object that `what` names.

    Raises:
        LoadFailed: naming the searched paths.
    """
    # Joining an absolute path to a directory gives that path.
    paths = [directory / source.file, Path(source.beside) / source.file]
    file = next((path for path in paths if path.is_file()), None)
    if file is None:
        looked = " nor ".join(map(str, unique(paths)))
        raise LoadFailed(f"{what} {source.file} is neither {looked}: put the file there")
    return file


def unique(paths: Sequence[Path]) -> list[Path]:
    """Give each path once, in order."""
    return list(dict.fromkeys(paths))


def _context(directory: Path, options: EngineOptions, scratch: Scratch) -> LoadContext:
    return LoadContext(
        name=options.of(Surroundings).model,
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
def telling(source: CodeSource, lacks: str) -> Iterator[None]:
    """Report an exception of loading code by its class and text; the log has the traceback.

    Args:
        source: file and name of the code.
        lacks: result of `lacking`; told where an import fails.
    """
    try:
        yield
    except LoadFailed:
        raise
    # All: a KeyboardInterrupt that reached the event loop would end it.
    except BaseException as error:
        log.warning(Event("kernel failed to load", kernel=source), exc_info=error)
        cause = f"{type(error).__name__}: {one_line(error)}"
        if lacks and isinstance(error, ImportError):
            cause += (
                f"; {NAME} asks for {lacks}; nothing is installed by the server: install it with"
                " pip in the server's environment and start the server again"
            )
        raise LoadFailed(f"kernel {source} cannot be loaded: {cause}") from error


def warn(source: CodeSource, lacks: str) -> None:
    """Log the requirements that a loaded version lacks, if there are any."""
    if lacks:
        log.warning(Event("requirements not met", kernel=source, file=NAME, lacking=lacks))


def _close(kernel: Kernel) -> None:
    try:
        kernel.close()
    except BaseException as error:  # the other resources are freed all the same
        log.warning(Event("kernel failed to close", kernel=kernel.name), exc_info=error)


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
        if line and not line.startswith(("#", "-")) and (why := _lacks(line)):
            yield f"{line} ({why})"


def _lacks(line: str) -> str:
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
