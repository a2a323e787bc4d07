"""What hooks are given beside the tensors: a bag of attributes, one for each request."""

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

from ie_serving.core.values.requests import NO_CALLER, Caller
from ie_serving.engines.python.context import REQUEST_ID, failure

log = logging.getLogger("ie_serving.hooks")
"""Logger given to hooks."""


class HookContext:
    """One request, as its hooks see it. They may set whatever attributes they like.

    Attributes:
        drivers: the models, in the order of the chain.
        global_ctx: result of `init_hook`, or later of `update_hook`.
        skipped: argument of `skip`, until a model has been left out for it.
    """

    log = log
    skipped: Mapping[str, Any] | None = None

    def __init__(
        self, drivers: Sequence[object], global_ctx: object, caller: Caller = NO_CALLER
    ) -> None:
        self.drivers = drivers
        self.global_ctx = global_ctx
        self._began = time.time()
        self._caller = caller

    @property
    def driver(self) -> object:
        """The model, if there is one alone. Raises: AttributeError."""
        if len(self.drivers) != 1:
            raise AttributeError(f"there are {len(self.drivers)} models: take one of ctx.drivers")
        return self.drivers[0]

    # Cached properties, which attributes of the hooks' own may hide, and most hooks ask for none.
    @cached_property
    def deadline(self) -> float | None:
        """Unix time at which the caller gives up; None where none is known."""
        return self._caller.deadline(self._began)

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """Headers of the request by name, in lower case; metadata over gRPC."""
        return self._caller.headers

    @cached_property
    def request_id(self) -> str:
        """The header `x-request-id`, or one that is made up."""
        return self.headers.get(REQUEST_ID) or uuid.uuid4().hex

    def fail(self, code: str, text: str) -> NoReturn:
        """End the request with an error of a canonical code, such as `INVALID_ARGUMENT`."""
        raise failure(code, text)

    def skip(self, outputs: "Mapping[str, Any] | None" = None) -> Mapping[str, Any]:
        """Say that the next model is not to be run: `outputs` go on in its place. Returns them."""
        self.skipped = dict(outputs or {})
        return self.skipped
