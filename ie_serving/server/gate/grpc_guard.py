"""Access control over gRPC: chooses the method that answers a call by its caller.

The guard checks credentials and right by the headers of a call, before its message arrives. The
message names the model, so a caller who may use only some models gets services of its own, whose
data plane refuses the others.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from functools import lru_cache
from typing import Any, Final

from ie_serving.core.values.access import Caller, ConcernedModels, Credentials, Need
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
"""Callers whose own services are kept; beyond it new ones are made, with untrained parsers."""

ServicesFor = Callable[[Caller], Services]
"""Makes the services of a caller who may use only some models."""


class GrpcGuard:
    """See `services.Admission`.

    Args of the constructor:
        services: the services without any check.
        services_for: see `ServicesFor`; services whose methods name no model may be omitted.
        access: knows the callers.
        needs: required rights by the path of each method.
        refused: called for each call that is refused here.

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
        # Looked up here, so that a method without an entry fails the start, not its first call.
        self._needs = {path: needs[path.decode()] for path in self._plain}
        self._own = lru_cache(MOST_OWN)(lambda caller: by_path(services_for(caller)))
        self._access = access
        self.decided: Mapping[Any, Any] = access.decisions
        self._refused = refused

    def method(self, path: bytes, credentials: Credentials) -> Method:
        """Return the method that answers a call.

        Raises:
            ServingError: the caller may not call the method.
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
        # Not cached: unknown clients choose the credentials, and would evict known callers.
        if self._needs[path].right is None:
            return self._plain[path]
        caller = self._access.caller(credentials)
        if caller is None:
            return self._later(path, credentials)
        return self._allowed(path, credentials, caller)

    def _allowed(self, path: bytes, credentials: Credentials, caller: Caller) -> Method:
        """Return the method for a caller. Raises: Forbidden."""
        need = self._needs[path]
        caller.check(need)
        # Callers of all models share the plain services, and with them their trained parsers.
        own = need.models is ConcernedModels.NAMED and caller.models
        method = (self._own(caller) if own else self._plain)[path]
        remember(self._access.decisions, (path, credentials), method)
        return method

    def _later(self, path: bytes, credentials: Credentials) -> Method:
        """Return a method that verifies a password first."""
        # The transport chooses the method between two frames and cannot wait. So it gets this
        # method, which verifies the password when the call's message has come.
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
