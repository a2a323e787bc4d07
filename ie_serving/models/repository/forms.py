"""Explains files that are no version of a model: another form, a folder too deep, none at all.

Pure: from the names of files to a text with what was found, and the one command or step that makes
a version of it.
"""

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import PurePosixPath

from ie_serving.storage.forms import SUFFIXES, another_form, command

Missing = Callable[[Collection[str]], str | None]
"""Names what a version's files lack; None where they are complete. See `engines.base.Engine`."""

MOST = 1000
"""Files that are looked at: a model has fewer, and a wrong base path may have a million."""
SHOWN = 3
"""Names in a text."""


def incomplete(lacks: str, files: Collection[str], place: str, missing: Missing) -> str:
    """Explain a version without a model; `lacks` itself where nothing more is known.

    Args:
        lacks: names the missing files.
        files: of the version.
        place: its directory.
        missing: of the engine.
    """
    if not files:
        return f"the directory is empty, {lacks}"
    for folder, inner in _by_folder(files).items():
        if missing(inner) is None:
            move = f"mv {shlex.quote(f'{place}/{folder}')}/* {shlex.quote(place)}/"
            how = command(move, place)
            return f"found a model in {folder}/, one folder too deep: {how}"
    return another_form(files, place, place) or f"found {_shown(files)}, {lacks}"


def without_version(
    folders: Collection[str], files: Collection[str], place: str, missing: Missing
) -> str:
    """Explain a base path without a directory that is named by a number.

    Args:
        folders: names of its directories.
        files: paths of files below it, `MOST` at most.
        place: path or URL of the base.
        missing: of the engine.
    """
    first, direct = f"{place}/1", [name for name in files if "/" not in name]
    if is_model(files, missing):
        move = f"mkdir {shlex.quote(first)} && mv {_shown(direct, ' ')} {shlex.quote(first)}"
        return f"found a model, but not in a directory named by a number: cd {place} && {move}"
    for folder, inner in _by_folder(files).items():
        whole = f"{place}/{folder}"
        if any(name.partition("/")[0].isdecimal() for name in inner if "/" in name):
            return f"found versions in {folder}/, one folder too deep: use the base path {whole}"
        if missing(inner) is None:
            move = f"mv {shlex.quote(whole)} {shlex.quote(first)}"
            return f"found a model in {folder}/, whose name is not a number: {move}"
    if form := another_form(direct, place, first):
        return form
    found = _shown([*(f"{name}/" for name in folders), *direct])
    return (
        f"{place} has no directory that is named by a number, such as 1:"
        f" {f'found {found}' if found else 'it is empty'}: copy the files of the model into {first}"
    )


def is_model(files: Collection[str], missing: Missing) -> bool:
    """Tell whether files of a base path are one model's, without a version's directory."""
    # Texts and JSON are models of some engines, and notes and settings everywhere else.
    names = {PurePosixPath(name).suffix for name in files if "/" not in name}
    return bool(names & (SUFFIXES - {".txt", ".json"})) and missing(files) is None


def _by_folder(files: Iterable[str]) -> Mapping[str, Collection[str]]:
    """Group files by their first directory, without it; in the order of the directories."""
    found: dict[str, list[str]] = {}
    for name in sorted(files):
        folder, slash, rest = name.partition("/")
        if slash:
            found.setdefault(folder, []).append(rest)
    return found


def _shown(names: Collection[str], between: str = ", ") -> str:
    found = sorted(names)
    return between.join(found[:SHOWN]) + (f"{between}..." if len(found) > SHOWN else "")
