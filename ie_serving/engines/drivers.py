"""Chooses the driver that compiles a version: the named one, or the first to claim its files.

Other packages bring drivers through the entry points `ie_serving.drivers`:

    [project.entry-points."ie_serving.drivers"]
    mine = "my_package.driver:MyDriver"

An entry point names a callable without arguments that returns a `Driver` (`engines/base.py`).
Installed packages are searched only when a model's configuration names a driver that is not built
in, or when no built-in driver claims a version's files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from ie_serving.core.settings.faults import fault
from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import nearest
from ie_serving.engines.base import AUTO, NOTHING, CompiledModel, Driver, EngineOptions
from ie_serving.engines.listed import GROUP, TABLE, Listed, names_in, rows

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class ThirdParty:
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
        # Here, not above: the arbiter process, which compiles nothing, has no numpy.
        from ie_serving.engines.layers.layer import completed

        return completed(self._driver.compile(directory, options))

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
def third_parties() -> Mapping[str, ThirdParty]:
    """Find the drivers of installed packages, by name. Takes some 30 ms, once."""
    # Here, not above: thirty modules, for which no start waits.
    from importlib.metadata import entry_points

    found = {entry.name: ThirdParty(entry) for entry in entry_points(group=GROUP)}
    return MappingProxyType(found)


Others = Callable[[], Mapping[str, Driver]]

AT_HAND = ("onnxruntime", "openvino")
"""Names of the drivers that `app/application.py` makes at the start."""


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
        place: of it, for errors.
        beside: words that the caller takes beside these, for errors.
    """
    given = "null" if value is None else value.strip() if isinstance(value, str) else ""
    for word in (given.lower(), given):
        if word and is_known(word):
            return word
    known = sorted({*names(), *beside})
    raise fault(place, value, f"one of {', '.join(known)}{nearest(given, known)}")


TRITON: Final = "model.savedmodel"
"""Folder of a version in which a SavedModel lies for Triton."""


class Drivers:
    """Several drivers as one engine. See `engines.base.Engine`.

    Args of the constructor:
        drivers: in the order in which they are tried; the most general one comes last.
        listed: drivers that are imported on use; tried where no file is of `drivers`.
        others: gives the drivers of other packages by name, tried last.
    """

    name = "drivers"

    def __init__(
        self,
        drivers: Sequence[Driver],
        listed: Sequence[Listed] = (),
        others: Others = lambda: {},
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
        # Which driver will compile the files is known only when they are all there, so the version
        # waits for the first that has enough.
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
