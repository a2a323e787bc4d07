"""Sets a model's version labels for a client, and gives model details that a status lacks.

The rule is TensorFlow Serving's: a label names a version that is AVAILABLE, unless the server
allows more. A label stays until the configuration changes it: the last change wins.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ie_serving.core.values.errors import InvalidRequest, NotFound, UnknownLabel, advised
from ie_serving.core.values.hints import nearest
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.manager import Edit, ModelManager
from ie_serving.models.served_models import ServedModel
from ie_serving.models.version.handle import Servable

MOST_LABELS = 1_000
"""Labels of a model that clients may set; more are refused. A hundred times the usual number, and
with the longest names a quarter of a megabyte."""


@dataclass(frozen=True)
class ModelDetails:
    """Facts about a model that its status does not contain.

    Attributes:
        default_version: answers requests that name neither version nor label, or most of them where
            traffic is split; None while none does.
        labels: labels that requests may use, each with its version.
        waiting: labels that wait until their version is AVAILABLE.
        memory: bytes that the load of each AVAILABLE version has added, where that is known.
        precisions: precision in which each signature of an AVAILABLE version computes floats, where
            that is known: `f32`, `bf16` or `f16`.
        not_applied: reason why newer settings cannot be used; empty where there are none.
        trouble: reason why no version can be found in its storage now; empty where one can.
    """

    default_version: int | None
    labels: Mapping[str, int]
    waiting: Mapping[str, int]
    memory: Mapping[int, int]
    precisions: Mapping[int, Mapping[str, str]]
    not_applied: str = ""
    trouble: str = ""


class LabelChanges:
    """Lives on one event loop.

    Args of the constructor:
        models: the served models.
        relabel: changes labels by an edit; see `ModelManager.relabel`.
    """

    def __init__(self, models: ModelManager, relabel: Callable[[Edit], Awaitable[None]]) -> None:
        self._models = models
        self._relabel = relabel

    def details(self, name: str) -> ModelDetails:
        """Give the details of one model. Raises: NotFound."""
        return _details(self._models.served.entry(name))

    def all_details(self) -> Mapping[str, ModelDetails]:
        """Give the details of every model, by its name."""
        served = self._models.served
        return {name: _details(served.entries[name]) for name in served.names()}

    async def change(self, name: str, changes: Mapping[str, int | None]) -> None:
        """Set or move the labels that are named; None removes one. The others stay.

        Raises:
            NotFound: no such model.
            UnknownLabel: a label to remove does not exist.
            PreconditionFailed: a version is not AVAILABLE. In each case nothing has changed.
        """
        self._models.served.entry(name)
        await self._relabel(_edit(name, changes))


def _details(served: ServedModel) -> ModelDetails:
    stream = served.stream
    wanted = served.config.version_labels
    return ModelDetails(
        default_version=stream.unnamed_version,
        labels=dict(stream.labels),
        waiting={label: v for label, v in wanted.items() if stream.labels.get(label) != v},
        memory={v: each.memory for v, each in stream.available.items() if each.memory is not None},
        precisions={v: _precisions(each) for v, each in stream.available.items()},
        not_applied=served.unapplied,
        trouble=stream.lacking,
    )


def _precisions(servable: Servable) -> dict[str, str]:
    signatures = servable.compiled.signatures
    return {name: each.precision for name, each in signatures.items() if each.precision}


def _edit(
    name: str, changes: Mapping[str, int | None]
) -> Callable[[Sequence[ModelConfig]], Sequence[ModelConfig]]:
    def edit(configs: Sequence[ModelConfig]) -> Sequence[ModelConfig]:
        if all(config.name != name for config in configs):  # removed while this waited its turn
            raise NotFound(
                advised(f"Could not find any versions of model {name}", ": it has been removed")
            )
        return [_relabelled(each, changes) if each.name == name else each for each in configs]

    return edit


def _relabelled(config: ModelConfig, changes: Mapping[str, int | None]) -> ModelConfig:
    before = config.version_labels
    for label, version in changes.items():
        if version is None and label not in before:
            raise UnknownLabel(
                advised(
                    f"Unrecognized servable version label: {label}",
                    f": model {config.name} has no such label to remove{nearest(label, before)}",
                )
            )
    after = {**before, **changes}
    labels = {label: version for label, version in after.items() if version is not None}
    if len(labels) > max(MOST_LABELS, len(before)):
        raise InvalidRequest(
            f"model {config.name} would have {len(labels)} labels; expected {MOST_LABELS} at most:"
            " remove some with null"
        )
    found = before if config.repository and config.labels_found is None else config.labels_found
    return replace(config, version_labels=labels, labels_found=found)
