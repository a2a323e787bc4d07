"""Routes of one REST front end, put before those of others; the front end is made on first use."""

from collections.abc import Callable, Collection, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from ie_serving.server.transport.http1.messages import AnyReply, App, Request, RequestHead

RouteT = TypeVar("RouteT")
Found_contra = TypeVar("Found_contra", contravariant=True)
Verb = tuple[str, str]
"""A verb of `gate/rights.py`, and the model that a request names, or an empty string."""
VerbOf = Callable[[RequestHead], Verb]
"""Classifies a request for the gate. Raises: NotFound."""


class Front(Protocol[Found_contra]):
    """A front end that answers the requests matching its routes."""

    def answer(self, request: Request, found: Found_contra) -> Coroutine[Any, Any, AnyReply]:
        """Answer one request, which `Routes` has parsed into `found`."""


class Routes(Generic[RouteT]):
    """The routes of one front end. The first request that matches one imports and makes it.

    Args of the constructor:
        asked: parses a request for the front end; None if it matches none of its routes.
        verb: classifies a parsed request for the gate.
        make: imports and makes the front end.
        taken: paths of this front end that another front end serves.
    """

    def __init__(
        self,
        asked: Callable[[RequestHead], RouteT | None],
        verb: Callable[[RouteT], Verb],
        make: Callable[[], Front[RouteT]],
        taken: Collection[str] = (),
    ) -> None:
        self._asked = asked
        self._verb = verb
        self._make = make
        self._taken = frozenset(path.encode() for path in taken)
        self._front: Front[RouteT] | None = None

    def before(self, otherwise: App) -> App:
        """Put these routes before `otherwise`, which answers all other requests."""

        def answer(request: Request) -> Coroutine[Any, Any, AnyReply]:
            found = self._match(request.head)
            if found is None:
                return otherwise(request)
            if self._front is None:
                self._front = self._make()
            return self._front.answer(request, found)

        return answer

    def wanted(self, of_others: VerbOf) -> VerbOf:
        """Extend the classification for the gate: these routes first, then `of_others`."""

        def wanted(head: RequestHead) -> Verb:
            found = self._match(head)
            return of_others(head) if found is None else self._verb(found)

        return wanted

    def _match(self, head: RequestHead) -> RouteT | None:
        return None if head.path in self._taken else self._asked(head)
