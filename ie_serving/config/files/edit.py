"""Edits of the JSON configuration file: a model more, or one less. Nothing else in it changes."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from ie_serving.config.files.json_file import parse_config_file, without_comments
from ie_serving.config.files.source import read_text
from ie_serving.config.values.structures import json_text
from ie_serving.core.errors import ConfigError

LIST = "model_config_list"
READABLE = 0o644
"""Mode of a file that is made: servers run as users of their own."""


def add(path: Path, name: str, base_path: str) -> None:
    """Add a model at the end of the file, which is made where there is none.

    Raises:
        ConfigError: a model has this name already, or the file cannot be read or is broken.
    """
    top = _read(path) if path.exists() else {LIST: []}
    if any(_name(entry) == name for entry in top[LIST]):
        raise ConfigError([f'{path}: has a model "{name}" already; remove it first'])
    top[LIST].append({"config": {"name": name, "base_path": base_path}})
    _write(path, top)


def remove(path: Path, name: str) -> None:
    """Take a model out of the file.

    Raises:
        ConfigError: no model has this name, or the file cannot be read or is broken.
    """
    top = _read(path)
    left = [entry for entry in top[LIST] if _name(entry) != name]
    if len(left) == len(top[LIST]):
        names = ", ".join(sorted(map(_name, left))) or "none"
        raise ConfigError([f'{path}: has no model "{name}"; its models: {names}'])
    _write(path, {**top, LIST: left})


def _name(entry: Any) -> str:  # noqa: ANN401 (an entry that was checked)
    return str(entry["config"]["name"])


def _read(path: Path) -> dict[str, Any]:
    text = read_text(path)
    parse_config_file(text, origin=path.parent, place=str(path))  # raises where it is broken
    if without_comments(text) != text:
        raise ConfigError([f"{path}: has comments, which would be lost; edit it by hand"])
    top: dict[str, Any] = json_text(text, str(path))
    return top


def _write(path: Path, top: dict[str, Any]) -> None:
    """Replace the file as a whole: a server that watches it never sees a half."""
    text = json.dumps(top, indent=4, ensure_ascii=False) + "\n"
    parse_config_file(text, origin=path.parent, place=str(path))
    try:
        mode = path.stat().st_mode if path.exists() else READABLE
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(text)
        os.chmod(file.name, mode)
        os.replace(file.name, path.resolve())
    except OSError as error:
        raise ConfigError([f"{path}: cannot be written: {error.strerror or error}"]) from error
