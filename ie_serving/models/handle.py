"""A loaded version, and the right to use it for one request.

Everything here runs on one event loop, so counting needs no lock: taking and giving back a handle
are two additions.
"""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from ie_serving.engines.base import CompiledModel
from ie_serving.tensors import Signature


class Servable:
    """A version that answers. As a context manager it is the handle of one request.

    Attributes:
        name: model name.
        version: version number.
        compiled: the engine's compiled model.
        signatures: its signatures by name.
        bound: what those who use it have composed for it, by their own keys; it goes with it.
    """

    __slots__ = (
        "_holders",
        "_idle",
        "bound",
        "compiled",
        "name",
        "signatures",
        "version",
    )

    def __init__(
        self,
        name: str,
        version: int,
        compiled: CompiledModel,
        signatures: Mapping[str, Signature],
    ) -> None:
        self.name = name
        self.version = version
        self.compiled = compiled
        self.signatures = signatures
        self.bound: dict[object, Any] = {}
        self._holders = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __enter__(self) -> "Servable":
        self._holders += 1
        if self._holders == 1:
            self._idle.clear()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._holders -= 1
        if not self._holders:
            self._idle.set()

    @property
    def holders(self) -> int:
        """How many requests use this version now."""
        return self._holders

    async def drained(self, timeout_s: float) -> bool:
        """Wait until no request uses this version; False if some still do after `timeout_s`."""
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except asyncio.TimeoutError:
            return False
        return True
