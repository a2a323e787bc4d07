"""Makes models of the directories in repositories, with the settings that lie in them.

A model's settings are the keys of one model of the configuration file, in `model.json` of its
directory; or Triton's `config.pbtxt` there. What cannot be used is the fault of that model alone.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ie_serving.config.files.graph_directories import MODELS, REPOSITORIES
from ie_serving.config.files.json_file import ConfigFile, config_file, without_comments
from ie_serving.config.schema.contradictions import refusal
from ie_serving.config.settings import Settings
from ie_serving.core.settings.faults import fault
from ie_serving.core.settings.structures import json_text
from ie_serving.core.values.errors import ConfigError, StorageError
from ie_serving.engines.base import EngineOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.fleet.repository import PBTXT, Shelf, together
from ie_serving.storage.base import Entry
from ie_serving.storage.directories import Directories
from ie_serving.telemetry.log.logs import Event

if TYPE_CHECKING:
    from ie_serving.config.files.triton_models import ImportedModels

log = logging.getLogger(__name__)

GRAPHS = "graphs"
"""Key of graphs in a configuration file (`graphs.py`, whose import few need)."""


class FleetModels:
    """The models of repositories, their settings read once. Used by one thread at a time.

    Args of the constructor:
        engine: options that hold where a model's settings say nothing.
        refuse: says why the server cannot serve a model, empty if it can.

    Attributes:
        is_whole: whether the last call could read every file.
        without_effect: sentences for words in these files that are not known, each read since.
    """

    def __init__(self, engine: EngineOptions, refuse: Callable[[ModelConfig], str]) -> None:
        self._engine = engine
        self._refuse = refuse
        self._read: dict[tuple[str, Entry | None], ModelConfig] = {}
        self.is_whole = True
        self.without_effect: list[str] = []

    def of(self, shelves: Sequence[Shelf]) -> list[ModelConfig]:
        """Give the models, those whose settings cannot be used with the fault. Blocking."""
        before, self._read, self.is_whole = self._read, {}, True
        return [
            self._one(shelf, name, file, before)
            for shelf in shelves
            for name, file in sorted(shelf.listed.items())
        ]

    def _one(
        self,
        shelf: Shelf,
        name: str,
        file: Entry | None,
        before: Mapping[tuple[str, Entry | None], ModelConfig],
    ) -> ModelConfig:
        path = shelf.repository.path_of(name)
        known = before.get((path, file))
        if known is None:
            try:
                known = self._model_of(shelf, name, path, file)
            except (ConfigError, StorageError) as error:
                known = self._at_fault(shelf, name, str(error))
                if isinstance(error, StorageError):
                    self.is_whole = False
                    return known
        self._read[path, file] = known
        return known

    def _model_of(self, shelf: Shelf, name: str, path: str, file: Entry | None) -> ModelConfig:
        place = f"{path}/{file.path.rpartition('/')[2]}" if file else path
        keys, graph, read = self._keys(shelf, name, place, file)
        origin = Path.cwd() if "://" in path else Path(path).absolute()
        given = {**keys, "name": name, "base_path": path}
        # With a list of repositories: a graph may use the models of other directories.
        top: dict[str, Any] = {MODELS: [], GRAPHS: [graph], REPOSITORIES: []}
        if graph is None:
            top = {MODELS: [{"config": given}]}
        found = _read_alone(place, top, origin, self._engine)
        for warning in (*(read.notes if read else ()), *found.warnings):
            log.warning(Event("configuration warning", path=place, warning=warning))
        unknown = (*(read.unknown if read else ()), *map(_own_place, found.warnings))
        self.without_effect += [f"{place}: {each}" for each in unknown]
        above = shelf.repository.base_path
        declared = read.declared if read and graph is None else None
        model = replace(found.models[-1], repository=above, declared=declared)
        if reason := self._refuse(model):
            raise ConfigError([reason])
        return model

    def _keys(
        self, shelf: Shelf, name: str, place: str, file: Entry | None
    ) -> tuple[Mapping[str, Any], Mapping[str, Any] | None, "ImportedModels | None"]:
        """Give the keys of a model, or those of a graph instead, and what Triton's file says."""
        if file is None:
            return {}, None, None
        try:
            content = shelf.directories.read(file).decode("utf-8-sig")
        except ValueError as error:
            raise ConfigError([f"{place}: not UTF-8 text: {error}"]) from error
        if place.endswith(PBTXT):
            # The server of models without this file needs none of the protocol's modules.
            from ie_serving.config.files.triton_models import translated_text

            read = translated_text(content, place, name)
            if read.graphs:
                return {}, read.graphs[0], read
            return read.models[0]["config"], None, read
        keys = json_text(without_comments(content), place)
        if not isinstance(keys, Mapping):
            raise fault(place, keys, 'an object with keys of a model, such as {"nireq": 4}')
        if keys.get("name", name) != name:
            raise fault(f"{place}: name", keys["name"], f'"{name}", as its directory, or none')
        if "base_path" in keys:
            raise ConfigError([f"{place}: base_path given; it is the directory itself: remove it"])
        return keys, None, None

    def _at_fault(self, shelf: Shelf, name: str, reason: str) -> ModelConfig:
        base_path, above = shelf.repository.path_of(name), shelf.repository.base_path
        return ModelConfig(
            name=name, base_path=base_path, engine=self._engine, repository=above, fault=reason
        )


def listed_once(
    settings: Settings, opened: Callable[[str], Directories]
) -> tuple[tuple[ModelConfig, ...], list[str], list[str]]:
    """List directories of models without a server. Blocking.

    Args:
        settings: name them, and the models that are configured.
        opened: gives what lists a directory.

    Returns:
        All models; what `together` leaves out, or trouble of a directory; and unknown words in
        files of settings.
    """
    shelves, trouble = [], []
    for repository in dict.fromkeys((*settings.repositories, *settings.in_file)):
        try:
            directories = opened(repository.base_path)
            directories.expect()
            found = repository.chosen(directories)
        except StorageError as error:
            trouble.append(str(error))
            continue
        shelves.append(Shelf(repository, directories, found))
        if not found:
            why = "no model: no directory has a name that include and exclude take"
            trouble.append(f"{directories.url}: {why}")
    read = FleetModels(settings.engine, partial(refusal, settings.server))
    models, left_out = together(settings.models, read.of(shelves))
    return tuple(models), [*trouble, *left_out], read.without_effect


def _read_alone(
    place: str, top: Mapping[str, Any], origin: Path, engine: EngineOptions
) -> ConfigFile:
    """Read one model as if it stood in a configuration file; places are those of its own file."""
    try:
        return config_file(top, origin=origin, place=place, engine=engine)
    except ConfigError as error:
        raise ConfigError([f"{place}: {_own_place(each)}" for each in error.faults]) from None


def _own_place(fault_text: object) -> str:
    return str(fault_text).removeprefix(f"{MODELS}[0].config.").removeprefix(f"{GRAPHS}[0].")
