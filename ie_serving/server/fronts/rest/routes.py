"""Routes of a REST front end, put before those of others: what asks for them, and what answers."""

from collections.abc import Callable, Collection, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from ie_serving.server.transport.http1.messages import Answer, App, Request, RequestHead

Found = TypeVar("Found")
Found_contra = TypeVar("Found_contra", contravariant=True)
Verb = tuple[str, str]
"""A verb of `gate/rights.py` and the model that a request names; empty where it names none."""
Wanted = Callable[[RequestHead], Verb]
"""Tells what a request asks for. Raises: NotFound."""


class Front(Protocol[Found_contra]):
    """What answers the requests of one front end."""

    def answer(self, request: Request, found: Found_contra) -> Coroutine[Any, Any, Answer]:
        """Answer one request, of which `found` is asked."""


class Routes(Generic[Found]):
    """The routes of one front end, which the first request that asks for one imports and makes.

    Args of the constructor:
        asked: tells what a request asks the front end for; None where it is for others.
        verb: tells the gate what that is.
        make: imports and makes the front end.
        taken: paths of this front end at which something else stands.
    """

    def __init__(
        self,
        asked: Callable[[RequestHead], Found | None],
        verb: Callable[[Found], Verb],
        make: Callable[[], Front[Found]],
        taken: Collection[str] = (),
    ) -> None:
        self._asked = asked
        self._verb = verb
        self._make = make
        self._taken = frozenset(path.encode() for path in taken)
        self._front: Front[Found] | None = None

    def before(self, otherwise: App) -> App:
        """Put these routes before `otherwise`, which answers all other requests."""

        def answer(request: Request) -> Coroutine[Any, Any, Answer]:
            found = self._found(request.head)
            if found is None:
                return otherwise(request)
            if self._front is None:
                self._front = self._make()
            return self._front.answer(request, found)

        return answer

    def wanted(self, of_others: Wanted) -> Wanted:
        """Tell the gate what a request of these routes asks for, else what `of_others` says."""

        def wanted(head: RequestHead) -> Verb:
            found = self._found(head)
            return of_others(head) if found is None else self._verb(found)

        return wanted

    def _found(self, head: RequestHead) -> Found | None:
        return None if head.path in self._taken else self._asked(head)
