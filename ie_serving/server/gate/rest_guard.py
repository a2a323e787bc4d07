"""Who may do what over REST: before the application, by the head of a request alone."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from ie_serving.core.values.access import Credentials, Models, Need
from ie_serving.core.values.codes import ENDED
from ie_serving.core.values.errors import NotFound, Unauthenticated
from ie_serving.server.gate.access import BEARER, Access, remember
from ie_serving.server.transport.http1.messages import Answer, App, Reply, Request, RequestHead

LONGEST_TARGET: Final = 256
"""Bytes of the longest target by which a decision is remembered. A longer one is judged at each
request: 4,096 targets of 64 KB would fill 256 MB for a caller who asks for as many."""

PAGE: Final = b"x-ie-serving-page"
"""Header by which the page at `/` says that it is who asks."""

Wanted = Callable[[RequestHead], tuple[str, str]]
"""Gives the verb of a request, a key of `rights.REST`, and the model that it names, if any.

Raises NotFound for what nobody answers."""

Phrase = Callable[[Exception], Reply]
"""Makes a reply of an error."""


class RestGuard:
    """Answers what its caller may not ask; passes on all else.

    Args of the constructor:
        app: answers what is allowed.
        access: knows the callers.
        needs: by verb.
        wanted: see `Wanted`.
        phrase: see `Phrase`.
        refused: told of each request that is not passed on.
    """

    def __init__(
        self,
        app: App,
        access: Access,
        needs: Mapping[str, Need],
        wanted: Wanted,
        phrase: Phrase,
        refused: Callable[[BaseException], None],
    ) -> None:
        self._app = app
        self._access = access
        self._needs = needs
        self._wanted = wanted
        self._phrase = phrase
        self._refused = refused

    def answer(self, request: Request) -> Coroutine[Any, Any, Answer]:
        """Answer one request. See `http1.messages.App`."""
        head = request.head
        fields = head.fields
        # A plain tuple equals `Credentials`, and takes less to make: every request needs one.
        credentials = (fields.get(b"authorization"), fields.get(b"x-api-key"), request.ends.names)
        asked = (credentials, head.method, head.path, head.query)
        if asked in self._access.decisions:
            return self._app(request)
        return self._judged(request, Credentials(*credentials), asked)

    async def _judged(self, request: Request, credentials: Credentials, asked: object) -> Answer:
        try:
            await self._check(request.head, credentials, asked)
        except ENDED as error:
            self._refused(error)
            if not isinstance(error, Exception):  # cancelled: nobody is there to read a reply
                raise
            return self._refusal(request, error)
        return await self._app(request)

    async def _check(self, head: RequestHead, credentials: Credentials, asked: object) -> None:
        """Refuse what the caller may not ask, and remember what it may. Raises: ServingError."""
        try:
            verb, model = self._wanted(head)
        except NotFound:
            await self._access.verified(credentials)  # strangers learn nothing
            raise
        need = self._needs[verb]
        # Not remembered: strangers choose the credentials, and would push out what is known.
        if need.right is None:
            return
        caller = await self._access.verified(credentials)
        caller.check(need)
        if need.models is Models.NAMED:
            caller.check_model(model)
        if len(head.path) + len(head.query) <= LONGEST_TARGET:
            remember(self._access.decisions, asked, True)

    def _refusal(self, request: Request, error: Exception) -> Reply:
        reply = self._phrase(error)
        if not isinstance(error, Unauthenticated):
            return reply
        # A browser that reads of Basic asks its user in a window of its own, then sends what it was
        # told with whatever any site has it ask here: the page at / asks for credentials itself.
        words = BEARER if PAGE in request.head.fields else self._access.challenge
        challenge = (b"www-authenticate", words.encode())
        return reply._replace(headers=(*reply.headers, challenge))
