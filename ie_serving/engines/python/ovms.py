"""Makes a kernel of a Python node of OpenVINO Model Server, a class `OvmsPythonModel`.

class OvmsPythonModel:
    def initialize(self, kwargs): ...         # optional, as the last one
    def execute(self, inputs): ...            # a list of pyovms.Tensor to another, or a generator
    def finalize(self): ...

In Model Server a graph file names inputs and outputs; here `params` does, where dtype `any` takes
and gives tensors as they are. Source: "Python Execution in OpenVINO Model Server" of its
documentation.

The module of such a node imports `pyovms`, which has named tensors and which no other kernel sees
(`opening.py`); section "Python Tensor" of that page.
"""

import inspect
import math
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.core.values.errors import LoadFailed, NotSupported, ServingError
from ie_serving.core.values.tensors import (
    ABSENT,
    Array,
    Arrays,
    DataType,
    SentBuffer,
    Specs,
    TensorSpec,
    is_absent,
    objects,
    sent_in,
)
from ie_serving.engines.python.context import Context, LoadContext

DATATYPES: Mapping[str, str] = {
    "bool": "BOOL",
    **{
        f"{kind}{bits}": f"{kind.upper()}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32)
    },
    **{"int64": "INT64", "uint64": "UINT64"},
    **{f"float{bits}": f"FP{bits}" for bits in (16, 32, 64)},
}
"""KServe's words for element types, by numpy's."""

BYTES = "BYTES"
"""Datatype of strings: each behind its length, in four bytes, little-endian."""

CLASS = "OvmsPythonModel"
SHIM = "pyovms"
NODE = "node"
"""Word of `params` for what `graph.pbtxt` says of the node: values of `initialize`'s `kwargs`."""
_LENGTH = struct.Struct("<I")


class Tensor(np.ndarray[Any, Any]):
    """A named buffer. It is an array, since arrays give buffers of any format in Python.

    Args of the constructor:
        name: name of the input or output.
        data: has a buffer: bytes, an array, another tensor. OVMS's code calls it `buffer`, too.
        shape: value of the attribute `shape`, even if the buffer's differs; None: the buffer's.
        datatype: value of the attribute `datatype`; None: the name of the buffer's format.

    `data` is a `memoryview`, as of every array.
    """

    # Arrays that are cut out of this one have these attributes, too.
    name = ""
    datatype = ""
    _shape: tuple[int, ...] | None = None

    def __new__(
        cls,
        name: str,
        data: Any = None,  # noqa: ANN401  whatever has a buffer
        shape: Sequence[int] | None = None,
        datatype: str | None = None,
        *,
        buffer: Any = None,  # noqa: ANN401
    ) -> "Tensor":
        """Wrap the buffer, which is not copied. Raises: TypeError, where there is none."""
        data = buffer if data is None else data
        array = np.asarray(data if isinstance(data, np.ndarray) else memoryview(data))
        tensor = array.view(cls)
        tensor.name = name
        tensor.datatype = datatype or DATATYPES.get(array.dtype.name) or array.data.format
        tensor._shape = None if shape is None else tuple(map(index, shape))
        return tensor

    # The documentation defines these two differently from numpy.
    @property  # type: ignore[misc]
    def shape(self) -> tuple[int, ...]:
        """The constructor's argument, else the buffer's shape."""
        return super().shape if self._shape is None else self._shape

    def __bytes__(self) -> bytes:
        """Give the buffer; `bytes` would take an integer without dimensions for a length."""
        return self.tobytes()

    @property
    def size(self) -> int:
        """Bytes of the buffer."""
        return self.nbytes


_NUMPY = {word: np.dtype(name) for name, word in DATATYPES.items()}


