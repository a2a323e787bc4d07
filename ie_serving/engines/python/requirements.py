"""What a `requirements.txt` beside users' code names and the server lacks; nothing is installed.

Such a file is mostly that of the training, so it refuses no code that imports. It explains an
import that fails, and is a warning otherwise.
"""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

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
