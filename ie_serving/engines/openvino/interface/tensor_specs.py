"""The specs of a model's tensors for clients, the ports of the engine, and the memory of a request.

The least memory of a request of a reshaped model is estimated before it is allocated. For a fixed
size memory is allocated when the model is compiled: a mistyped batch of 1000000000 would take all
memory of the machine, and then fail without naming its cause.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import openvino as ov
from openvino import layout_helpers
from openvino.preprocess import PrePostProcessor

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.settings.numbers import Dimension
from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.image_form import RGB
from ie_serving.core.values.tensors import BY_OPENVINO, Array, DataType, Signature, TensorSpec
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.error_texts import load_failures
from ie_serving.engines.openvino.interface import mixed_rows, preprocess
from ie_serving.engines.openvino.interface.draft import Draft, ModelTensor
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.reshape import InputShape, model_shapes
from ie_serving.engines.preprocessing import Preprocessing

NO_LIMIT = np.iinfo(np.int64).max
DimensionBounds = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Port:
    """A tensor of a compiled signature, bound to its place.

    Attributes:
        spec: public spec.
        index: position among the compiled model's inputs or outputs.
        bounds: smallest and largest size of each dimension; None for an open rank.
    """

    spec: TensorSpec
    index: int
    bounds: DimensionBounds | None

    @property
    def static(self) -> bool:
        """Whether there is one shape only."""
        return self.bounds is not None and all(low == high for low, high in self.bounds)

    @property
    def tighter(self) -> bool:
        """Whether the engine takes fewer shapes than the spec admits."""
        if self.bounds is None:
            return False
        if self.spec.shape is None or len(self.spec.shape) != len(self.bounds):
            return True
        return any(
            size == -1 and bound != (0, NO_LIMIT)
            for size, bound in zip(self.spec.shape, self.bounds, strict=True)
        )

    def least(self, wanted: int) -> tuple[int, ...] | None:
        """Give the shape with each open dimension as near to `wanted` as it may be."""
        if self.bounds is None:
            return None
        return tuple(min(max(wanted, low), high) for low, high in self.bounds)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Refuse a shape that only the engine knows to be impossible.

        Raises:
            InvalidTensor: naming the input, its shape and the sizes that are taken.
        """
        if self.bounds is None:
            return
        fits = len(shape) == len(self.bounds) and all(
            low <= size <= high for size, (low, high) in zip(shape, self.bounds, strict=True)
        )
        if not fits:
            raise InvalidTensor(
                f'input "{self.spec.name}" has shape {shape}; the model takes ({self._ranges()})'
            )

    def _ranges(self) -> str:
        return ", ".join(map(_range, self.bounds or ()))


def _range(bound: tuple[int, int]) -> str:
    low, high = bound
    if low == high:
        return str(low)
    if high == NO_LIMIT:
        return "-1" if low == 0 else f"{low} or more"
    return f"{low}..{high}"


@dataclass(frozen=True)
class SignaturePorts:
    """Inputs and outputs of one signature.

    Attributes:
        signature: public signature.
        inputs: inputs of the model.
        outputs: outputs of the model.
        keepers: operations of the reshaped model that must still keep rows apart; see `rows`.
    """

    signature: Signature
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    keepers: frozenset[str]


def prepare(draft: Draft, model: ov.Model, options: EngineOptions) -> SignaturePorts:
    """Preprocess and reshape the draft's model, convert BF16, and give its ports.

    Raises:
        LoadFailed: the model cannot be preprocessed or reshaped, or a tensor has a type without a
            name on the wire.
    """
    # First, so that shapes are as the client sends them, as in OpenVINO Model Server.
    steps = options.of(Preprocessing)
    changed = preprocess.apply(draft, model, steps)
    reshaped, kept = _reshape(draft, model, options.of(OpenVinoOptions), steps)
    reshaped = reshaped or changed
    # Each reading of `inputs` lists them anew: of 1,600 inputs that took seconds.
    given, made = model.inputs, model.outputs
    inputs = tuple(_port(given[t.index], t, reshaped, draft.colours) for t in draft.inputs)
    outputs = tuple(_port(made[t.index], t, reshaped) for t in draft.outputs)
    _carry_as_float32(model, inputs, outputs)
    signature = Signature(
        name=draft.name,
        inputs={port.spec.name: port.spec for port in inputs},
        outputs={port.spec.name: port.spec for port in outputs},
        method=draft.method,
        ignored=draft.ignored,
    )
    return SignaturePorts(signature, inputs, outputs, kept)


