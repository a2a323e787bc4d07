"""Is what a kernel's `requirements.txt` asks for installed? Nothing is installed here."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from ie_serving.core.values.errors import LoadFailed

NAME = "requirements.txt"


def check(directory: Path) -> None:
    """Compare the file, if there is one, with what is installed.

    Raises:
        LoadFailed: naming what is missing, or has another version.
    """
    file = directory / NAME
    if not file.is_file():
        return
    # pip-compile ends a line with a backslash where hashes follow on the next.
    text = file.read_text("utf-8")
    lines = (line.partition(" #")[0].strip(" \t\\") for line in text.splitlines())
    lacking = [_lacking(line) for line in lines if line and not line.startswith(("#", "-"))]
    found = ", ".join(each for each in lacking if each)
    if found:
        raise LoadFailed(
            f"{NAME} asks for {found}; nothing is installed by the server: install it with pip in"
            " the server's environment and start the server again"
        )


def _lacking(line: str) -> str:
    try:
        asked = Requirement(line)
    except InvalidRequirement as error:
        raise LoadFailed(f"{NAME}: {line!r} is no requirement: {error}") from error
    if asked.marker is not None and not asked.marker.evaluate():
        return ""
    try:
        has = version(asked.name)
    except PackageNotFoundError:
        return f"{line} (not installed)"
    # Whoever installed a pre-release has chosen it.
    return "" if asked.specifier.contains(has, prereleases=True) else f"{line} ({has} is installed)"
