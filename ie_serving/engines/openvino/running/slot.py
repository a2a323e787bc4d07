"""An infer request with bound tensors: inputs are copied in, outputs are read in place."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Final

import numpy as np
import openvino as ov

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import Array, DataType, Signature
from ie_serving.engines.openvino.error_texts import load_failures
from ie_serving.engines.openvino.faults.hazards import Hazards, nothing_left
from ie_serving.engines.openvino.interface.tensor_specs import Port
from ie_serving.engines.run.detour import NonFiniteInput

KEPT_BYTES = 64 << 20
"""Bytes of input memory that are kept for the next request; more is given back as soon as an input
of at most this size comes. Below it, growing and shrinking costs more than the memory is worth."""

FEW = 256
"""Numbers of a request up to which the byte of each is looked at that begins its exponent, by
Python alone: 0x7F and 0xFF begin NaN, infinity, and numbers beyond 1.7e38. The sum of squares takes
less time for more numbers; but it calls BLAS, which is in no cache of the processor and costs small
requests 4 %."""

MOST_PADDING = 64 << 20
"""Bytes of padding for strings of different lengths; a request that needs more is refused. OpenVINO
pads all to the longest, so one long string among many short ones could exhaust the memory."""

WriteArray = Callable[[Array], None]


class Slot:
    """One infer request. Used by one inference at a time.

    See `engines.run.infer_request.EngineRequest`.

    Args of the constructor:
        make: gives the infer request; called again to renew it.
        inputs: inputs of the compiled model.
        outputs: outputs of the compiled model.
        hazards: hazards of its graph; they choose between the synchronous `infer`, which is
            shorter, and `start_async` with `wait`, which loses no error.
        watched: inputs in which the graph would lose NaN or infinity; they are not taken.
    """

    def __init__(
        self,
        make: Callable[[], ov.InferRequest],
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        hazards: Hazards,
        watched: Sequence[str] = (),
    ) -> None:
        self._watched = watched
        self._make = make
        self._inputs = inputs
        self._outputs = outputs
        self._places = [(port.spec.name, port.index) for port in outputs]
        self._hazards = hazards
        # A cancellation between two operations leaves some open shapes bound to freed memory.
        self._may_cancel = not hazards.spoils and all(port.static for port in inputs)
        self._careful = hazards.needs_care or any(
            port.spec.dtype in (DataType.STRING, DataType.FP64, DataType.BF16) for port in outputs
        )
        self.renews = hazards.spoils
        self._bind()

    def _bind(self) -> None:
        request = self._make()
        self._request = request
        self._writes = [
            (port.spec.name, _writer(request, port, watched=port.spec.name in self._watched))
            for port in self._inputs
        ]
        infer = super(ov.InferRequest, request).infer  # type: ignore[misc]  # not in its stubs
        # Inputs: none, since they are bound. Outputs shared, not copied. Strings are not decoded.
        self._infer = partial(infer, {}, True, False)
        self._stale = False

    def fill(self, inputs: Mapping[str, Array]) -> None:
        """Copy the inputs in. Raises: InvalidTensor, NonFiniteInput."""
        for name, write in self._writes:
            write(inputs[name])

    def run(self) -> Mapping[str, Array]:
        """Infer, and give views of the outputs. Raises: RuntimeError, from the engine.

        Through the binding itself: `ov.InferRequest.infer` prepares inputs that are bound already.
        """
        if self._careful:
            return self.run_new()
        results = list(self._infer().values())
        if self._hazards.refusals:
            self._check_flags(results[-1])
        return {name: results[index] for name, index in self._places}

    def run_new(self) -> Mapping[str, Array]:
        """Infer so that no error is lost, of memory for new shapes neither."""
        self.start()
        return self.finish()

    def start(self) -> None:
        """See `engines.run.infer_request.QueuedRequest`."""
        if self._stale:
            raise RuntimeError(
                "the model could not be compiled anew after a failure; load it again"
            )
        request = self._request
        # The client of the last request is not this one's: its state must not be carried over.
        if self._hazards.stateful:
            request.reset_state()
        request.start_async()

    def finish(self) -> Mapping[str, Array]:
        """See `engines.run.infer_request.QueuedRequest`."""
        request = self._request
        request.wait()
        if self._hazards.flagged or self._hazards.refusals:
            self._check_flags(request.get_output_tensor(len(request.output_tensors) - 1).data)
        return {port.spec.name: _read(request, port) for port in self._outputs}

    def cancel(self) -> None:
        """Let a run in another thread end early with a RuntimeError, where that is harmless."""
        if self._may_cancel:
            self._request.cancel()

    def renew(self) -> None:
        """Compile again where a failure may have corrupted the compiled model.

        Raises:
            RuntimeError: it cannot be compiled now. Each use fails, and tries again, until it can.
        """
        if self.renews:
            self._stale = True  # until `_bind` has come to its end
            self._bind()

    def _check_flags(self, flags: Array) -> None:
        """Refuse outputs that are not this request's, and values that the graph has replaced.

        Raises:
            InvalidTensor: naming the operations.
        """
        if flags.any():
            emptied = len(self._hazards.flagged)
            _refuse_nothing_left(self._hazards.flagged, flags[:emptied])
            causes = compress(self._hazards.refusals, flags[emptied:])
            raise InvalidTensor("; ".join(dict.fromkeys(causes)))


def is_odd(array: Array) -> bool:
    """Tell whether there is NaN or positive infinity; the negative one is a usual mask."""
    return not array.max(initial=-np.inf) < np.inf


def refuse_odd(array: Array) -> None:
    """Raises: NonFiniteInput."""
    if array.dtype.kind == "f" and is_odd(array):
        raise NonFiniteInput


def _refuse_nothing_left(names: Sequence[str], flags: Array) -> None:
    """Refuse outputs that hold memory of another request. Raises: InvalidTensor."""
    if flags.any():
        raise InvalidTensor(nothing_left(", ".join(compress(names, flags))))


def _writer(request: ov.InferRequest, port: Port, *, watched: bool) -> WriteArray:
    if port.spec.dtype is DataType.STRING:
        return partial(_write_text, request, port)
    if port.spec.dtype is DataType.BF16:  # numpy has no such floats to add up
        return partial(_write_rounded, _number_writer(request, port, watched=False), watched)
    return _number_writer(request, port, watched=watched)


def _number_writer(request: ov.InferRequest, port: Port, *, watched: bool) -> WriteArray:
    # Bound once: a static input's memory never moves, so each request is one copy into it.
    if port.static:
        view = request.get_input_tensor(port.index).data
        return _WatchedTensor(view).write if watched else partial(view.__setitem__, Ellipsis)
    resized = _ResizedTensor(request, port)
    return resized.write_watched if watched else resized.write


class _WatchedTensor:
    """The tensor of an input of one shape in which NaN and infinity would be lost."""

    def __init__(self, view: Array) -> None:
        self._view = view
        self._flat = view.reshape(-1)
        self._few = _are_few(self._flat)

    def write(self, array: Array) -> None:
        """Copy the array in. Raises: NonFiniteInput."""
        self._view[...] = array
        if self._few:
            exponents = self._flat.tobytes()[3::4]
            odd = 0x7F in exponents or 0xFF in exponents
        else:
            odd = not math.isfinite(self._flat.dot(self._flat))
        if odd and is_odd(self._flat):
            raise NonFiniteInput


class _ResizedTensor:
    """The tensor of an input with open dimensions: it grows as needed, and is kept for the next."""

    def __init__(self, request: ov.InferRequest, port: Port) -> None:
        self._request = request
        self._index = port.index
        self._type = request.get_input_tensor(port.index).element_type
        self._capacity = 0
        self._bind(port.least(0) or (0,))

    def write(self, array: Array) -> None:
        """Copy the array in; the tensor takes its shape."""
        if array.shape != self._shape:
            self._resize(array)
        self._view[...] = array

    def write_watched(self, array: Array) -> None:
        """See `write`. Raises: NonFiniteInput."""
        if array.shape != self._shape:
            self._resize(array)
        self._view[...] = array
        if self._few:  # as `_WatchedTensor`, without the call
            exponents = self._flat.tobytes()[3::4]
            odd = 0x7F in exponents or 0xFF in exponents
        else:
            odd = not math.isfinite(self._flat.dot(self._flat))
        if odd and is_odd(self._flat):
            raise NonFiniteInput

    # The tensor's memory follows its shape upwards only, and is freed by making another one.
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
        self._flat = self._view.reshape(-1)
        self._few = _are_few(self._flat)


def _are_few(numbers: Array) -> bool:
    return numbers.dtype == np.float32 and numbers.size <= FEW


def _write_rounded(write: WriteArray, watched: bool, array: Array) -> None:
    if watched:
        refuse_odd(array)
    write(_rounded(array))


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


def _rounded(array: Array) -> Array:
    """Round to the nearest bfloat16, as TensorFlow does; gives float32."""
    full = array.astype(np.float32, copy=False)
    bits = full.view(np.uint32)
    nearest = (bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))) >> np.uint32(16)
    return np.where(np.isnan(full), full, (nearest << np.uint32(16)).view(np.float32))


def _read(request: ov.InferRequest, port: Port) -> Array:
    """Read an output in place; `infer` would copy all strings, and fails where there are none."""
    tensor = request.get_output_tensor(port.index)
    # Both are computed as float32, and given so (`interface/tensor_specs.py`).
    if port.spec.dtype is DataType.FP64:
        return np.asarray(tensor.data, np.float64)
    if port.spec.dtype is DataType.BF16:
        return _rounded(tensor.data)
    if port.spec.dtype is not DataType.STRING:
        view: Array = tensor.data
        return view
    if not tensor.size:  # the binding reads memory that is not there
        return np.empty(tuple(tensor.shape), np.object_)
    return np.asarray(tensor.bytes_data).astype(np.object_)


STATE: Final = "state:"
"""Begins the name of a state among inputs and outputs; the name of its variable follows."""


def unroll(model: ov.Model) -> None:
    """Turn the values that loops and recurrent operations carry between iterations into state.

    Raises:
        LoadFailed: OpenVINO cannot.
    """
    with load_failures("low_latency_transformation cannot be applied"):
        from openvino.passes import LowLatency2, Manager  # few models have loops with a state

        passes = Manager()
        passes.register_pass(LowLatency2())
        passes.run_passes(model)


class StatefulSlot(Slot):
    """A slot that belongs to no sequence: each inference brings its own state. See `Slot`.

    `fill` takes the states of an inference beside its inputs, all or none, and none begins with the
    initial ones. `run` gives them beside the outputs.
    """

    def _bind(self) -> None:
        super()._bind()
        self._hazards = replace(self._hazards, stateful=False)  # `fill` sets the state
        # The element types too: numpy lacks some, and querying them copies the whole state.
        self._states = [
            (f"{STATE}{each.name}", each, each.state.element_type)
            for each in self._request.query_state()
        ]

    @property
    def state_names(self) -> tuple[str, ...]:
        """The states by name, as inferences take and give them."""
        return tuple(name for name, _, _ in self._states)

    def fill(self, inputs: Mapping[str, Array]) -> None:
        """See `Slot`."""
        super().fill(inputs)
        # The state is reset even before another is copied in: a variable keeps more than its values
        # from the inference before, such as the order of a cache's rows.
        self._request.reset_state()
        for name, state, kind in self._states:
            if name in inputs:
                array = inputs[name]
                if self._watched:
                    # NaN that a request has left in the state of its sequence is in the next ones.
                    refuse_odd(array)
                state.state = ov.Tensor(array, ov.Shape(array.shape), kind)

    def run_new(self) -> Mapping[str, Array]:
        """See `Slot`. States are views of copies that OpenVINO makes."""
        outputs = super().run_new()
        return {
            **outputs,
            **{name: np.asarray(state.state.data) for name, state, _ in self._states},
        }


def with_states(signature: Signature, slots: Sequence[Slot]) -> Signature:
    """Tell the states of a signature's infer requests, where they are given out."""
    names = (slot.state_names for slot in slots if isinstance(slot, StatefulSlot))
    return replace(signature, states=next(names, ()))
