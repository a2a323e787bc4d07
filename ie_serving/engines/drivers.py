"""Which driver compiles a version: the one that is named, or the first that claims its files."""

from collections.abc import Collection, Sequence
from pathlib import Path

from ie_serving.core.errors import LoadFailed
from ie_serving.engines.base import AUTO, CompiledModel, Driver, EngineOptions


class Drivers:
    """Several drivers as one engine. See `engines.base.Engine`.

    Args of the constructor:
        drivers: in the order in which they are asked; the most general one comes last.
    """

    name = "drivers"

    def __init__(self, drivers: Sequence[Driver]) -> None:
        self._drivers = drivers

    def missing(self, files: Collection[str]) -> str | None:
        """See `engines.base`: complete for one driver is complete. The last one's words count."""
        # Which driver will compile the files is known only when they are all there, so the version
        # waits for the first that has enough.
        lacking = [driver.missing(files) for driver in self._drivers]
        return None if None in lacking else lacking[-1]

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        """See `engines.base`."""
        return self._driver(directory, options.driver).compile(directory, options)

    def _driver(self, directory: Path, name: str) -> Driver:
        for driver in self._drivers:
            if driver.name == name or (name == AUTO and driver.claims(directory)):
                return driver
        known = ", ".join([AUTO, *sorted(driver.name for driver in self._drivers)])
        raise LoadFailed(f"driver {name!r} cannot compile the version; expected one of {known}")