class PythonNode:
    """One Python node.

    Args of the constructor:
        subject: the object of the author's class.
        inputs: names in the order in which `execute` gets them.
        outputs: the outputs that `execute` may return; untyped ones it may leave out.
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
        given: dict[str, object] = {
            "node_name": ctx.name or CLASS,
            "input_names": [*self._inputs],
            "output_names": outputs,
            "base_path": str(base),
            **ctx.params.get(NODE, {}),
        }
        # The documentation's table has the second name.
        initialize({**given, "outputs_names": given["output_names"]})

    def execute(self, inputs: Arrays, _: Context) -> Mapping[str, object]:
        """Run it once. Raises: NotSupported, where it gives several answers."""
        given = self._executed(inputs)
        if isinstance(given, Iterator):
            raise NotSupported(
                f"{CLASS}.execute is a generator, which gives several answers: ask it by a stream"
            )
        return self._read(given)

    async def stream(
        self, items: AsyncIterator[Arrays], _: Context
    ) -> AsyncGenerator[object, None]:
        """Give all that the generator gives, for one request after the other.

        It blocks its event loop, which only the streams of this kernel have (`streaming.py`).
        """
        async for inputs in items:
            given = self._executed(inputs)
            for reply in given if isinstance(given, Iterator) else [given]:
                yield self._read(reply)

    def close(self) -> None:
        """Call `finalize`, if there is one."""
        finalize: Callable[[], object] = getattr(self._subject, "finalize", lambda: None)
        finalize()

    def _executed(self, inputs: Arrays) -> object:
        """Call `execute` with the inputs that came; where none has come, no output comes either."""
        came = [(spec, inputs[name]) for name, spec in self._inputs.items()]
        tensors = [_tensor(spec, array) for spec, array in came if not is_absent(array)]
        return self._subject.execute(tensors) if tensors else []

    def _read(self, given: object) -> Mapping[str, object]:
        if given is None and any(spec.optional for spec in self._inputs.values()):
            given = []  # the documentation's example returns nothing until it has all that it needs
        if not isinstance(given, list | tuple) or not all(isinstance(e, Tensor) for e in given):
            raise ServingError(
                f"{CLASS}.execute returned {type(given).__name__}; expected a list of pyovms.Tensor"
            )
        found = {
            each.name: _value(each, self._outputs[each.name])
            if each.name in self._outputs
            else np.asarray(each)
            for each in given
        }
        if found.keys() - self._outputs.keys():
            return found  # which is refused
        return {name: ABSENT for name, spec in self._outputs.items() if spec.untyped} | found


def _tensor(spec: TensorSpec, array: Array) -> Tensor:
    if (sent := sent_in(array)) is not None:
        return Tensor(spec.name, sent, sent.shape, sent.datatype)
    if array.dtype.kind != "O":
        return Tensor(spec.name, array)
    strings: list[bytes] = array.ravel().tolist()
    # One that stands alone is the buffer, as a request brings raw bytes there.
    is_buffer = not array.ndim and not spec.untyped
    data = strings[0] if is_buffer else b"".join(_LENGTH.pack(len(each)) + each for each in strings)
    return Tensor(spec.name, data, array.shape, BYTES)


def _as_it_is(tensor: Tensor) -> Array:
    """Give an untyped output: as an array, if one says all of it."""
    raw, shape = tensor.tobytes(), tensor.shape
    dtype = _NUMPY.get(tensor.datatype)
    strings = _cut(raw) if tensor.datatype == BYTES else None
    with suppress(OverflowError, ValueError):  # one size is 0, and numpy cannot count the others
        if dtype is not None and math.prod(shape) * dtype.itemsize == len(raw):
            return np.frombuffer(raw, dtype).reshape(shape)
        if strings is not None and math.prod(shape) == len(strings):
            return objects(strings, shape)
    return SentBuffer(raw, tensor.datatype, shape).array


def _value(tensor: Tensor, spec: TensorSpec) -> object:
    """Convert an output to its declared form."""
    if spec.untyped:
        return _as_it_is(tensor)
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
    """Refuse a node whose tensors `params` does not declare. Raises: LoadFailed."""
    if inputs and outputs:
        return
    form = '{"dtype": "string", "shape": [-1]}'
    raise LoadFailed(
        f"{CLASS} does not say what it takes and gives: declare it in params, in the order of the"
        f' node\'s streams, as {{"inputs": {{"text": {form}}}, "outputs": {{"answer": {form}}}}}'
    )
