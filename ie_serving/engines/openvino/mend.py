"""Operations that OpenVINO's CPU plugin runs wrongly as they stand, changed before the compile.

Each fault was measured with OpenVINO 2026.4; `docs/design.md` section 11 lists them, and
`tests/unit/engines/openvino/test_mend.py` shows each:

- `SparseFillEmptyRows` gives its flags of empty rows in a form that the operations behind it
  refuse: "unsupported src_prc: boolean".
- `StridedSlice` with an ellipsis between other entries writes beyond its memory where its masks are
  shorter than its beginnings, as the front end for TensorFlow leaves them: other values change, or
  the process ends.
- `Unique` gives zeros unless something reads the place of each element among the unique ones.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.graphs.bodies import bodies
from ie_serving.engines.openvino.graphs.constants import int32

_FLAGS = 2
"""Number of the output of SparseFillEmptyRows that tells which rows were empty."""
_SLICE = "StridedSlice"
_PLACES = 2
"""Number of the output of Unique that tells where each element is among the unique ones."""


def mend(model: ov.Model) -> None:
    """Change the operations that would give wrong answers; inside of bodies, slices alone."""
    for node in model.get_ordered_ops():
        change = _CHANGES.get(node.get_type_name())
        if change is not None:
            change(model, node)
        for body in bodies(node):
            _fill_masks_of_all(body)


def _fill_masks_of_all(body: ov.Model) -> None:
    for node in body.get_ordered_ops():
        if node.get_type_name() == _SLICE:
            _fill_masks(body, node)
        for inner in bodies(node):
            _fill_masks_of_all(inner)


def _fill_masks(_: ov.Model, node: ov.Node) -> None:
    """Let each mask have an entry for each beginning; those that lack mean 0."""
    count = node.get_input_partial_shape(1)[0]
    masks = node.get_attributes()
    if count.is_dynamic or not any(masks["ellipsis_mask"]):
        return
    for name, mask in masks.items():
        node.set_attribute(name, [*mask, *[0] * (count.get_length() - len(mask))])


def _convert_flags(_: ov.Model, node: ov.Node) -> None:
    flags = node.output(_FLAGS)
    readers = list(flags.get_target_inputs())
    if not readers:
        return
    converted = op.not_equal(op.convert(flags, "i32"), int32(0)).output(0)
    for reader in readers:
        reader.replace_source_output(converted)


def _read_places(model: ov.Model, node: ov.Node) -> None:
    places = node.output(_PLACES)
    if not places.get_target_inputs():
        model.add_results([op.result(places)])


_CHANGES: Mapping[str, Callable[[ov.Model, ov.Node], None]] = MappingProxyType(
    {_SLICE: _fill_masks, "SparseFillEmptyRows": _convert_flags, "Unique": _read_places}
)
