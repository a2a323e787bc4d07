"""Access control over REST, before the application, by the head of a request alone."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ie_serving.core.values.access import Caller, ConcernedModels, Credentials, Need
from ie_serving.core.values.codes import ENDED
from ie_serving.core.values.errors import NotFound, Unauthenticated
from ie_serving.server.gate.access import BEARER, Access, remember
from ie_serving.server.transport.http1.messages import Answer, App, Reply, Request, RequestHead

LONGEST_TARGET: Final = 256
"""Longest target in bytes for which a decision is cached. Longer ones are judged at each request:
4,096 targets of 64 KB would let one caller fill 256 MB."""

PAGE: Final = b"x-ie-serving-page"
"""Header that the page at `/` sends with its own requests."""

Wanted = Callable[[RequestHead], tuple[str, str]]
"""Returns the verb of a request, a key of `rights.REST`, and the model that it names, if any.

Raises NotFound if no route matches."""

Phrase = Callable[[Exception], Reply]
"""Makes a reply from an error."""


@dataclass(eq=False)
class RestGuard:
    """Refuses requests that their caller may not send; passes on all others.

    Attributes:
        app: answers the allowed requests.
        access: knows the callers.
        needs: required rights by verb.
        wanted: see `Wanted`.
        phrase: see `Phrase`.
        refused: called for each request that is refused.
        token_headers: headers that stand for a missing `authorization`, as clients of other servers
            send them: a key, or the whole value of that header.
    """

    app: App
    access: Access
    needs: Mapping[str, Need]
    wanted: Wanted
    phrase: Phrase
    refused: Callable[[BaseException], None]
    token_headers: Sequence[bytes] = ()

    def answer(self, request: Request) -> Coroutine[Any, Any, Answer]:
        """Answer one request. See `http1.messages.App`."""
        head = request.head
        fields = head.fields
        # A plain tuple equals `Credentials` and is cheaper to make: every request needs one.
        given = fields.get(b"authorization")
        credentials = (given or self._token(fields), fields.get(b"x-api-key"), request.ends.names)
        asked = (credentials, head.method, head.path, head.query)
        if asked in self.access.decisions:
            return self.app(request)
        return self._judged(request, Credentials(*credentials), asked)

    def _token(self, fields: Mapping[bytes, bytes]) -> bytes | None:
        for name in self.token_headers:
            if token := fields.get(name):
                return token if b" " in token else b"Bearer " + token
        return fields.get(b"authorization")

    async def caller(self, request: Request) -> Caller:
        """Return the caller of a request that has passed. Raises: as `Access.verified`."""
        fields = request.head.fields
        given = fields.get(b"authorization") or self._token(fields)
        return await self.access.verified(
            Credentials(given, fields.get(b"x-api-key"), request.ends.names)
        )

    async def _judged(self, request: Request, credentials: Credentials, asked: object) -> Answer:
        try:
            await self._check(request.head, credentials, asked)
        except ENDED as error:
            self.refused(error)
            if not isinstance(error, Exception):  # cancelled: no client is left to read a reply
                raise
            return self._refusal(request, error)
        return await self.app(request)

    async def _check(self, head: RequestHead, credentials: Credentials, asked: object) -> None:
        """Refuse a request that the caller may not send; cache permission. Raises: ServingError."""
        try:
            verb, model = self.wanted(head)
        except NotFound:
            await self.access.verified(credentials)  # unknown clients must not learn the paths
            raise
        need = self.needs[verb]
        # Not cached: unknown clients choose the credentials, and would evict known callers.
        if need.right is None:
            return
        caller = await self.access.verified(credentials)
        caller.check(need)
        if need.models is ConcernedModels.NAMED:
            caller.check_model(model)
        if len(head.path) + len(head.query) <= LONGEST_TARGET:
            remember(self.access.decisions, asked, True)

    def _refusal(self, request: Request, error: Exception) -> Reply:
        reply = self.phrase(error)
        if not isinstance(error, Unauthenticated):
            return reply
        # On a Basic challenge a browser asks its user in a window of its own, and then adds the
        # password to requests of any site. The page at / asks for credentials itself instead.
        words = BEARER if PAGE in request.head.fields else self.access.challenge
        challenge = (b"www-authenticate", words.encode())
        return reply._replace(headers=(*reply.headers, challenge))