def _reshape(
    draft: Draft, model: ov.Model, options: OpenVinoOptions, steps: Preprocessing
) -> tuple[bool, frozenset[str]]:
    """Set the configured shapes; tell whether there are any, and name the row-keeping operations.

    Raises:
        LoadFailed: the model does not take these shapes.
    """
    own = _own_inputs(draft)
    given = model.inputs
    inputs = [_input_shape(given[t.index], t, steps) for t in own]
    shapes = model_shapes(inputs, _other_inputs(draft), options)
    # A model of one shape has no rows that could be mixed.
    kept = mixed_rows.keepers(model) if shapes or model.is_dynamic() else frozenset()
    if shapes:
        wanted = {given[own[i].index]: _partial(shape) for i, shape in shapes.items()}
        texts = ", ".join(f"{own[i].alias}={shape}" for i, shape in shapes.items())
        with load_failures(f"the model cannot be reshaped to {texts}"):
            model.reshape(wanted)
        if mixed := mixed_rows.mixed(model, kept):
            raise LoadFailed(f"the model cannot be reshaped to {texts}: {mixed}; keep its shape")
        check_room(model, texts)
    return bool(shapes), kept


def check_shapes(draft: Draft, options: OpenVinoOptions) -> None:
    """Refuse shapes configured for a signature without a model.

    Raises:
        LoadFailed: naming the setting.
    """
    model_shapes([], _other_inputs(draft), options)


def _own_inputs(draft: Draft) -> list[ModelTensor]:
    return [tensor for tensor in draft.inputs if not tensor.parsed]


def _other_inputs(draft: Draft) -> list[InputShape]:
    """List the inputs of clients that the server itself reads."""
    own = {tensor.alias for tensor in _own_inputs(draft)}
    listed = draft.beside.signature.inputs.values() if draft.beside else ()
    return [
        InputShape(frozenset({spec.name, spec.tensor}), spec.shape)
        for spec in listed
        if spec.name not in own
    ]


def _input_shape(port: ov.Output, tensor: ModelTensor, steps: Preprocessing) -> InputShape:
    dims = _dims(port.get_partial_shape())
    return InputShape(tensor.names, dims, preprocess.batch_axis(tensor, steps))


def _dims(shape: ov.PartialShape) -> tuple[Dimension, ...] | None:
    bounds = _bounds(shape)
    return None if bounds is None else tuple(_dim(low, high) for low, high in bounds)


def _dim(low: int, high: int) -> Dimension:
    if low == high:
        return low
    return -1 if (low, high) == (0, NO_LIMIT) else (low, high)


def _partial(shape: Sequence[Dimension]) -> ov.PartialShape:
    return ov.PartialShape(
        [ov.Dimension(*dim) if isinstance(dim, tuple) else ov.Dimension(dim) for dim in shape]
    )


def _bounds(shape: ov.PartialShape) -> DimensionBounds | None:
    if shape.rank.is_dynamic:
        return None
    return tuple(map(_bound, shape))


def _bound(dim: ov.Dimension) -> tuple[int, int]:
    high = dim.get_max_length()  # -1 where there is no limit
    return dim.get_min_length(), NO_LIMIT if high < 0 else high


def _port(port: ov.Output, tensor: ModelTensor, reshaped: bool, colours: str = RGB) -> Port:
    bounds = _bounds(port.get_partial_shape())
    if tensor.declared and not reshaped:
        shape = tensor.shape
    else:
        shape = None if bounds is None else tuple(b[0] if b[0] == b[1] else -1 for b in bounds)
    spec = TensorSpec(
        tensor.alias,
        _dtype(port, tensor),
        shape,
        tensor.tensor,
        _layout(port),
        _ranges(shape, bounds),
        colours=colours,
    )
    return Port(spec, tensor.index, bounds)


def _layout(port: ov.Output) -> str:
    """Give the layout as letters, "NHWC" of "[N,H,W,C]"; empty where none is known."""
    return str(layout_helpers.get_layout(port)).strip("[]").replace(",", "").replace("...", "")


def _ranges(
    shape: tuple[int, ...] | None, bounds: DimensionBounds | None
) -> DimensionBounds | None:
    """Give the bounds where some dimension takes several sizes, but not all."""
    if shape is None or bounds is None or len(shape) != len(bounds):
        return None
    ranged = any(
        size == -1 and bound != (0, NO_LIMIT) for size, bound in zip(shape, bounds, strict=True)
    )
    return bounds if ranged else None


