"""Which requests of a model the second engine answers: all if it is faster, or odd values.

Odd values are NaN, infinity and extreme integers; OpenVINO answers all other requests. The second
engine loads the model at the first such request, since most models never get one, and it takes the
model's memory a second time.

Which engine is faster is measured at the load of ONNX models with operators that OpenVINO computes
several times as slowly as onnxruntime: products of integers that are quantized while a request runs
(`MatMulInteger`) become products of floats. `layers/live_tuning.py` measures other models.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from ie_serving.core.values.errors import InvalidTensor, LoadFailed, ServingError
from ie_serving.core.values.tensors import Array, Arrays, DataType, Read, Signature, copies
from ie_serving.engines.base import CompiledModel
from ie_serving.engines.generated_requests import ValueKind
from ie_serving.engines.layers import own_loop
from ie_serving.engines.layers.layer import Layer
from ie_serving.engines.onnx_file import nodes
from ie_serving.engines.run.detour import OnDemandResource

SLOW: Final = frozenset({"ConvInteger", "DynamicQuantizeMatMul", "MatMulInteger"})
"""Operators of models that are quantized dynamically: the load measures both engines."""
LENGTH = 64
"""Size of open dimensions behind the first: tokens of a short text."""
REPEATS, MOST_S = 7, 0.5
"""Most inferences of one engine, and the seconds that they may take; the shortest one counts."""
SHARE: Final = 0.8
"""The other engine serves if it takes at most this share: less may be noise."""

T = TypeVar("T")
MOST_EXACT = 1 << 24
"""Integers beyond it are extreme: float32, in which engines often compute, rounds them."""
LARGE = 1 << 17
"""Elements of a request from which its values are checked in a thread: that takes 50 us."""
OpenCompiled = Callable[[], CompiledModel]
"""Loads the model in the second engine. Blocking. Raises LoadFailed."""


def may_be_slow(file: Path) -> bool:
    """Tell whether a model has an operator of `SLOW`."""
    try:
        return any(node.kind in SLOW for node in nodes(file))
    except (OSError, ValueError):
        return False  # not a model: OpenVINO reports the fault


def sooner(model: CompiledModel, other: CompiledModel) -> str:
    """Say by how much the other engine is faster; empty where it is not, or cannot be measured."""
    signature = next(iter(model.signatures.values()))
    inputs = _ones(signature)
    if inputs is None:
        return ""
    try:
        took, others = (_shortest(_infers(each, signature.name, inputs)) for each in (model, other))
    except ServingError:  # the model takes no such request
        return ""
    if others > SHARE * took:
        return ""
    return f"a request took {1e3 * others:.1f} ms, and {1e3 * took:.1f} ms by OpenVINO"


def _ones(signature: Signature) -> Mapping[str, Array] | None:
    """Make a request: ones are tokens and masks of texts, and harmless floats."""
    found = {}
    for name, spec in signature.inputs.items():
        if spec.shape is None or spec.dtype is DataType.STRING:
            return None
        sizes = [
            size if size >= 0 else LENGTH if axis else 1 for axis, size in enumerate(spec.shape)
        ]
        found[name] = np.ones(sizes, spec.dtype.numpy)
    return found


def _infers(model: CompiledModel, name: str, inputs: Mapping[str, Array]) -> Callable[[], object]:
    signature = model.signatures[name]

    async def infer() -> object:  # layers look at `REHEARSED` when they are called
        return await model.infer(signature, inputs, copies)

    return lambda: own_loop.rehearse(infer())


def _shortest(infer: Callable[[], object]) -> float:
    infer()  # compiles for the shape
    measured: list[float] = []
    while len(measured) < REPEATS and sum(measured) < MOST_S:
        began = time.perf_counter()
        infer()
        measured.append(time.perf_counter() - began)
    return min(measured)


class SecondEngineLayer(Layer):
    """See `CompiledModel`.

    Args of the constructor:
        inner: OpenVINO's model.
        kinds: kinds of requests that OpenVINO answers differently from the second engine.
        reads: loads the model in the second engine; None if that does not answer them either, so
            that they are refused.
        cause: the finding, for clients that send such a request.
    """

    def __init__(
        self,
        inner: CompiledModel,
        kinds: Collection[ValueKind],
        reads: OpenCompiled | None,
        cause: str,
    ) -> None:
        super().__init__(inner)
        self._is_odd = _test_of(kinds)
        self._cause = cause
        self._other = OnDemandResource(reads, lambda other: other.close()) if reads else None

    def infer(self, signature: Signature, inputs: Arrays, read: Read[T]) -> Coroutine[Any, Any, T]:
        """See `engines.base`. Raises InvalidTensor for requests that neither engine answers."""
        if sum([array.size for array in inputs.values()]) > LARGE:
            return self._infer_large(signature, inputs, read)
        if name := self._odd(inputs):
            return self._hand_over(signature, inputs, read, name)
        return self.inner.infer(signature, inputs, read)

    async def _infer_large(self, signature: Signature, inputs: Arrays, read: Read[T]) -> T:
        """Check the values in a thread, so that the event loop is not blocked."""
        if name := await asyncio.to_thread(self._odd, inputs):
            return await self._hand_over(signature, inputs, read, name)
        return await self.inner.infer(signature, inputs, read)

    def _odd(self, inputs: Arrays) -> str:
        """Name an input with values of these kinds; empty if there is none."""
        return next((name for name, array in inputs.items() if self._is_odd(array)), "")

    async def _hand_over(self, signature: Signature, inputs: Arrays, read: Read[T], name: str) -> T:
        if self._other is None:
            raise InvalidTensor(f'input "{name}": {self._cause}')
        try:
            other = await self._other.get()
        except LoadFailed as error:
            raise InvalidTensor(f'input "{name}": {self._cause}; {error}') from error
        return await other.infer(other.signatures[signature.name], inputs, read)

    def close(self) -> None:
        """See `engines.base`."""
        if self._other is not None:
            self._other.close()
        super().close()


def _test_of(kinds: Collection[ValueKind]) -> Callable[[Array], bool]:
    """Make the test for values of these kinds."""
    floats = _FLOATS.get((ValueKind.NAN in kinds, ValueKind.INFINITE in kinds))
    integers = ValueKind.EXTREME in kinds

    def is_odd(array: Array) -> bool:
        if not array.size:
            return ValueKind.EMPTY in kinds
        if array.dtype.kind == "f":
            return floats is not None and floats(array)
        return integers and array.dtype.kind in "iu" and array.itemsize >= 4 and _is_extreme(array)

    return is_odd


def _may_be_odd(array: Array) -> bool:
    """Check the sum first, which takes no memory and is finite for nearly every request."""
    with np.errstate(all="ignore"):  # infinities of both signs, and floats of 16 bits
        return not np.isfinite(array.sum())


def _is_not_finite(array: Array) -> bool:
    return _may_be_odd(array) and not np.isfinite(array).all()


def _has_nan(array: Array) -> bool:
    return _may_be_odd(array) and bool(np.isnan(array).any())


def _has_infinity(array: Array) -> bool:
    return _may_be_odd(array) and bool(np.isinf(array).any())


_FLOATS: Mapping[tuple[bool, bool], Callable[[Array], bool]] = {
    (True, True): _is_not_finite,
    (True, False): _has_nan,
    (False, True): _has_infinity,
}


def _is_extreme(array: Array) -> bool:
    return not -MOST_EXACT <= array.min() <= array.max() <= MOST_EXACT
