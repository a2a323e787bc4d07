"""New input shapes from the options `batch_size` and `shape`. Pure: shapes in, shapes out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ie_serving.core.settings.numbers import Dimension
from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.options import OpenVinoOptions

PortShape = tuple[Dimension, ...]
ANY = -1
"""Size of a dimension that may have any."""
AUTO = "auto"


@dataclass(frozen=True)
class InputShape:
    """One input before reshaping.

    Attributes:
        names: every name it goes by: its alias and the engine's tensor names.
        dims: its shape; None when the rank is open.
        batch: index of the batch dimension.
    """

    names: frozenset[str]
    dims: PortShape | None
    batch: int = 0

    def __str__(self) -> str:
        return "/".join(sorted(self.names))


def model_shapes(
    own: Sequence[InputShape], others: Sequence[InputShape], options: OpenVinoOptions
) -> dict[int, PortShape]:
    """Give the shapes to set, by position of the model's own inputs.

    Args:
        own: inputs of the model.
        others: inputs of the signature that the server itself reads, whose shapes stay.
        options: options of all signatures.

    Raises:
        LoadFailed: as `new_shapes`, or one of the others would need another shape.
    """
    shapes = new_shapes([*own, *others], options)
    for i, given in enumerate(others, len(own)):
        if shapes.get(i, given.dims) != given.dims:
            raise _stays(given, options)
    return {i: shape for i, shape in shapes.items() if i < len(own)}


def _stays(given: InputShape, options: OpenVinoOptions) -> LoadFailed:
    setting = "batch_size" if options.shape is None else "shape"
    own = "of any rank" if given.dims is None else f"of the shape {given.dims}"
    return LoadFailed(
        f"{setting}: cannot be applied to input {given}, {own}, which the server itself reads and"
        f" OpenVINO's model does not (Examples, strings or tables): leave {setting} out"
    )


def new_shapes(inputs: Sequence[InputShape], options: OpenVinoOptions) -> dict[int, PortShape]:
    """Give the shapes to set, by position of the input; those not named keep theirs.

    `shape` wins over `batch_size`, as in 2020.

    Raises:
        LoadFailed: an unknown input, or one shape for a model of several inputs.
    """
    shape = options.shape
    if shape is None:
        return {} if options.batch_size is None else _batched(inputs, options.batch_size)
    if isinstance(shape, str):
        return _automatic(inputs, shape)
    if isinstance(shape, Mapping):
        return _shapes_by_index(inputs, shape)
    return _of_only(inputs, shape)


def _of_only(inputs: Sequence[InputShape], shape: PortShape) -> dict[int, PortShape]:
    # The text begins as that of 2020, for which scripts may look.
    if len(inputs) != 1:
        raise LoadFailed(
            f"Noname shape specified for model with multiple inputs: give a shape for each of "
            f"{_inputs_text(inputs)} by name"
        )
    return {0: shape}


def _batched(inputs: Sequence[InputShape], batch_size: Dimension) -> dict[int, PortShape]:
    """Set the batch dimension, most often the first, of every input that has one."""
    # Inputs without a dimension are scalars, such as a threshold, which no batch changes.
    shapes = {i: _with_batch(given, batch_size) for i, given in enumerate(inputs) if given.dims}
    if not shapes and not _takes_any(inputs, batch_size):
        asked = "auto" if batch_size == ANY else batch_size
        raise LoadFailed(
            f"batch_size {asked} is set, but no input has a first dimension: leave it unset"
        )
    return shapes


def _takes_any(inputs: Sequence[InputShape], batch_size: Dimension) -> bool:
    """Tell whether the option is any batch and inputs have open rank, so they already take any."""
    return batch_size == ANY and any(given.dims is None for given in inputs)


def _automatic(inputs: Sequence[InputShape], word: str) -> dict[int, PortShape]:
    if word != AUTO:
        raise LoadFailed(f"shape {word!r} is not known; expected {AUTO!r} or dimensions")
    return {i: _any(given.dims) for i, given in enumerate(inputs) if given.dims}


def _with_batch(given: InputShape, batch_size: Dimension) -> PortShape:
    dims = list(given.dims or ())
    dims[given.batch] = batch_size
    return tuple(dims)


def _any(dims: PortShape) -> PortShape:
    return (ANY,) * len(dims)


def _shapes_by_index(
    inputs: Sequence[InputShape], shapes: Mapping[str, PortShape | str]
) -> dict[int, PortShape]:
    found: dict[int, PortShape] = {}
    for name, shape in shapes.items():
        positions = [i for i, given in enumerate(inputs) if name in given.names]
        if not positions:
            raise LoadFailed(f"shape names no input {name!r}; the model has {_inputs_text(inputs)}")
        first = positions[0]
        found |= {first: shape} if not isinstance(shape, str) else _auto_of(inputs, first)
    return found


def _auto_of(inputs: Sequence[InputShape], position: int) -> dict[int, PortShape]:
    dims = inputs[position].dims
    return {position: _any(dims)} if dims else {}


def _inputs_text(inputs: Sequence[InputShape]) -> str:
    return ", ".join(map(str, inputs))
