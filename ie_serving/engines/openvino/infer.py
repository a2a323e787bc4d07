"""A compiled model: signatures, each with its pool of infer requests."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NoReturn, TypeVar

import openvino as ov

from ie_serving.engines.openvino.apart import Apart
from ie_serving.engines.openvino.narrow import check_range, narrowed
from ie_serving.engines.openvino.pace import Pace, size_of
from ie_serving.engines.openvino.pool import Pool
from ie_serving.engines.openvino.runtime import one_line, return_memory
from ie_serving.engines.openvino.shape_inference import ShapeInference
from ie_serving.engines.openvino.slot import Slot
from ie_serving.engines.openvino.specs import Port, Ports
from ie_serving.errors import InvalidRequest, ServingError
from ie_serving.tensors import Array, Signature

T = TypeVar("T")
Read = Callable[[Mapping[str, Array]], T]
Check = Callable[[Array], None]
FAILED = "Error occurred during inference execution"
"""Phrase of 2020 for whatever the engine raised."""


class Program:
    """One signature, compiled. Used from one event loop, after its load."""

    def __init__(
        self,
        ports: Ports,
        compiled: ov.CompiledModel,
        shapes: ShapeInference | None,
        nireq: int,
        pace: Pace,
    ) -> None:
        self.signature = ports.signature
        self._pace = pace
        self._checks = _checks(ports, compiled)
        self._shapes = shapes
        slots = [
            Slot(compiled.create_infer_request(), ports.inputs, ports.outputs) for _ in range(nireq)
        ]
        self._pool = Pool(slots)
        self._threads = ThreadPoolExecutor(nireq, thread_name_prefix="infer")

    async def infer(self, inputs: Mapping[str, Array], read: Read[T]) -> T:
        """See `CompiledModel.infer`."""
        for name, check in self._checks:
            check(inputs[name])
        if self._shapes is not None:
            unknown = self._shapes.unknown(inputs)
            if unknown is not None:
                await self._shapes.check(unknown)
        size = size_of(inputs)
        alone = self._pool.idle
        slot = self._pool.take_free() or await self._pool.take()
        if self._pace.inline(size):
            return self._infer_here(slot, inputs, read, size)
        return await self._infer_apart(slot, inputs, read, size if alone else None)

    def _infer_here(self, slot: Slot, inputs: Mapping[str, Array], read: Read[T], size: int) -> T:
        try:
            try:
                slot.fill(inputs)
                started = time.perf_counter()
                outputs = slot.run()
            except RuntimeError as error:
                self._fail(error)
            self._pace.learn(size, time.perf_counter() - started)
            return read(outputs)
        finally:
            self._pool.give(slot)

    async def _infer_apart(
        self, slot: Slot, inputs: Mapping[str, Array], read: Read[T], size: int | None
    ) -> T:
        """Run in a thread, copies and `read` included; the slot goes back when it is idle again."""
        apart = Apart(slot, inputs, read)
        apart.start(self._threads)
        try:
            await asyncio.shield(apart.done)
        finally:
            self._give_when_idle(slot, apart)
        if apart.failure is not None:
            self._fail(apart.failure)
        if size is not None:
            self._pace.learn(size, apart.seconds)
        return apart.result()

    def _give_when_idle(self, slot: Slot, apart: Apart[T]) -> None:
        if apart.done.done():
            self._pool.give(slot)
            return
        apart.cancel()
        apart.done.add_done_callback(lambda _: self._pool.give(slot))

    def _fail(self, error: RuntimeError) -> NoReturn:
        """Blame the request where its shapes are free, else the engine."""
        kind = ServingError if self._shapes is None else InvalidRequest
        raise kind(f"{FAILED}: {one_line(error)}") from error

    def close(self) -> None:
        """End the threads; the requests' memory goes with the last reference."""
        self._threads.shutdown()


def _checks(ports: Ports, compiled: ov.CompiledModel) -> list[tuple[str, Check]]:
    """Bind what must be checked at each request, and only that."""
    checks: list[tuple[str, Check]] = [
        (port.spec.name, partial(_check_shape, port)) for port in ports.inputs if port.tighter
    ]
    for port in narrowed(compiled, ports.inputs):
        checks.append((port.spec.name, partial(check_range, port)))
    return checks


def _check_shape(port: Port, array: Array) -> None:
    port.check_shape(array.shape)


class OpenVinoModel:
    """See `engines.base.CompiledModel`."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self._programs = {program.signature.name: program for program in programs}
        self._signatures = {program.signature.name: program.signature for program in programs}

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """See `engines.base`."""
        return self._signatures

    def infer(
        self, signature: Signature, inputs: Mapping[str, Array], read: Read[T]
    ) -> Coroutine[Any, Any, T]:
        """See `engines.base`."""
        return self._programs[signature.name].infer(inputs, read)

    def close(self) -> None:
        """See `engines.base`."""
        for program in self._programs.values():
            program.close()
        self._programs.clear()
        return_memory()
