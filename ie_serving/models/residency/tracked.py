"""A servable that notes its uses, for models that are loaded on demand.

Requests count a servable's holders inline (`models/version/handle.py`). Here that count is a
property, so that models which are always loaded pay nothing for it.
"""

import time
from collections.abc import Mapping

from ie_serving.core.values.tensors import Signature
from ie_serving.engines.base import CompiledModel
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.metrics.residency_metrics import Usage


class TrackedServable(Servable):
    """See the module.

    Args of the constructor:
        usage: of its model; the others are those of `Servable`.
    """

    __slots__ = ("_holders", "_usage")

    def __init__(
        self,
        usage: Usage,
        name: str,
        version: int,
        compiled: CompiledModel,
        signatures: Mapping[str, Signature],
    ) -> None:
        self._usage = usage
        self._holders = 0
        super().__init__(name, version, compiled, signatures)

    @property
    def holders(self) -> int:
        """How many requests use it now."""
        return self._holders

    @holders.setter
    def holders(self, holders: int) -> None:
        if holders > self._holders:
            self._usage.count += 1
            self._usage.last = time.monotonic()
        self._holders = holders
