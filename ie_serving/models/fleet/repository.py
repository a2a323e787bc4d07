"""A repository of models: which of its directories are models, and their configurations.

Each directory below one URL is a model, named by its directory.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from ie_serving.core.settings.words import name as name_of
from ie_serving.core.values.errors import ConfigError, StorageError
from ie_serving.models.configuration import ModelConfig, labelled
from ie_serving.models.repository.source import VERSION
from ie_serving.storage.directories import Directories, Listed

PBTXT: Final = "config.pbtxt"
"""Name of the file of a Triton model's settings."""
FILES: Final = ("model.json", PBTXT)
"""Files of a model's settings in its directory; the first that is there counts."""


@dataclass(frozen=True, kw_only=True)
class ModelRepository:
    """One entry of `model_repository_list`.

    Attributes:
        base_path: path or URL whose directories are models.
        include: shell globs; a directory whose name fits one of them is a model.
        exclude: shell globs of those that are none.
    """

    base_path: str
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()

    def takes(self, name: str) -> bool:
        """Tell whether a directory of that name is a model. Hidden ones are none."""
        if name.startswith("."):
            return False
        fits = any(fnmatchcase(name, each) for each in self.include)
        return fits and not any(fnmatchcase(name, each) for each in self.exclude)

    def path_of(self, name: str) -> str:
        """Give the base path of a model."""
        return f"{self.base_path.rstrip('/')}/{name}"

    def chosen(self, directories: Directories) -> Listed:
        """List the directories that are models. Blocking. Raises: StorageError."""
        listed = directories.list()
        found = {name: file for name, file in listed.items() if self.takes(name)}
        if found and all(VERSION.fullmatch(name) for name in found):
            raise StorageError(
                f"{directories.url}: has versions ({', '.join(sorted(found)[:3])}), expected"
                " directories of models: it is the directory of one model; name the one above it"
            )
        return found


class Shelf(NamedTuple):
    """A repository as it was listed last.

    Attributes:
        repository: its patterns.
        directories: read the files of settings.
        listed: the directories that are models, each with its file of settings.
    """

    repository: ModelRepository
    directories: Directories
    listed: Listed


def together(
    configured: Iterable[ModelConfig], found: Iterable[ModelConfig]
) -> tuple[list[ModelConfig], list[str]]:
    """Join configured models with those that repositories have.

    A configured model takes precedence over a directory of its name; of two directories the one of
    the repository that is listed first. A directory whose name no model can have is no model.

    Returns:
        All models, and a sentence for each directory that is left out for its name.
    """
    models = {config.name: config for config in configured}
    left_out = []
    for config in found:
        try:
            name_of(config.name, config.base_path)
        except ConfigError as error:
            left_out.append(f"{error}: rename the directory, or exclude it")
            continue
        other = models.setdefault(config.name, config)
        # The directory of a configured model may lie in the repository: there is no conflict.
        if other.base_path.rstrip("/") != config.base_path.rstrip("/"):
            left_out.append(
                f'{config.base_path}: not served, since "{config.name}" is the name of the model at'
                f" {other.base_path}: rename the directory, or exclude it"
            )
    return [*models.values()], left_out


def changed(
    desired: Sequence[ModelConfig],
    found: Iterable[ModelConfig],
    *,
    unlisted: Collection[ModelRepository] = (),
    only_known: bool = False,
) -> Sequence[ModelConfig]:
    """Give the desired models after the repositories have changed.

    Args:
        desired: the models until now.
        found: the models of the repositories.
        unlisted: repositories that could not be listed, as for `staying`.
        only_known: take no model that was not desired before: clients decide what is loaded.
    """
    configured = [config for config in desired if not config.repository]
    models, _ = together(configured, [*labelled(found, desired), *staying(desired, unlisted)])
    if not only_known:
        return models
    known = {config.name for config in desired}
    return [config for config in models if config.name in known]


def staying(
    desired: Iterable[ModelConfig], unlisted: Collection[ModelRepository]
) -> list[ModelConfig]:
    """Give the desired models of repositories that cannot be listed, as far as these take them."""
    return [
        config
        for config in desired
        for each in unlisted
        if each.base_path == config.repository and each.takes(config.name)
    ]


def differ(one: Sequence[ModelConfig], other: Sequence[ModelConfig]) -> bool:
    """Tell whether models differ, whatever their order."""
    if len(one) != len(other):
        return True
    by_name: Mapping[str, ModelConfig] = {config.name: config for config in one}
    return any(by_name.get(config.name) != config for config in other)
