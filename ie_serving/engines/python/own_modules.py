"""Imports each version's Python code under module names of its own.

Versions have files of the same names, which must not share modules. So each kernel's directory is a
package with a number, and `import helpers` in it means the file beside it, if there is one. Nothing
is written into the directory, and the directory is not on `sys.path`.
"""

import builtins
import importlib
import itertools
import sys
from collections.abc import Mapping, Sequence
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
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ie_serving.telemetry.log import logs

_numbers = itertools.count(1)

NO_SHIMS: Final[Mapping[str, ModuleType]] = {}


class OwnModules:
    """The modules of one version.

    Args of the constructor:
        directory: of its files.
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
        # A file of the author's own stands before it.
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

CONVERTER: Final = "openvino.tools.ovc"
FUNCTION: Final = "convert_model"


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
