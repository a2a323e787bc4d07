"""A model that tests hold and look into: y = x + 1, for each row by itself."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType, Signature, TensorSpec
from ie_serving.engines.base import GATHERED, CompiledModel
from ie_serving.engines.layers.gathering import BatchRules
from ie_serving.engines.layers.queue import Queue

REFUSED = 666.0
"""A value that the model refuses, with whatever shares its batch."""


def signature(*shape: int) -> Signature:
    x = TensorSpec("x", DataType.FP32, shape, "x:0")
    y = TensorSpec("y", DataType.FP32, shape, "y:0")
    return Signature(SERVING_DEFAULT, {"x": x}, {"y": y})


class Model(CompiledModel):
    """Computes `body`.

    Attributes:
        batches: the rows of each.
        gathered: which of them are of several requests.
        cancelled: how many were.
        open: unless a test holds it.
    """

    signatures: Mapping[str, Signature] = {}

    def __init__(self, body: Callable[[Array], Array] = lambda x: x + 1, *shape: int) -> None:
        self.signatures = {SERVING_DEFAULT: signature(*(shape or (-1, -1)))}
        self.body = body
        self.batches: list[int] = []
        self.gathered: list[bool] = []
        self.cancelled = 0
        self.closed = False
        self.open = asyncio.Event()
        self.open.set()
        self.begun = asyncio.Event()

    async def infer(
        self, signature: Signature, inputs: Mapping[str, Array], read: Callable[[Any], Any]
    ) -> Any:
        x = inputs["x"]
        self.batches.append(len(x))
        self.gathered.append(GATHERED.get())
        self.begun.set()
        try:
            if not self.open.is_set():
                await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if (x == REFUSED).any():
            raise InvalidTensor("666 is out of range")
        return read({"y": self.body(x)})

    def at_once(self, signature: Signature) -> int:
        return 1

    def close(self) -> None:
        self.closed = True


class Record:
    """Attributes: `sent`, reason and rows of each batch; `failed`, how many were tried again."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int]] = []
        self.failed = 0

    def alone(self, rows: int) -> None:
        self.sent.append(("alone", rows))

    def batch(self, reason: str, rows: int, waited_us: Sequence[float]) -> None:
        assert all(each >= 0 for each in waited_us)
        self.sent.append((reason, rows))

    def watch(self, queue: object) -> None:
        """Nothing: tests look at the queue itself."""

    def apart(self) -> None:
        self.failed += 1

    def tuned(self, verdict: str) -> None:
        self.sent.append((verdict, 0))


class Asked:
    """A queue of `model`. Attributes: `record`; `tasks`, so that none is collected."""

    def __init__(self, model: Model, most_rows: int = 0, **rules: Any) -> None:
        self.model = model
        self.record = Record()
        self.tasks: list[asyncio.Task[list[float]]] = []
        (given,) = model.signatures.values()
        rules = BatchRules(**{"rows": 8, **rules})
        # However fast the machine is, what comes together is gathered.
        self.queue = Queue(model, given, rules, self.record, most_rows, brief_s=0.0)

    def ask(self, *values: float, width: int = 1) -> "asyncio.Task[list[float]]":
        x = np.repeat(np.array(values, np.float32)[:, None], width, axis=1)
        self.tasks.append(asyncio.ensure_future(self._ask(x)))
        return self.tasks[-1]

    async def _ask(self, x: Array) -> list[float]:
        return await self.queue.infer({"x": x}, lambda outputs: outputs["y"][:, 0].tolist())
