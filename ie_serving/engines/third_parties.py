"""Finds drivers of other packages through the entry points `ie_serving.drivers`.

    [project.entry-points."ie_serving.drivers"]
    mine = "my_package.driver:MyDriver"

An entry point names a callable without arguments that returns a `Driver` (`engines/base.py`).
Installed packages are searched only when a model's configuration names a driver that is not built
in, or when no built-in driver claims a version's files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.base import CompiledModel, Driver, EngineOptions
from ie_serving.engines.listed import GROUP

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
        from ie_serving.engines.layers.completed import completed

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
