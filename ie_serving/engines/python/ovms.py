"""Python nodes of OpenVINO Model Server: a class `OvmsPythonModel` becomes a kernel.

class OvmsPythonModel:
    def initialize(self, kwargs): ...         # optional, as the last one
    def execute(self, inputs): ...            # a list of pyovms.Tensor to another, or a generator
    def finalize(self): ...

The graph file that stood beside it named inputs and outputs; here `params` declares them, with
their dtypes. Source: "Python Execution in OpenVINO Model Server" of its documentation.
"""

import inspect
import math
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.core.values.errors import LoadFailed, NotSupported, ServingError
from ie_serving.core.values.tensors import Array, DataType, TensorSpec
from ie_serving.engines.python.calls import Inputs
from ie_serving.engines.python.context import Context, LoadContext
from ie_serving.engines.python.outputs import Specs
from ie_serving.engines.python.pyovms import BYTES, DATATYPES, Tensor
from ie_serving.engines.run.texts import objects

CLASS = "OvmsPythonModel"
SHIM = "pyovms"

_LENGTH = struct.Struct("<I")
_NUMPY = {word: np.dtype(name) for name, word in DATATYPES.items()}


class Node:
    """One Python node.

    Args of the constructor:
        subject: the object of the author's class.
        inputs: in the order in which `execute` gets them.
        outputs: what `execute` may give.
    """

    def __init__(self, subject: Any, inputs: Specs, outputs: Specs) -> None:  # noqa: ANN401
        self._subject = subject
        self._inputs = inputs
        self._outputs = outputs

    @property
    def generates(self) -> bool:
        """Whether `execute` is a generator: it gives several answers to a request."""
        return inspect.isgeneratorfunction(inspect.unwrap(self._subject.execute))

    def begin(self, ctx: LoadContext, base: Path) -> None:
        """Call `initialize`, if there is one."""
        initialize = getattr(self._subject, "initialize", None)
        if initialize is None:
            return
        outputs = [*self._outputs]
        given = {
            "node_name": ctx.name or CLASS,
            "input_names": [*self._inputs],
            "output_names": outputs,
            "outputs_names": outputs,  # so in the documentation's table
            "base_path": str(base),
        }
        initialize(given)

    def execute(self, inputs: Inputs, _: Context) -> Mapping[str, object]:
        """Run it once. Raises: NotSupported, where it gives several answers."""
        if self.generates:
            raise NotSupported(
                f"{CLASS}.execute is a generator, which gives several answers: ask it by a stream"
            )
        return self._read(self._subject.execute(self._tensors(inputs)))

    async def stream(
        self, items: AsyncIterator[Inputs], _: Context
    ) -> AsyncGenerator[object, None]:
        """Give all that the generator gives, for one request after the other.

        It blocks its event loop, which only the streams of this kernel have (`streaming.py`).
        """
        async for inputs in items:
            for answer in self._subject.execute(self._tensors(inputs)):
                yield self._read(answer)

    def close(self) -> None:
        """Call `finalize`, if there is one."""
        finalize: Callable[[], object] = getattr(self._subject, "finalize", lambda: None)
        finalize()

    def _tensors(self, inputs: Inputs) -> list[Tensor]:
        return [_tensor(spec, inputs[name]) for name, spec in self._inputs.items()]

    def _read(self, given: object) -> Mapping[str, object]:
        if not isinstance(given, list | tuple) or not all(isinstance(e, Tensor) for e in given):
            raise ServingError(
                f"{CLASS}.execute returned {type(given).__name__}; expected a list of pyovms.Tensor"
            )
        return {
            each.name: _value(each, self._outputs[each.name])
            if each.name in self._outputs
            else np.asarray(each)
            for each in given
        }


def _tensor(spec: TensorSpec, array: Array) -> Tensor:
    if spec.dtype is not DataType.STRING:
        return Tensor(spec.name, array)
    strings: list[bytes] = array.ravel().tolist()
    # One that stands alone is the buffer, as a request brings raw bytes there.
    data = strings[0] if not array.ndim else b"".join(_lengthened(strings))
    return Tensor(spec.name, data, array.shape, BYTES)


def _lengthened(strings: Sequence[bytes]) -> Iterator[bytes]:
    for each in strings:
        yield _LENGTH.pack(len(each))
        yield each


def _value(tensor: Tensor, spec: TensorSpec) -> object:
    """Give an output as what is declared."""
    array = tensor.view(np.ndarray)
    if spec.dtype is DataType.STRING:
        return array if array.dtype.kind in "USO" else _strings(tensor, spec)
    told = _NUMPY.get(tensor.datatype)
    if told is not None and told != array.dtype:  # bytes, which their maker says are numbers
        with suppress(ValueError):
            array = np.frombuffer(array.tobytes(), told)
    return array.reshape(tensor.shape) if math.prod(tensor.shape) == array.size else array


def _strings(tensor: Tensor, spec: TensorSpec) -> Array:
    raw = tensor.tobytes()
    several = _cut(raw) if tensor.datatype == BYTES and spec.shape else None
    if several is None:
        return objects(iter([raw]), (1,) * len(spec.shape or ()))
    fits = math.prod(tensor.shape) == len(several) and len(tensor.shape) == len(spec.shape or ())
    return objects(iter(several), tensor.shape if fits else (len(several),))


def _cut(raw: bytes) -> list[bytes] | None:
    """Give the strings that stand behind their lengths; None where that is not how bytes stand."""
    found, at = [], 0
    while at + _LENGTH.size <= len(raw):
        (length,) = _LENGTH.unpack_from(raw, at)
        at += _LENGTH.size + length
        found.append(raw[at - length : at])
    return found if at == len(raw) else None


def declared_or_refused(inputs: Specs, outputs: Specs) -> None:
    """Refuse a node whose tensors nobody declares. Raises: LoadFailed."""
    if inputs and outputs:
        return
    form = '{"dtype": "string", "shape": [-1]}'
    raise LoadFailed(
        f"{CLASS} does not say what it takes and gives: declare it in params, in the order of the"
        f' node\'s streams, as {{"inputs": {{"text": {form}}}, "outputs": {{"answer": {form}}}}}'
    )
