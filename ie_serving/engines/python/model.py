"""A kernel as a compiled model."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

from ie_serving.core.callers import taken
from ie_serving.core.tensors import Array, Signature
from ie_serving.engines.others import Others
from ie_serving.engines.python.asking import Models
from ie_serving.engines.python.calls import Call
from ie_serving.engines.python.context import Context
from ie_serving.engines.python.fleet import Fleet
from ie_serving.engines.python.line import Line

T = TypeVar("T")


class KernelModel:
    """See `engines.base.CompiledModel`.

    Args of the constructor:
        name: of the kernel, for errors.
        signature: what clients see.
        fleet: runs it; as many batches at once.
        threads: in which they run.
        shared: whether these are those of all models.
        most: calls of a batch.
        timeout_s: longest time of a call; None sets no limit.
        others: the other models; None where there are none.
        update: takes other parameters; None where the kernel cannot.
        freed: called last by `close`.
    """

    def __init__(
        self,
        name: str,
        signature: Signature,
        fleet: Fleet,
        threads: Executor,
        *,
        shared: bool = False,
        most: int = 1,
        timeout_s: float | None = None,
        others: Others | None = None,
        update: Callable[[Mapping[str, Any]], object] | None = None,
        freed: Callable[[], object] = lambda: None,
    ) -> None:
        self._signatures = {signature.name: signature}
        self._call = partial(Call, name, signature.outputs)
        self._fleet = fleet
        self._line = Line(name, fleet, threads, most, timeout_s)
        self._shared = shared
        self._timeout_s = timeout_s
        self._others = others
        self._freed = freed
        self.update = update

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """See `engines.base`."""
        return self._signatures

    async def infer(
        self,
        signature: Signature,
        inputs: Mapping[str, Array],
        read: Callable[[Mapping[str, Array]], T],
    ) -> T:
        """See `engines.base`."""
        caller = taken()
        loop = asyncio.get_running_loop()
        models = Models(self._others, loop) if self._others else None
        ctx = Context(caller, models, self._timeout_s, shared=self._shared)
        call = self._call(_read_only(inputs), ctx)
        return await self._line.answer(call, read)

    def at_once(self, signature: Signature) -> int:
        """See `engines.base`."""
        return self._fleet.most

    def close(self) -> None:
        """See `engines.base`."""
        self._fleet.close()
        self._freed()


def _read_only(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Give views that nobody writes to: the arrays may be a request's bytes as they came."""
    views = {name: array.view() for name, array in inputs.items()}
    for view in views.values():
        view.flags.writeable = False
    return views
