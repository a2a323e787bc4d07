"""What is composed once for a version and signature, instead of once a request."""

from collections.abc import Callable
from typing import Generic, TypeVar

from ie_serving.models.handle import Servable

B = TypeVar("B")


class Bindings(Generic[B]):
    """One `B` for each servable and signature name, as long as the servable lives."""

    def __init__(self, bind: Callable[[Servable, str], B]) -> None:
        self._bind = bind

    def of(self, servable: Servable, signature: str) -> B:
        """Give what `bind` made of the two, making it the first time.

        Raises:
            ServingError: whatever `bind` raises; it is asked again the next time.
        """
        bound: B | None = servable.bound.get((self, signature))
        if bound is None:
            bound = servable.bound[self, signature] = self._bind(servable, signature)
        return bound
