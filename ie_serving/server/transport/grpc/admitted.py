"""gRPC calls over our own HTTP/2 on a server that authenticates its callers."""

from collections.abc import Mapping
from typing import Any

from ie_serving.core.values.access import Credentials
from ie_serving.core.values.errors import ServingError
from ie_serving.server.status import explain
from ie_serving.server.transport.grpc import replies
from ie_serving.server.transport.grpc.call import UNKNOWN_METHOD, Call, Calls, CallSettings
from ie_serving.server.transport.grpc.call_headers import Request
from ie_serving.server.transport.grpc.services import Admission
from ie_serving.server.transport.http2.sender import Sender


class AdmittedCalls(Calls):
    """Opens the calls of permitted callers; refuses others before their message arrives.

    Args of the constructor:
        methods, rules: see `Calls`.
        admission: chooses the method.
    """

    def __init__(
        self,
        methods: Mapping[bytes, tuple[type[Call], Any]],
        rules: CallSettings,
        admission: Admission,
    ) -> None:
        super().__init__(methods, rules)
        self._decided = admission.decided
        self._admission = admission

    def accept(self, number: int, request: Request, sender: Sender) -> Call | bytes:
        """See `Calls`."""
        found = self.methods.get(request.path)
        if found is None or request.refusal is not None:
            return request.refusal or UNKNOWN_METHOD
        # Looked up inline, with a plain tuple: every request runs this code.
        who = (request.authorization, request.key, sender.client)
        method = self._decided.get((request.path, who))
        if method is None:
            try:
                method = self._admission.method(request.path, Credentials(*who))
            except ServingError as error:
                return replies.failure(*explain(error), alone=True)
        return found[0](number, request, sender, self.rules, method)
