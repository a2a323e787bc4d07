"""Remembers, beside a version's compiled models, whether one thread or several are its choice.

The choice takes up to three compiles and as many measurements, most of the time of a small model's
load. A model on demand is loaded again and again, and other work may disturb a measurement: so a
choice counts once two loads in a row have made it. It is the name of a file, which is new each time
and so never looks damaged to `engines.kept`.
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
        folder: of the version's compiled models.
        parts: all that the measurements depend on, and what tells the version's graphs apart.
    """

    def __init__(self, folder: Path, *parts: object) -> None:
        key = repr((threads(), *parts)).encode("utf-8", "surrogateescape")
        self._folder = folder
        self._name = f"threads-{sha256(key).hexdigest()[:16]}"

    def one_thread(self) -> bool | None:
        """Tell whether one thread is the choice; None: not known for sure."""
        choice, loads = self._read()
        return choice == "one" if loads >= ALIKE else None

    def keep(self, *, one: bool) -> None:
        """Note what a load has measured to be faster."""
        before = self._files()
        choice, loads = self._read()
        measured = "one" if one else "several"
        number = loads + 1 if choice == measured else 1
        with suppress(OSError):  # the engine warns of the same folder
            self._folder.mkdir(parents=True, exist_ok=True)
            new = self._folder / f"{self._name}-{measured}-{number}"
            new.write_text(measured)
            for file in before:
                if file != new:
                    file.unlink(missing_ok=True)

    def _read(self) -> tuple[str, int]:
        """Give the choice and its loads in a row; of two that workers left at once, the lesser."""
        named = (file.name.split("-")[-2:] for file in self._files())
        return min(((choice, int(loads)) for choice, loads in named), key=_loads, default=("", 0))

    def _files(self) -> list[Path]:
        # Few names, looked for one by one: a pattern would be compiled anew for each model.
        names = (f"{c}-{n}" for c in ("one", "several") for n in range(1, ALIKE + 1))
        files = (self._folder / f"{self._name}-{name}" for name in names)
        return [file for file in files if file.exists()]


def _loads(found: tuple[str, int]) -> int:
    return found[1]
