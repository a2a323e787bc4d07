"""Refuses shapes that OpenVINO's shape inference accepts but its CPU plugin cannot compute.

With one thread the error of such an operation is lost, and the answer is that of the previous
request; otherwise later valid requests fail. So `running/shape_inference.py` refuses these shapes.
Measured with OpenVINO 2026.4 (`test_shape_checks.py`). `known_operations.NEVER_FAILS` relies on
these checks for the operations here; after a failure of any other the model is compiled again.
"""

from collections.abc import Callable

import openvino as ov

from ie_serving.engines.openvino.graphs.constants import known_input
from ie_serving.engines.openvino.graphs.rules import Rule, Rules
from ie_serving.engines.openvino.graphs.shapes import elements


def unfit(node: ov.Node) -> str | None:
    """Say why an operation fails with its present shapes; None if it does not."""
    return next((rule.do(node) for _, rule in _RULES.of(node)), None)


def _asks_beyond(node: ov.Node) -> str | None:
    """Compare the number of values of a `TopK` with the size of its axis, if both are known."""
    if node.get_input_partial_shape(0).rank.is_dynamic:
        return None
    axis = int(node.get_attributes()["axis"])
    asked, size = node.get_output_partial_shape(0)[axis], node.get_input_partial_shape(0)[axis]
    if size.is_dynamic or asked.get_min_length() <= size.get_length():
        return None
    name = node.get_friendly_name()
    return f"{name} is asked for the first {asked.get_min_length()} of {size.get_length()}"


def _leaves_out_more_than_one(node: ov.Node) -> str | None:
    """Find an axis of a `Squeeze` whose size is not 1."""
    axes = known_input(node, 1)
    shape = node.get_input_partial_shape(0)
    if axes is None or shape.rank.is_dynamic:
        return None
    for axis in axes.flatten().tolist():
        if shape[axis].is_static and shape[axis].get_length() != 1:
            size, name = shape[axis].get_length(), node.get_friendly_name()
            return f"{name} leaves dimension {axis} out, which has size {size} and must have 1"
    return None


def _slopes_do_not_fit(node: ov.Node) -> str | None:
    """Check that the slopes of a `PRelu` are one for each channel, or broadcast to the values.

    For other slopes the plugin enlarges the output, or fails.
    """
    shapes = [node.get_input_partial_shape(number) for number in range(2)]
    if any(shape.is_dynamic for shape in shapes):
        return None
    values, slopes = (tuple(shape.to_shape()) for shape in shapes)
    of_channels = len(slopes) == 1 < len(values) and slopes[0] == values[1]
    aligned = zip(reversed(slopes), reversed(values), strict=False)
    of_each = len(slopes) <= len(values) and all(one in (1, size) for one, size in aligned)
    if of_channels or of_each:
        return None
    return f"{node.get_friendly_name()} has slopes of shape {slopes} for values of shape {values}"


def _makes_other_sizes(node: ov.Node) -> str | None:
    """Compare the number of elements before and after a `Reshape`."""
    given, made = node.get_input_partial_shape(0), node.get_output_partial_shape(0)
    before, after = elements(given), elements(made)
    if before is None or after is None or before == after:
        return None
    return f"{node.get_friendly_name()} would make {made} of {given}, which holds {before} numbers"


def _has_nothing(node: ov.Node) -> str | None:
    """Find an input that is empty."""
    for number in range(node.get_input_size()):
        shape = node.get_input_partial_shape(number)
        if shape.is_static and 0 in shape.to_shape():
            return f"{node.get_friendly_name()} has nothing to compute with: send more"
    return None


_RULES: Rules[Callable[[ov.Node], str | None]] = Rules(
    (
        Rule("shapes_of_nothing_fail_late", "DepthToSpace SpaceToDepth", _has_nothing),
        Rule("shapes_of_nothing_fail_late", "PRelu", _slopes_do_not_fit),
        Rule("a_reshape_makes_rows_of_an_image", "Reshape", _makes_other_sizes),
        Rule("shapes_of_nothing_fail_late", "Squeeze", _leaves_out_more_than_one),
        Rule("too_many_values_are_those_of_another_request", "TopK", _asks_beyond),
    )
)
"""Checks by operation; each says why an operation fails with its shapes, or gives None."""