def _dtype(port: ov.Output, tensor: ModelTensor) -> DataType:
    name = port.get_element_type().get_type_name()
    if name not in BY_OPENVINO:
        raise LoadFailed(
            f'tensor "{tensor.alias}" has element type {name}, which the TensorFlow Serving API '
            f"cannot carry; convert it in the model"
        )
    return BY_OPENVINO[name]


def _bf16(side: str, ports: Sequence[Port]) -> list[tuple[str, int]]:
    return [(side, port.index) for port in ports if port.spec.dtype is DataType.BF16]


def _computed_doubles(model: ov.Model, inputs: Sequence[Port]) -> list[tuple[str, int]]:
    """List the inputs of float64 that something computes with: as float32, which has infinity."""
    doubles = [port.index for port in inputs if port.spec.dtype is DataType.FP64]
    given = model.inputs
    return [
        ("input", index)
        for index in doubles
        if all(
            reader.get_node().get_type_name() != "Result"
            for reader in given[index].get_target_inputs()
        )
    ]


def _doubles(model: ov.Model, outputs: Sequence[Port]) -> list[tuple[str, int]]:
    """List the computed outputs of float64: they become float32, whose infinity would be lost."""
    made = model.outputs
    return [
        ("output", port.index)
        for port in outputs
        if port.spec.dtype is DataType.FP64
        and made[port.index].get_node().input_value(0).get_node().get_type_name()
        not in ("Parameter", "Constant")
    ]


def _carry_as_float32(model: ov.Model, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
    """Let the engine convert where numpy has no dtype. Positions stay; tensor names may go."""
    carried = [*_bf16("input", inputs), *_computed_doubles(model, inputs)]
    carried += [*_bf16("output", outputs), *_doubles(model, outputs)]
    if not carried:
        return
    with load_failures("BF16 and FP64 tensors cannot be converted"):
        for _, index in _bf16("output", outputs):
            _leave_unrounded(model.outputs[index].get_node())
        model.validate_nodes_and_infer_types()
        steps = PrePostProcessor(model)
        # numpy has no bfloat16: the conversion becomes part of the model, in front and behind.
        # Doubles are floats inside; as a double the plugin gives the largest float for infinity.
        for side, index in carried:
            getattr(steps, side)(index).tensor().set_element_type(ov.Type.f32)
        steps.build()


def _leave_unrounded(result: ov.Node) -> None:
    """Drop a last conversion to bfloat16, which the plugin cuts off; `Slot` rounds."""
    last = result.input_value(0).get_node()
    if last.get_type_name() == "Convert" and last.input_value(0).get_element_type() == ov.Type.f32:
        result.input(0).replace_source_output(last.input_value(0))


def zeros(ports: Sequence[Port], wanted: int) -> dict[str, Array] | None:
    """Give inputs of zeros or empty strings, open dimensions at `wanted`; None for open ranks."""
    shapes = {port.spec.name: port.least(wanted) for port in ports}
    if any(shape is None for shape in shapes.values()):
        return None
    return {
        port.spec.name: _filled(port.spec.dtype, shapes[port.spec.name] or ()) for port in ports
    }


def _filled(dtype: DataType, shape: tuple[int, ...]) -> Array:
    fill = b"" if dtype is DataType.STRING else 0
    return np.full(shape, fill, dtype.numpy)


_RAISE = Hint(", or raise {server.memory_budget_bytes}")


def check_room(model: ov.Model, asked: str) -> None:
    """Refuse shapes for which one request exceeds the memory limit of all requests together.

    Args:
        model: model with these shapes.
        asked: the shapes, for the error text.

    Raises:
        LoadFailed: naming the largest tensor.
    """
    largest = max(model.get_ordered_ops(), key=_least_bytes_of)
    ends = [*model.inputs, *model.outputs]
    size = max(sum(map(_least, ends)), _least_bytes_of(largest))
    if size > BUDGET.limit:
        raise LoadFailed(
            f"the model cannot be reshaped to {asked}: one request would take {size} bytes or more,"
            f' most of them for {largest.get_type_name()} "{largest.get_friendly_name()}", and all'
            f" requests together may take {BUDGET.limit}: ask for smaller sizes",
            _RAISE,
        )


def _least_bytes_of(node: ov.Node) -> int:
    """Count the bytes of an operation's outputs, except weights."""
    return 0 if node.get_type_name() == "Constant" else sum(map(_least, node.outputs()))


def _least(output: ov.Output) -> int:
    """Count the bytes of a tensor, each open size as small as it may be, but not 0."""
    shape = output.get_partial_shape()
    if shape.rank.is_dynamic:
        return 0
    sizes = [max(int(dim.get_min_length()), 1) for dim in shape]
    return math.prod(sizes) * int(output.get_element_type().size)
