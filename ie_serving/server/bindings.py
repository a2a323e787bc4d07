"""What is composed once for a version and signature, instead of once a request."""

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from ie_serving.models.handle import Servable

B = TypeVar("B")


class Bindings(Generic[B]):
    """One `B` for each servable and signature name, as long as the servable lives."""

    def __init__(self, bind: Callable[[Servable, str], B]) -> None:
        self._bind = bind
        self._bound: WeakKeyDictionary[Servable, dict[str, B]] = WeakKeyDictionary()

    def of(self, servable: Servable, signature: str) -> B:
        """Give what `bind` made of the two, making it the first time.

        Raises:
            ServingError: whatever `bind` raises; it is asked again the next time.
        """
        by_signature = self._bound.get(servable)
        if by_signature is None:
            by_signature = self._bound[servable] = {}
        bound = by_signature.get(signature)
        if bound is None:
            bound = by_signature[signature] = self._bind(servable, signature)
        return bound
