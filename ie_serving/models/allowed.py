"""The models of a caller who may ask for some only."""

from collections.abc import Iterator, Mapping

from ie_serving.core.values.access import Caller
from ie_serving.models.served import Served, ServedModels


class AllowedEntries(Mapping[str, Served]):
    """The entries of the models that a caller may ask for; to look another up raises Forbidden."""

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
    """Answers as `ServedModels`, and raises Forbidden for the models of others.

    Every request finds its model here, whatever it asks and however its message is written. The
    check is in the entries, so that no method, and nothing that stands before this, goes round it.

    Args of the constructor:
        every: what is served.
        caller: may ask for some of it.
    """

    def __init__(self, every: ServedModels, caller: Caller) -> None:
        self._allowed = AllowedEntries(every, caller)

    @property
    def entries(self) -> Mapping[str, Served]:  # type: ignore[override]
        """See `ServedModels`: what is configured now."""
        return self._allowed
