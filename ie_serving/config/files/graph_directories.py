"""Finds models whose directory holds a graph of MediaPipe, which OpenVINO Model Server then serves.

Such an entry of `model_config_list` becomes one of `mediapipe_config_list`. Of a repository
elsewhere than in the file system nothing is read here. Source: "Starting OpenVINO Model Server with
Mediapipe servables" of that server's documentation.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ie_serving.core.settings.words import resolved

FILE: Final = "graph.pbtxt"
MODELS: Final = "model_config_list"
GRAPHS: Final = "mediapipe_config_list"
REPOSITORIES: Final = "model_repository_list"
PATH: Final = "graph_path"
KEYS: Final = ("name", "base_path", PATH, "subconfig", "params")
"""Keys of a graph's entry."""

_NODE: Final = re.compile(rb"^\s*calculator\s*:", re.MULTILINE)
"""TensorFlow writes files of the same name, which have no such line."""
_MOST: Final = 1 << 20
"""Bytes of the file that are searched for it."""


def directory_of(base_path: str) -> Path | None:
    """Find the directory of a model's graph: its own, or that of its highest version.

    Returns:
        None where it has none.
    """
    base = Path(base_path)
    if "://" in base_path or not base.is_dir():
        return None
    with suppress(OSError):
        numbers = sorted((int(each) for each in os.listdir(base) if each.isdecimal()), reverse=True)
        paths = (base, *(base / str(number) for number in numbers[:1]))
        return next((path for path in paths if _is_graph(path / FILE)), None)
    return None


def _is_graph(file: Path) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return _NODE.search(opened.read(_MOST)) is not None


def alone(name: str, base_path: str) -> Mapping[str, Any] | None:
    """Give the configuration file of a graph alone; None where the path is that of a model."""
    directory = directory_of(base_path)
    if directory is None:
        return None
    return {MODELS: [], GRAPHS: [{"name": name, "base_path": str(directory)}]}


def moved(top: Mapping[str, Any], origin: Path) -> tuple[Mapping[str, Any], list[str]]:
    """Move graphs among the models of a file to the graphs; faults are reported elsewhere.

    Args:
        top: the file.
        origin: its directory, where paths begin.

    Returns:
        The file, and warnings of keys that a graph does not have.
    """
    models, graphs, warnings = [], [], []
    listed, others = top.get(MODELS), top.get(GRAPHS, [])
    for item in listed if isinstance(listed, list) and isinstance(others, list) else ():
        given = item.get("config") if isinstance(item, Mapping) else None
        config: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        graph = _graph(config, origin)
        if graph is None:
            models.append(item)
            continue
        graphs.append(graph)
        if rest := [key for key in config if key not in KEYS]:
            warnings.append(f'"{graph.get("name")}" is a graph: it has no {", ".join(rest)}')
    if not graphs:
        return top, []
    return {**top, MODELS: models, GRAPHS: [*others, *graphs]}, warnings


def _graph(config: Mapping[str, Any], origin: Path) -> dict[str, Any] | None:
    found = {key: config[key] for key in KEYS if key in config}
    if config.get(PATH):
        return found
    base = config.get("base_path")
    directory = directory_of(resolved(base, origin)) if isinstance(base, str) and base else None
    return {**found, "base_path": str(directory)} if directory else None
