"""The models of a caller who may ask for some only."""

from collections.abc import Mapping

from ie_serving.core.access import Caller
from ie_serving.core.requests import ModelSpec
from ie_serving.core.versions import VersionStatus
from ie_serving.models.served import Served, ServedModels
from ie_serving.models.version.handle import Servable


class AllowedModels(ServedModels):
    """Answers as `ServedModels`, and raises Forbidden for the models of others.

    Every request finds its model here, whatever it asks and however its message is written.

    Args of the constructor:
        every: what is served.
        caller: may ask for some of it.
    """

    def __init__(self, every: ServedModels, caller: Caller) -> None:
        self._every = every
        self._caller = caller

    @property
    def entries(self) -> Mapping[str, Served]:  # type: ignore[override]
        """See `ServedModels`: what is configured now."""
        return self._every.entries

    def handle(self, spec: ModelSpec) -> Servable:
        """See `ServedModels`."""
        self._caller.check_model(spec.name)
        return super().handle(spec)

    def statuses(self, name: str, version: int | None = None) -> list[VersionStatus]:
        """See `ServedModels`."""
        self._caller.check_model(name)
        return super().statuses(name, version)

    def entry(self, name: str) -> Served:
        """See `ServedModels`."""
        self._caller.check_model(name)
        return super().entry(name)

    def resolve_label(self, name: str, label: str) -> int:
        """See `ServedModels`."""
        self._caller.check_model(name)
        return super().resolve_label(name, label)

    def names(self) -> list[str]:
        """See `ServedModels`: those that the caller may know."""
        return [name for name in super().names() if self._caller.may_ask(name)]
