"""Remembers, beside a version's compiled models, whether one thread or several are its choice.

The choice takes up to three compiles and as many measurements, most of the time of a small model's
load. A model on demand is loaded again and again, and other work may disturb a measurement: so a
choice counts once two loads in a row have made it. `engines.kept` checks the file as it checks
those of the engine.
"""

from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from ie_serving.engines.run.threads import threads

ALIKE: Final = 2
"""Loads in a row whose choice has to be the same before it counts."""


class KeptChoice:
    """The choice for one graph of a version, and this number of threads.

    Args of the constructor:
        folder: of the version's compiled models; None: nothing is remembered.
        told: on what the choice depends, and what tells the version's graphs apart.
    """

    def __init__(self, folder: Path | None, *told: object) -> None:
        key = repr((threads(), *told)).encode("utf-8", "surrogateescape")
        self._path = folder / f"threads-{sha256(key).hexdigest()[:16]}" if folder else None

    def one_thread(self) -> bool | None:
        """Tell whether one thread is the choice; None: not known for sure."""
        choice, loads = self._read()
        return choice == "one" if loads >= ALIKE else None

    def keep(self, *, one: bool) -> None:
        """Note what a load has measured to be faster."""
        if self._path is None:
            return
        choice, loads = self._read()
        measured = "one" if one else "several"
        with suppress(OSError):  # the engine warns of the same folder
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(f"{measured} {loads + 1 if choice == measured else 1}")

    def _read(self) -> tuple[str, int]:
        try:
            choice, _, loads = self._path.read_text().partition(" ") if self._path else ("", "", "")
            return choice, int(loads)
        except (OSError, ValueError):  # none yet, or half written as a process ended
            return "", 0
