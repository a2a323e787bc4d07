"""The served models as a caller with access to only some of them sees them."""

from collections.abc import Iterator, Mapping

from ie_serving.core.values.access import Caller
from ie_serving.models.served import Served, ServedModels


class AllowedEntries(Mapping[str, Served]):
    """The entries of the models open to a caller; looking up any other model raises Forbidden."""

    def __init__(self, every: ServedModels, caller: Caller) -> None:
        self._every = every
        self._caller = caller

    def __getitem__(self, name: str) -> Served:
        self._caller.check_model(name)
        return self._every.entries[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._every.entries if self._caller.may_ask(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class AllowedModels(ServedModels):
    """Answers as `ServedModels`, and raises Forbidden for models the caller has no access to.

    Every kind of request, in every protocol, looks its model up here. The check is in the entries,
    so that no method of this class and no layer in front of it can go round the check.

    Args of the constructor:
        every: all served models.
        caller: has access to some of them.
    """

    def __init__(self, every: ServedModels, caller: Caller) -> None:
        self._allowed = AllowedEntries(every, caller)
        self.gone = every.gone

    @property
    def entries(self) -> Mapping[str, Served]:  # type: ignore[override]
        """Give the entries of the present configuration, see `ServedModels`."""
        return self._allowed
