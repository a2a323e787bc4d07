"""Adds layout, mean, scale, colours and element type to a model by OpenVINO's PrePostProcessor.

Afterwards the model's inputs and outputs are those of clients, so metadata, checks and reshaping
need no knowledge of preprocessing. Element type comes first, then colours, size, mean and scale,
and at last the model's own layout: mean and scale are in the model's order of colours.
"""

from collections.abc import Sequence

import openvino as ov
from openvino.preprocess import ColorFormat, PrePostProcessor, ResizeAlgorithm

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.error_texts import load_failures
from ie_serving.engines.openvino.interface.draft import Draft, ModelTensor
from ie_serving.engines.preprocessing import Preprocessing, PropertyPair

BATCH = "N"
SPATIAL = ("H", "W")


def check(draft: Draft, options: Preprocessing) -> None:
    """Refuse preprocessing that cannot be done as configured.

    Raises:
        LoadFailed: the server changes the inputs before the model, a name is unknown, or a setting
            for a single input meets several.
    """
    if not options.asked:
        return
    if draft.beside is not None:
        raise LoadFailed(
            f"{options.asked}: cannot be applied to signature {draft.name!r}, whose inputs the"
            " server itself prepares for the model (Examples, strings or tables): leave it out"
        )
    if options.of_only_input and len(draft.inputs) != 1:
        raise LoadFailed(
            f"{options.asked}: meant for a model with one input; this one has"
            f" {_aliases_text(draft.inputs)}: convert it with preprocessing in it, or name the"
            " inputs of layout"
        )
    for name in options.layouts:
        if not any(name in tensor.names for tensor in (*draft.inputs, *draft.outputs)):
            known = _aliases_text((*draft.inputs, *draft.outputs))
            raise LoadFailed(f"layout names no input or output {name!r}; the model has {known}")


def apply(draft: Draft, model: ov.Model, options: Preprocessing) -> bool:
    """Put the steps around the model, which `check` allows; tell whether there were any.

    Positions stay.

    Raises:
        LoadFailed: the model cannot take them, for example since channels and means differ.
    """
    if not options.asked:
        return False
    with load_failures(f"{options.asked}: cannot be applied to the model"):
        steps = PrePostProcessor(model)
        for tensor in draft.inputs:
            _set_layout(steps.input(tensor.index), layout_of(tensor, options, is_input=True))
        for tensor in draft.outputs:
            _set_layout(steps.output(tensor.index), layout_of(tensor, options, is_input=False))
        if options.of_only_input:
            only = draft.inputs[0]
            _check_resize(only, model.inputs[only.index].get_partial_shape(), options)
            _add_steps(steps.input(only.index), options)
        steps.build()
    return True


def layout_of(
    tensor: ModelTensor, options: Preprocessing, *, is_input: bool
) -> PropertyPair | None:
    """Give the configured layout of a tensor."""
    if isinstance(options.layout, PropertyPair):  # one without a name is of the only input
        return options.layout if is_input else None
    return next((pair for name, pair in options.layouts.items() if name in tensor.names), None)


def batch_axis(tensor: ModelTensor, options: Preprocessing) -> int:
    """Give the dimension of an input that is the batch, as its layout says; else the first."""
    pair = layout_of(tensor, options, is_input=True)
    layout = ov.Layout(pair.client) if pair else None
    return layout.get_index_by_name(BATCH) if layout and layout.has_name(BATCH) else 0


# Inputs and outputs have the same two methods, and no class in common.
def _set_layout(
    side: "ov.preprocess.InputInfo | ov.preprocess.OutputInfo", pair: PropertyPair | None
) -> None:
    if pair is not None:
        side.tensor().set_layout(ov.Layout(pair.client))
        side.model().set_layout(ov.Layout(pair.model or pair.client))


def _add_steps(side: "ov.preprocess.InputInfo", options: Preprocessing) -> None:
    steps, colours, types = side.preprocess(), options.color_format, options.precision
    if types:
        side.tensor().set_element_type(getattr(ov.Type, types.client))
        # Between two pixels of whole numbers lies a fraction.
        computed = types.model or ("f32" if options.resize else "")
        if computed:
            steps.convert_element_type(getattr(ov.Type, computed))
    if colours and colours.client != colours.model:
        side.tensor().set_color_format(getattr(ColorFormat, colours.client))
        steps.convert_color(getattr(ColorFormat, colours.model))
    if options.resize:
        side.tensor().set_spatial_dynamic_shape()
        steps.resize(getattr(ResizeAlgorithm, f"RESIZE_{options.resize.upper()}"))
    if options.mean:
        steps.mean(_values(options.mean))
    if options.scale:
        steps.scale(_values(options.scale))


def _check_resize(tensor: ModelTensor, shape: ov.PartialShape, options: Preprocessing) -> None:
    """Refuse to resize where height and width are not known.

    Raises:
        LoadFailed: the layout does not name them, or the model takes any.
    """
    if not options.resize:
        return
    pair = layout_of(tensor, options, is_input=True)
    layout = ov.Layout(pair.model or pair.client) if pair else ov.Layout()
    if not all(layout.has_name(side) for side in SPATIAL):
        raise LoadFailed(
            "resize: layout must say which dimensions are height and width, such as NHWC:NCHW"
        )
    sizes = [shape[layout.get_index_by_name(side)] for side in SPATIAL]
    if any(size.is_dynamic for size in sizes):
        raise LoadFailed(
            f"resize: the model takes images of other sizes itself, {shape}: remove resize, or"
            " export the model with one height and width"
        )


def _values(numbers: Sequence[float]) -> float | list[float]:
    """One number is for every element, and needs no layout that says where the channels are."""
    return numbers[0] if len(numbers) == 1 else list(numbers)


def _aliases_text(tensors: Sequence[ModelTensor]) -> str:
    return ", ".join(tensor.alias for tensor in tensors) or "none"
