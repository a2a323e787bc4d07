"""Chooses the driver that compiles a version: the named one, or the first to claim its files.

Built-in drivers are found by name or by files, and imported only when a version needs them.

Other packages bring drivers through the entry points `ie_serving.drivers`:

    [project.entry-points."ie_serving.drivers"]
    mine = "my_package.driver:MyDriver"

An entry point names a callable without arguments that returns a `Driver` (`engines/base.py`).
Installed packages are searched only when a model's configuration names a driver that is not built
in, or when no built-in driver claims a version's files.

`TABLE` has one row for each driver. The drivers' libraries are extras of this package; a server
without such models imports neither the libraries nor the drivers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from ie_serving.core.compat import added
from ie_serving.core.settings.faults import fault
from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import nearest
from ie_serving.engines.base import AUTO, NOTHING, CompiledModel, Driver, EngineOptions

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "ie_serving.drivers"
"""Entry points under which packages of others bring drivers."""

LoadDirectory = Callable[[Path, EngineOptions], CompiledModel]
"""The function a row names: reads the model's file, or the version's directory where the driver
needs no file. Blocking. Raises: LoadFailed."""

BESIDE = re.compile(
    r"(labels|classes|vocab|notes|readme|requirements|config|tokenizer|special_tokens).*\.(txt|json)"
    r"|(signatures|golden)\.json",
    re.IGNORECASE,
)
"""Files that lie beside models of any kind, and are none."""

TABULAR: Final = "ie_serving.engines.tabular.{name}:load"
"""Module and function of a driver of tabular models, by its name."""

MOST_HEAD = 512
"""Bytes at the beginning of a file that identify its format."""

MOST_MARK = 64 * 1024
"""Bytes of a file within which a mark stands: descriptions are short."""

OtherDrivers = Callable[[], Mapping[str, Driver]]
AT_HAND = ("onnxruntime", "openvino")
"""Names of the drivers that `app/application.py` makes at the start."""
TRITON: Final = "model.savedmodel"
"""Folder of a version in which a SavedModel lies for Triton."""


@dataclass(frozen=True, kw_only=True)
class DriverRow:
    """One row: a driver, see `engines.base.Driver`.

    Attributes:
        name: word of the setting `driver`.
        reference: its `LoadDirectory`, as `module:name`, in which `{name}` is the driver's.
        suffixes: suffixes of files that only this driver reads; none where it needs no file.
        begins: suffixes shared with other formats, each with the first bytes of a model.
        marks: names of files that together are a model, each with text found within its first
            `MOST_MARK` bytes. Such a row is tried before all other drivers, since the other files
            in the directory belong to that model.
    """

    name: str
    reference: str = "ie_serving.engines.{name}.driver:load"
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
        from importlib.metadata import EntryPoint

        load = cast(
            "LoadDirectory",
            EntryPoint(self.name, self.reference.format(name=self.name), GROUP).load(),
        )
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

    # Models lie at the top: files in subdirectories are assets.
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


TABLE: tuple[DriverRow, ...] = (
    DriverRow(name="sklearn", reference=TABULAR, suffixes=(".skops", ".joblib", ".pkl", ".pickle")),
    DriverRow(
        name="xgboost",
        reference=TABULAR,
        suffixes=(".ubj", ".bst"),
        begins={".json": re.compile(rb'\s*\{\s*"(learner|version)"\s*:')},
    ),
    DriverRow(
        name="lightgbm", reference=TABULAR, begins={".txt": re.compile(rb"tree\r?\nversion=")}
    ),
    DriverRow(name="catboost", reference=TABULAR, suffixes=(".cbm",)),
    DriverRow(
        name="pytorch", suffixes=(".pt2", ".pt", ".pth", ".torchscript", ".jit", ".ptl", ".ts")
    ),
    # OpenVINO claims these files, and hands them over where it must.
    DriverRow(name="litert", suffixes=(".tflite",)),
    DriverRow(name="pmml", suffixes=(".pmml",)),
    DriverRow(name="python"),
    DriverRow(name="null", reference="ie_serving.engines.null:load"),
)
"""The rows in the order in which they are tried."""


def rows() -> tuple[DriverRow, ...]:
    """Give the rows of this table, and those of `compat/`."""
    return (*TABLE, *(row for more in added("drivers") for row in more()))


class ThirdPartyDriver:
    """A driver of another package, imported on first use. See `engines.base.Driver`."""

    def __init__(self, entry: EntryPoint) -> None:
        self.name = entry.name
        self._entry = entry

    def missing(self, files: Collection[str]) -> str | None:
        """See `engines.base`; a driver that cannot be imported is reported as missing."""
        driver = self._driver
        return str(driver) if isinstance(driver, LoadFailed) else driver.missing(files)

    def claims(self, directory: Path) -> bool:
        """See `engines.base`."""
        return not isinstance(self._driver, LoadFailed) and self._driver.claims(directory)

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        """See `engines.base`."""
        if isinstance(self._driver, LoadFailed):
            # A new error each time: one that several loads raise would gather the frames of all.
            raise LoadFailed(str(self._driver))
        # Imported on first use: the arbiter process compiles nothing and does not load numpy.
        from ie_serving.engines.layers.layer import with_defaults

        return with_defaults(self._driver.compile(directory, options))

    @cached_property
    def _driver(self) -> Driver | LoadFailed:
        try:
            return cast("Driver", self._entry.load()())
        except Exception as error:  # code of others, which may raise anything
            cause = f"{type(error).__name__}: {error}"
            return LoadFailed(
                f"driver {self.name!r} ({self._entry.value}) cannot be imported: {cause}"
            )


@cache
def third_parties() -> Mapping[str, ThirdPartyDriver]:
    """Find the drivers of installed packages, by name. Takes some 30 ms, once."""
    # Imported on first use: it loads thirty modules, and a start should not wait for them.
    from importlib.metadata import entry_points

    found = {entry.name: ThirdPartyDriver(entry) for entry in entry_points(group=GROUP)}
    return MappingProxyType(found)


def names() -> list[str]:
    """Name every built-in driver, and `auto`; not those that are found by marks alone."""
    return [AUTO, *sorted((*AT_HAND, *(row.name for row in TABLE if not row.marks)))]


def is_known(name: str) -> bool:
    """Tell whether there is a driver of this name, also in other packages."""
    return name in names() or name in third_parties()


def unknown(name: str, known: Collection[str]) -> str:
    """Give the error text for an unknown driver: the existing ones, and the probable match."""
    return f"no driver {name!r}; expected one of {', '.join(known)}{nearest(name, known)}"


def parse_name(value: object, place: str, beside: Collection[str] = ()) -> str:
    """Read the name of a driver; `null` may come as JSON's and YAML's word for nothing.

    Args:
        value: given.
        place: position in the configuration, for errors.
        beside: words that the caller takes beside these, for errors.
    """
    given = "null" if value is None else value.strip() if isinstance(value, str) else ""
    for word in (given.lower(), given):
        if word and is_known(word):
            return word
    known = sorted({*names(), *beside})
    raise fault(place, value, f"one of {', '.join(known)}{nearest(given, known)}")


class Drivers:
    """Several drivers as one engine. See `engines.base.Engine`.

    Args of the constructor:
        drivers: drivers in the order in which they are tried; the most general one comes last.
        listed: drivers that are imported on use; tried where no file is of `drivers`.
        others: gives the drivers of other packages by name, tried last.
    """

    name = "drivers"

    def __init__(
        self,
        drivers: Sequence[Driver],
        listed: Sequence[DriverRow] = (),
        others: OtherDrivers = lambda: {},
    ) -> None:
        self._drivers = drivers
        self._listed = listed
        self._others = others

    def named(self, name: str) -> Drivers:
        """Give the driver of this name, or all drivers for `auto` and for an unknown name."""
        if name == AUTO:
            return self
        found = next(self._by_name(name), None)
        return Drivers([found]) if found else self

    def missing(self, files: Collection[str]) -> str | None:
        """See `engines.base`: complete for one driver is complete. The last one's words count."""
        files = [name.removeprefix(f"{TRITON}/") for name in files]
        # The driver is known only when all files are there, so the version waits for the first
        # driver that has enough.
        lacking = [driver.missing(files) for driver in self._drivers]
        if None in lacking or any(row.recognizes(files) for row in self._listed):
            return None
        if any(each.missing(files) is None for each in self._others().values()):
            return None
        return self._with_others(lacking[-1])

    def _with_others(self, lacks: str | None) -> str | None:
        """Name the files of the table too, where nothing of any model is there."""
        if lacks is None or not lacks.startswith(NOTHING):
            return lacks
        forms = [row.forms for row in self._listed if row.forms and row.forms not in lacks]
        if not forms:
            return lacks
        return f"{lacks}; or for other drivers {', '.join(forms)}"

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        """See `engines.base`."""
        inner = directory / TRITON
        directory = inner if inner.is_dir() else directory
        if options.driver == AUTO:
            return self._claiming(directory).compile(directory, options)
        for driver in self._by_name(options.driver):
            return driver.compile(directory, options)
        known = [AUTO, *sorted(driver.name for driver in self._all())]
        raise LoadFailed(unknown(options.driver, known))

    def _claiming(self, directory: Path) -> Driver:
        files = names_in(directory)
        for row in self._listed:
            if row.is_marked(directory):
                return row
        for driver in self._drivers:
            if driver.missing(files) is None and driver.claims(directory):
                return driver
        for row in self._listed:
            if row.claims(directory):
                return row
        for each in self._others().values():
            if each.missing(files) is None and each.claims(directory):
                return each
        return self._drivers[-1]  # its words about files are the best

    def _by_name(self, name: str) -> Iterator[Driver]:
        # The others last: to find them takes a look through all installed packages.
        yield from (each for each in (*self._drivers, *self._listed) if each.name == name)
        yield from (each for each in self._others().values() if each.name == name)

    def _all(self) -> Iterator[Driver]:
        yield from (*self._drivers, *self._listed, *self._others().values())


def every(drivers: Sequence[Driver]) -> Drivers:
    """Give `drivers`, those of the table, and those of other packages, as one engine."""
    return Drivers(drivers, rows(), third_parties)
