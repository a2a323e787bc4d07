"""Who may do what over gRPC: which method answers a call, by who calls.

Right and credentials are judged by the headers of a call, before its message comes. Which model is
meant stands in the message: a caller who may ask for some models only gets services of its own,
whose data plane refuses others.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from functools import lru_cache
from typing import Any, Final

from ie_serving.core.values.access import Caller, Credentials, Models, Need
from ie_serving.core.values.codes import ENDED
from ie_serving.server.gate.access import Access, remember
from ie_serving.server.transport.grpc.services import (
    Buffer,
    CallContext,
    Method,
    Services,
    Streaming,
    by_path,
)

MOST_OWN: Final = 64
"""Callers whose own services are kept; others' are made anew, with parsers that learn anew."""

ServicesFor = Callable[[Caller], Services]
"""Makes the services of a caller who may ask for some models only."""


class GrpcGuard:
    """See `services.Admission`.

    Args of the constructor:
        services: what is served, without any check.
        services_for: see `ServicesFor`; those whose methods name no model may be left out.
        access: knows the callers.
        needs: by the path of each method.
        refused: told of each call that is refused here.

    Raises:
        KeyError: a method has no entry in `needs`.
    """

    def __init__(
        self,
        services: Services,
        services_for: ServicesFor,
        access: Access,
        needs: Mapping[str, Need],
        refused: Callable[[BaseException], None],
    ) -> None:
        self._plain = by_path(services)
        # Looked up at the start, so that a method without an entry ends it, and not its first call.
        self._needs = {path: needs[path.decode()] for path in self._plain}
        self._own = lru_cache(MOST_OWN)(lambda caller: by_path(services_for(caller)))
        self._access = access
        self.decided: Mapping[Any, Any] = access.decisions
        self._refused = refused

    def method(self, path: bytes, credentials: Credentials) -> Method:
        """Give what answers a call of a method that is served.

        Raises:
            ServingError: nobody may answer it.
        """
        known: Method | None = self.decided.get((path, credentials))
        if known is not None:
            return known
        try:
            return self._decided(path, credentials)
        except Exception as error:
            self._refused(error)
            raise

    def _decided(self, path: bytes, credentials: Credentials) -> Method:
        # Not remembered: strangers choose the credentials, and would push out what is known.
        if self._needs[path].right is None:
            return self._plain[path]
        caller = self._access.caller(credentials)
        if caller is None:
            return self._later(path, credentials)
        return self._allowed(path, credentials, caller)

    def _allowed(self, path: bytes, credentials: Credentials, caller: Caller) -> Method:
        """Give the method for a caller. Raises: Forbidden."""
        need = self._needs[path]
        caller.check(need)
        # Callers of all models share the plain services, and with them what their parsers learn.
        own = need.models is Models.NAMED and caller.models
        method = (self._own(caller) if own else self._plain)[path]
        remember(self._access.decisions, (path, credentials), method)
        return method

    def _later(self, path: bytes, credentials: Credentials) -> Method:
        """Give what verifies a password first."""
        # To choose a method may not wait, as the transport does it between two frames. So this one
        # is chosen for now, which waits by itself when its message has come.
        if isinstance(self._plain[path], Streaming):
            return Streaming(
                lambda requests, context: self._converse(requests, context, path, credentials)
            )

        async def answer(payload: Buffer, context: CallContext) -> bytes:
            method = await self._verified(path, credentials)
            assert callable(method)
            return await method(payload, context)

        return answer

    async def _converse(
        self,
        requests: AsyncIterator[Buffer],
        context: CallContext,
        path: bytes,
        credentials: Credentials,
    ) -> AsyncGenerator[bytes, None]:
        method = await self._verified(path, credentials)
        assert isinstance(method, Streaming)
        async with aclosing(method.converse(requests, context)) as replies:
            async for reply in replies:
                yield reply

    async def _verified(self, path: bytes, credentials: Credentials) -> Method:
        try:
            return self._allowed(path, credentials, await self._access.verified(credentials))
        except ENDED as error:
            self._refused(error)
            raise
