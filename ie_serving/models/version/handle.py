"""A loaded version, and the right to use it for one request.

Everything here runs on one event loop, so counting needs no lock: taking and giving back a handle
are two additions. The data plane makes these additions inline, since for every request two calls
would cost more; less frequent callers enter the servable as a context manager.
"""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from ie_serving.core.runtime.waits import set_within
from ie_serving.core.values.tensors import Signature
from ie_serving.engines.base import CompiledModel
from ie_serving.telemetry.metrics.inferences import Inferences


class Servable:
    """A version that answers. As a context manager it is the handle of one request.

    Attributes:
        name: model name.
        version: version number.
        compiled: the engine's compiled model.
        signatures: its signatures by name.
        bound: objects that front ends have made for it, by their own keys; freed with it.
        holders: number of requests that use it now.
        inferences: durations of its inferences.
        load_s: seconds that each step of its load took, such as `fetch_s`.
        memory: bytes that its load has added to the process; None where that is not known.
        unheld: set when `holders` falls to 0; None as long as no drain waits for that.
    """

    __slots__ = (
        "__weakref__",
        "bound",
        "compiled",
        "holders",
        "inferences",
        "load_s",
        "memory",
        "name",
        "signatures",
        "unheld",
        "version",
    )

    def __init__(
        self, name: str, version: int, compiled: CompiledModel, signatures: Mapping[str, Signature]
    ) -> None:
        self.name = name
        self.version = version
        self.compiled = compiled
        self.signatures = signatures
        self.bound: dict[object, Any] = {}
        self.holders = 0
        self.inferences = Inferences()
        self.load_s: Mapping[str, float] = {}
        self.memory: int | None = None
        self.unheld: asyncio.Event | None = None

    def __enter__(self) -> "Servable":
        self.holders += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.holders -= 1
        if not self.holders and self.unheld:
            self.unheld.set()

    @property
    def signature_names(self) -> str:
        """Name the signatures, also those that are left out, but not those of TensorFlow itself."""
        known = self.signatures.items()
        return ", ".join(sorted(name for name, s in known if s.left_out or not s.definition))

    @property
    def remark(self) -> str:
        """Say which signatures are left out, and why; empty when none is."""
        return "; ".join(
            f'signature "{name}" is left out: {signature.left_out}'
            for name, signature in sorted(self.signatures.items())
            if signature.left_out
        )

    async def drained(self, timeout_s: float) -> bool:
        """Wait until no request uses this version; False if some still do after `timeout_s`.

        Handles are given out no longer, so that their number only falls.
        """
        if not self.holders:
            return True
        self.unheld = asyncio.Event()
        return await set_within(self.unheld, timeout_s)
