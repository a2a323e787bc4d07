"""Reads `model_repository_list`: directories whose sub-directories are models."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ie_serving.config.files.graph_directories import REPOSITORIES
from ie_serving.core.settings.faults import Faults, fault
from ie_serving.core.settings.words import resolved, text
from ie_serving.models.fleet.repository import ModelRepository

KEYS: Final = frozenset({"base_path", "include", "exclude"})

Unknown = Callable[[Mapping[str, Any], frozenset[str], str], None]
"""Warns of keys that are not known, at a place."""


def listed_repositories(
    given: object, origin: Path | str, findings: Faults, note_unknown: Unknown
) -> Iterator[ModelRepository]:
    """Read `model_repository_list`; faults go to `findings`.

    Args:
        given: the list.
        origin: path or URL where a relative `base_path` begins.
        findings: of the file.
        note_unknown: see `Unknown`.
    """
    if not isinstance(given, list):
        findings.add(REPOSITORIES, 'expected a list such as [{"base_path": "/models"}]')
        return
    for index, entry in enumerate(given):
        place = f"{REPOSITORIES}[{index}]"
        if not isinstance(entry, Mapping):
            findings.add(place, 'expected an object such as {"base_path": "/models"}')
            continue
        note_unknown(entry, KEYS, f"{place}.")
        base_path = findings.take(text, entry.get("base_path"), f"{place}.base_path")
        patterns = {
            key: findings.take(_globs, entry[key], f"{place}.{key}") or ()
            for key in ("include", "exclude")
            if key in entry
        }
        if base_path is not None:
            yield ModelRepository(base_path=resolved(base_path, origin), **patterns)


def _globs(value: object, place: str) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not all(isinstance(each, str) and each for each in given):
        raise fault(place, value, 'shell globs, such as ["resnet-*", "bert"]')
    return tuple(given)
