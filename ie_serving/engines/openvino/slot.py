"""One infer request with its tensors bound: inputs are copied in, outputs are read in place."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import openvino as ov

from ie_serving.engines.openvino.specs import Port
from ie_serving.errors import InvalidTensor
from ie_serving.tensors import Array, DataType

KEPT_BYTES = 64 << 20
"""Input memory above this is given back when a smaller input comes."""

MOST_PADDING = 64 << 20
"""Bytes that strings of unlike lengths may be padded by: one long among many short ones would take
any memory there is."""

Write = Callable[[Array], None]


class Slot:
    """One infer request. Used by one inference at a time.

    Attributes:
        run: infers here and now, and gives the outputs by name: views that the next inference
            overwrites. Raises: RuntimeError, what the engine failed with.
        cancel: lets `run` end early with a RuntimeError; from another thread.
    """

    def __init__(
        self, request: ov.InferRequest, inputs: Sequence[Port], outputs: Sequence[Port]
    ) -> None:
        self._writes = [(port.spec.name, _writer(request, port)) for port in inputs]
        self._places = [(port.spec.name, port.index) for port in outputs]
        infer = super(ov.InferRequest, request).infer  # type: ignore[misc]  # not in its stubs
        self._infer = partial(infer, {}, True, False)
        self.cancel = request.cancel
        texts = any(port.spec.dtype is DataType.STRING for port in outputs)
        self.run = partial(_run_texts, request, outputs) if texts else self._run

    def _run(self) -> Mapping[str, Array]:
        """Infer through the binding itself: `InferRequest.infer` prepares inputs that are bound."""
        results = list(self._infer().values())
        return {name: results[index] for name, index in self._places}

    def fill(self, inputs: Mapping[str, Array]) -> None:
        """Copy the inputs in. Raises: InvalidTensor."""
        for name, write in self._writes:
            write(inputs[name])


def _writer(request: ov.InferRequest, port: Port) -> Write:
    if port.spec.dtype is DataType.STRING:
        return partial(_write_text, request, port)
    if port.static:
        view = request.get_input_tensor(port.index).data
        return partial(view.__setitem__, Ellipsis)
    return _Resized(request, port).write


class _Resized:
    """The tensor of an input with open dimensions: it grows as needed, and is kept for the next."""

    def __init__(self, request: ov.InferRequest, port: Port) -> None:
        self._request = request
        self._index = port.index
        self._type = request.get_input_tensor(port.index).element_type
        self._capacity = 0
        self._bind(port.least(0) or (0,))

    def write(self, array: Array) -> None:
        if array.shape != self._shape:
            self._resize(array)
        self._view[...] = array

    def _resize(self, array: Array) -> None:
        if array.nbytes < KEPT_BYTES < self._capacity:
            self._capacity = 0
            self._bind(array.shape)
        else:
            self._tensor.shape = array.shape
            self._look()
        self._capacity = max(self._capacity, array.nbytes)

    def _bind(self, shape: tuple[int, ...]) -> None:
        self._tensor = ov.Tensor(self._type, ov.Shape(shape))
        self._request.set_input_tensor(self._index, self._tensor)
        self._look()

    def _look(self) -> None:
        self._view = self._tensor.data
        self._shape = self._view.shape


def _write_text(request: ov.InferRequest, port: Port, array: Array) -> None:
    """Bind strings. OpenVINO's binding takes them zero-padded, so none can end with a zero byte."""
    if any(text.endswith(b"\0") for text in array.flat):
        raise InvalidTensor(
            f'input "{port.spec.name}" holds a string that ends with a zero byte; OpenVINO would '
            f"cut it off: remove the byte"
        )
    _check_padding(port, array)
    if array.size:  # the binding divides by the length of the longest
        tensor = ov.Tensor(np.array(array.tolist(), np.bytes_).reshape(array.shape))
    else:
        tensor = ov.Tensor(ov.Type.string, ov.Shape(array.shape))
    request.set_input_tensor(port.index, tensor)


def _check_padding(port: Port, array: Array) -> None:
    lengths = [len(text) for text in array.flat]
    padding = max(lengths, default=0) * len(lengths) - sum(lengths)
    if padding > MOST_PADDING:
        raise InvalidTensor(
            f'input "{port.spec.name}" holds {len(lengths)} strings of up to {max(lengths)} bytes; '
            f"OpenVINO pads all to the longest, here by {padding} bytes, at most {MOST_PADDING}: "
            "send long and short ones apart"
        )


def _run_texts(request: ov.InferRequest, outputs: Sequence[Port]) -> Mapping[str, Array]:
    """Infer without `infer`, whose binding would copy all strings, and fails where are none."""
    request.start_async()
    request.wait()
    return {port.spec.name: _read(request, port) for port in outputs}


def _read(request: ov.InferRequest, port: Port) -> Array:
    tensor = request.get_output_tensor(port.index)
    if port.spec.dtype is not DataType.STRING:
        view: Array = tensor.data
        return view
    if not tensor.size:  # the binding reads memory that is not there
        return np.empty(tuple(tensor.shape), np.object_)
    return np.asarray(tensor.bytes_data).astype(np.object_)
