"""Drivers that are found by name or by files, and imported only when a version needs them.

`TABLE` has one row for each driver. The drivers' libraries are extras of this package; a server
without such models imports neither the libraries nor the drivers.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from ie_serving.core.compat import added
from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.base import CompiledModel, EngineOptions

GROUP = "ie_serving.drivers"
"""Entry points under which packages of others bring drivers (`drivers.py`)."""

Load = Callable[[Path, EngineOptions], CompiledModel]
"""The function a row names: reads the model's file, or the version's directory where the driver
needs no file. Blocking. Raises: LoadFailed."""

BESIDE = re.compile(
    r"(labels|classes|vocab|notes|readme|requirements|config|tokenizer|special_tokens).*\.(txt|json)"
    r"|(signatures|golden)\.json",
    re.IGNORECASE,
)
"""Files that lie beside models of any kind, and are none."""

MOST_HEAD = 512
"""Bytes at the beginning of a file that identify its format."""

MOST_MARK = 64 * 1024
"""Bytes of a file within which a mark stands: descriptions are short."""


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One row: a driver, see `engines.base.Driver`.

    Attributes:
        name: word of the setting `driver`.
        place: its `Load`, as `module:name`, in which `{name}` is the driver's.
        suffixes: of files that only this driver reads; none where it needs no file.
        begins: suffixes shared with other formats, each with the first bytes of a model.
        marks: names of files that together are a model, each with text found within its first
            `MOST_MARK` bytes. Such a row is tried before all other drivers, since the other files
            in the directory belong to that model.
    """

    name: str
    place: str = "ie_serving.engines.{name}.driver:load"
    suffixes: tuple[str, ...] = ()
    begins: Mapping[str, re.Pattern[bytes]] = field(default_factory=dict)
    marks: Mapping[str, re.Pattern[bytes]] = field(default_factory=dict)

    def missing(self, files: Collection[str]) -> str | None:
        """See `engines.base`; for models whose configuration names this driver."""
        if self._models(files) or self._doubtful(files) or not self.forms:
            return None
        return f"the model is missing: expected {self.forms}"

    def recognizes(self, files: Collection[str]) -> bool:
        """Tell whether a version of `files` may be this driver's, by their names alone."""
        marked = bool(self.marks) and self.marks.keys() <= {*files}
        return marked or bool(self._models(files)) or self._lone(files) is not None

    def is_marked(self, directory: Path) -> bool:
        """Tell whether all of `marks` are there, with their content."""
        return bool(self.marks) and all(
            (directory / name).is_file() and _has(directory / name, mark)
            for name, mark in self.marks.items()
        )

    def claims(self, directory: Path) -> bool:
        """See `engines.base`: by the names of the files, and where others have them by content."""
        files = names_in(directory)
        if self._models(files):
            return True
        lone = self._lone(files)
        return lone is not None and self._begins_so(directory / lone)

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        """See `engines.base`."""
        from importlib.metadata import EntryPoint  # see `drivers.py`

        load = cast("Load", EntryPoint(self.name, self.place.format(name=self.name), GROUP).load())
        if not self.forms:
            return load(directory, options)
        files = names_in(directory)
        found = self._models(files) or self._doubtful(files)
        if len(found) != 1:
            several = f"several models: {', '.join(found)}; keep one of them"
            lacks = f"no model of driver {self.name}: expected {self.forms}"
            raise LoadFailed(f"the version holds {several if found else lacks}")
        return load(directory / found[0], options)

    @property
    def forms(self) -> str:
        """The files that it reads, in words."""
        return " or ".join(f"*{suffix}" for suffix in (*self.suffixes, *self.begins))

    # Only at the top: files in subdirectories are assets.
    def _models(self, files: Collection[str]) -> list[str]:
        return sorted(name for name in files if "/" not in name and name.endswith(self.suffixes))

    def _doubtful(self, files: Collection[str]) -> list[str]:
        top = [name for name in files if "/" not in name and not BESIDE.fullmatch(name)]
        return sorted(name for name in top if name.endswith(tuple(self.begins)))

    # An upload of another model may have begun with its text files. So such a file counts as a
    # model only where it is alone; its content decides the format when the version is compiled.
    def _lone(self, files: Collection[str]) -> str | None:
        found = self._doubtful(files)
        others = [name for name in files if name not in found and not BESIDE.fullmatch(name)]
        return found[0] if len(found) == 1 and not others else None

    def _begins_so(self, file: Path) -> bool:
        with file.open("rb") as opened:
            return self.begins[file.suffix].match(opened.read(MOST_HEAD)) is not None


def _has(file: Path, mark: re.Pattern[bytes]) -> bool:
    with file.open("rb") as opened:
        return mark.search(opened.read(MOST_MARK)) is not None


def names_in(directory: Path) -> list[str]:
    """List the files of a version, relative to its directory, as a store does."""
    return [str(p.relative_to(directory)) for p in sorted(directory.rglob("*")) if p.is_file()]


TABLE: tuple[Listed, ...] = (
    Listed(name="sklearn", suffixes=(".skops", ".joblib", ".pkl", ".pickle")),
    Listed(
        name="xgboost",
        suffixes=(".ubj", ".bst"),
        begins={".json": re.compile(rb'\s*\{\s*"(learner|version)"\s*:')},
    ),
    Listed(name="lightgbm", begins={".txt": re.compile(rb"tree\r?\nversion=")}),
    Listed(name="catboost", suffixes=(".cbm",)),
    Listed(name="pytorch", suffixes=(".pt2", ".pt", ".pth")),
    # Only by name: OpenVINO claims these files, and hands them over where it must.
    Listed(name="litert", suffixes=(".tflite",)),
    Listed(name="pmml", suffixes=(".pmml",)),
    Listed(name="python"),
    Listed(name="null"),
)
"""The rows in the order in which they are tried."""


def rows() -> tuple[Listed, ...]:
    """Give the rows of this table, and those of `compat/`."""
    return (*TABLE, *(row for more in added("drivers") for row in more()))
