"""Reads the configuration file: JSON, YAML, or TensorFlow Serving's text.

The watcher calls `load` again when the file changes; `load` raises, and nothing changes, while the
file is broken.
"""

import logging
import os
import re
from pathlib import Path

from ie_serving.config.files.json_file import ConfigFile, config_file, parse_config_file
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.base import EngineOptions
from ie_serving.storage.options import StorageOptions
from ie_serving.storage.remote_file import RemoteFile
from ie_serving.storage.stores import location_of
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

YAML_SUFFIXES = (".yaml", ".yml")
"""Suffixes of YAML files, whose content alone could also be a text proto."""
_TEXT_PROTO = re.compile(r"(?:\s|#[^\n]*\n)*\w+\s*(?P<colon>:?)\s*[{<]")
"""The begin of a text proto; with the colon also that of a mapping in YAML."""

ConfigPath = Path | RemoteFile
"""A configuration file: on disk, or in a store of models."""


def at(given: str, storage: StorageOptions) -> ConfigPath:
    """Find the file that a path or a URL names; nothing is read. Raises: ConfigError."""
    found = location_of(given, storage)
    return Path(found) if isinstance(found, str) else RemoteFile(*found)


def load(path: ConfigPath, engine: EngineOptions | None = None) -> ConfigFile:
    """Read a changed configuration file, and log its warnings. Blocking.

    Args:
        path: the file.
        engine: `Settings.engine`, the defaults of entries.

    Raises:
        ConfigError: every fault with its place; also when the file cannot be read, or is empty.
    """
    text = read_text(path)
    _check_filled(path, text)
    found = parse(text, path, engine)
    for warning in found.warnings:
        log.warning(Event("configuration warning", path=path, warning=warning))
    return found


def _check_filled(path: ConfigPath, text: str) -> None:
    """Refuse an empty file: in text form it is no syntax error, and would unload every model.

    Writing a file in place empties it first. The original also takes no action on an empty file.
    """
    if not text.strip():
        raise ConfigError(
            [
                f"{path}: is empty, which is taken for a file that is being written; to remove all"
                " models write model_config_list {}"
            ]
        )


def _check_lasting(path: ConfigPath) -> None:
    """Refuse a pipe: a second reading finds nothing, and would unload all models."""
    if isinstance(path, RemoteFile):
        return
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ConfigError(
            [
                f"{path}: is a pipe or a device, and the configuration is read again while the"
                " server runs: write it to a file"
            ]
        )


def read(path: ConfigPath, engine: EngineOptions | None = None) -> ConfigFile:
    """Read the whole content of a configuration file. Blocking. Arguments and errors as `load`."""
    _check_lasting(path)
    return parse(read_text(path), path, engine)


def parse(text: str, path: ConfigPath, engine: EngineOptions | None = None) -> ConfigFile:
    """Read `text`, the content of the file `path`. Arguments and errors as `load`."""
    if isinstance(path, Path):
        origin, below = path.absolute().parent, ""
    else:  # other files that it names are on this machine
        origin, below = Path.cwd(), path.directory
    suffix, begin = path.suffix.lower(), _TEXT_PROTO.match(text)
    if suffix in YAML_SUFFIXES and (begin is None or begin["colon"]):
        # Imported here, as the next: a server configured by JSON starts without it.
        from ie_serving.config.files.yaml_text import yaml_text

        top = yaml_text(text, str(path))
        return config_file(top, origin=origin, place=str(path), engine=engine, below=below)
    # The content decides first: either kind has both suffixes. No text proto begins with a brace.
    if text.lstrip().startswith(("{", "[")) or (suffix == ".json" and begin is None):
        return parse_config_file(text, origin=origin, place=str(path), engine=engine, below=below)
    from ie_serving.config.files.text_proto import parse_model_server_config

    return ConfigFile(models=parse_model_server_config(text, str(path), engine))


def read_text(path: ConfigPath) -> str:
    """Read a whole file as UTF-8, with or without a byte order mark.

    Raises:
        ConfigError: naming the file and the reason.
    """
    try:
        if isinstance(path, RemoteFile):
            return path.read_bytes().decode("utf-8-sig")
        with open(path, encoding="utf-8-sig", opener=_opened) as file:
            return file.read()
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror or error}"]) from error
    except ValueError as error:
        raise ConfigError([f"{path}: not UTF-8 text: {error}"]) from error


def _opened(path: str, flags: int) -> int:
    """Open a pipe without waiting for a writer, which may never come.

    A waiting thread would no longer look at renewed keys or certificates. Without a writer the pipe
    is empty, which is a fault of each file that is read here.
    """
    number = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(number, True)
    return number
