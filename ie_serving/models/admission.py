"""Refuses invalid configuration changes before any model of the change is loaded."""

from collections.abc import Iterable, Mapping

from ie_serving.core.values.errors import InvalidRequest, advised
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.served import Served
from ie_serving.models.traffic.labels import check_labels


def check_platforms(configs: Iterable[ModelConfig], present: Mapping[str, Served]) -> None:
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
    configs: Iterable[ModelConfig], present: Mapping[str, Served], *, unavailable_allowed: bool
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
            served.stream.answerable if served else (),
            unavailable_allowed=unavailable_allowed,
        )
