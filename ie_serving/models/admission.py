"""Judges configuration changes: refuses invalid ones, and tells which need a new load."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ie_serving.core.values.errors import InvalidRequest, advised
from ie_serving.engines.base import EngineOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.repository.version_policy import Latest
from ie_serving.models.served_models import ServedModel
from ie_serving.models.stream import ModelStream
from ie_serving.models.traffic.labels import check_labels
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)


def check_platforms(configs: Iterable[ModelConfig], present: Mapping[str, ServedModel]) -> None:
    """Refuse another platform for a model that is served. Source: ServerCore.

    Args:
        configs: the wanted models.
        present: the served models, by name.

    Raises:
        InvalidRequest: naming both platforms.
    """
    for config in configs:
        served = present.get(config.name)
        before = served.config.platform if served else ""
        if before and config.platform and before != config.platform:
            raise InvalidRequest(
                advised(
                    f"Illegal to change a model's platform. For model {config.name} platform was"
                    f" {before} and new platform requested is {config.platform}",
                    "; remove the model first",
                )
            )


def check_labels_of(
    configs: Iterable[ModelConfig], present: Mapping[str, ServedModel], *, unavailable_allowed: bool
) -> None:
    """Refuse labels that name versions which do not serve; see `check_labels`.

    Args:
        configs: the wanted models.
        present: the served models, by name.
        unavailable_allowed: lets a label that is new name any version.

    Raises:
        PreconditionFailed: naming the label's version and the model.
    """
    for config in configs:
        served = present.get(config.name)
        check_labels(
            config.name,
            config.version_labels,
            served.config.version_labels if served else {},
            served.stream.reachable_versions if served else (),
            unavailable_allowed=unavailable_allowed,
        )


def identity(config: ModelConfig) -> ModelConfig:
    """Give the part of the configuration that cannot change without a new load.

    Version policy, labels, platform, poll interval, `signature_changes`, split traffic, shadow and
    the spelling of the base path are left out: they do not change which files are read, nor how.
    """
    path = config.base_path.removeprefix("file://").rstrip("/")
    return replace(
        config,
        base_path=path,
        version_policy=Latest(),
        version_labels={},
        labels_found=None,
        platform="",
        poll_wait_s=None,
        signature_changes="",
        traffic={},
        sticky="",
        rollback=None,
        shadow=None,
        repository="",
    )


def going_on(
    config: ModelConfig, old: ServedModel | None, waiting: Mapping[str, ServedModel]
) -> ServedModel | None:
    """Give the entry that already loads for `config` to replace `old`; None where it is `old`."""
    if old is None or identity(old.config) == identity(config):
        return None
    return replace(waiting[config.name], config=config)


async def updated(
    entries: Mapping[str, ServedModel], configs: Iterable[ModelConfig]
) -> Mapping[str, ServedModel]:
    """Let models take other `params` where nothing else changes and all their versions can.

    Returns:
        The entries of those that did, with the new configuration.
    """
    found: dict[str, ServedModel] = {}
    for config in configs:
        old = entries.get(config.name)
        if old is None or not _only_params_differ(old.config, config):
            continue
        if await _takes(old.stream, config.engine):
            found[config.name] = replace(old, config=replace(old.config, engine=config.engine))
            log.info(Event("parameters updated", model=config.name))
    return found


async def _takes(stream: ModelStream, options: EngineOptions) -> bool:
    """Let all versions of a model take other parameters; False where one is being loaded."""
    if not stream.is_settled or not stream.available:
        return False
    return await stream.loader().update(options, [*stream.available.values()])


def _only_params_differ(old: ModelConfig, new: ModelConfig) -> bool:
    if old.engine.params == new.engine.params:
        return False
    engine = replace(new.engine, params=old.engine.params)
    return identity(old) == identity(replace(new, engine=engine))
