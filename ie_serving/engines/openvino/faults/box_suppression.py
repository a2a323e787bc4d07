"""Guards soft non-maximum suppression against boxes without an area, for which OpenVINO gets NaN.

`NonMaxSuppression` with a sigma lowers the score of a box by its overlap with a selected box, which
is 0 / 0 if both have no area. Measured with OpenVINO 2026.4 on the CPU: scores became infinite, and
with a score threshold below 0 the call did not return. In TensorFlow a box without an area overlaps
no other (non_max_suppression_op.cc), so the guard moves such a box away from all others. The
operation does not output coordinates, so its results do not show the move.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.faults.sizes import replace_where_not
from ie_serving.engines.openvino.graphs.constants import float32, int64, known_input
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Visit
from ie_serving.engines.openvino.graphs.walk import Flag, title

FAR: Final = 2.0**50
"""Distance at which boxes without an area are placed, and their side there. A power of two, so that
float32 holds the positions of the first 4,000,000 exactly; their area, 2^100, too."""
FARTHEST: Final = 1e15
"""Largest absolute coordinate, in pixels or shares of a picture; others are refused."""
BOXES, SIGMA = 0, 5
"""Inputs of the operation."""


def _guard_boxes(node: ov.Node, _: Visit) -> Iterator[Flag]:
    """Move boxes without an area away from the others; flag coordinates that are out of range."""
    if _is_soft(node):
        yield _apart(node)


def _is_soft(node: ov.Node) -> bool:
    if node.get_input_size() <= SIGMA:
        return False
    sigma = known_input(node, SIGMA)
    return sigma is None or bool(sigma.any())


def _apart(node: ov.Node) -> Flag:
    boxes = op.convert(node.input_value(BOXES), "f32")
    is_centred = node.get_attributes()["box_encoding"] == "center"
    first, second, third, fourth = (_column(boxes, index) for index in range(4))
    height, width = (
        (fourth, third) if is_centred else (op.subtract(third, first), op.subtract(fourth, second))
    )
    has_area = op.not_equal(op.multiply(height, width), float32(0))
    corners = _POSITIONS["center" if is_centred else "corner"]
    replace_where_not(node, BOXES, has_area, _far_away(boxes, corners))
    near = op.less_equal(op.abs(boxes), float32(FARTHEST))  # false for NaN
    cause = f"{title(node)} is given boxes that are no numbers, or farther away than {FARTHEST:g}"
    return Flag.unless(cause, near)


def _column(boxes: ov.Node, index: int) -> ov.Node:
    return op.gather(boxes, int64([index]), int64(2))


def _far_away(boxes: ov.Node, positions: tuple[tuple[float, float], ...]) -> ov.Node:
    """Give a far box for each of `boxes`, side by side, shape (number of boxes, 4)."""
    count = op.gather(op.shape_of(boxes), int64(1), int64(0))
    numbers = op.unsqueeze(op.range(int64(0), count, int64(1), "f32"), int64([1]))
    step, begin = (float32([[pair[at] * FAR for pair in positions]]) for at in (0, 1))
    return op.add(op.multiply(numbers, step), begin)


_POSITIONS: Final[Mapping[str, tuple[tuple[float, float], ...]]] = {
    "corner": ((0, 1), (2, 2), (0, 2), (2, 3)),
    "center": ((2, 2.5), (0, 1.5), (0, 1), (0, 1)),
}
"""Places of a box's 4 numbers, by encoding: the step of each number from one far box to the next,
and its value in the first, in units of `FAR`. Corners are y, x, y, x; others centre x and y, width,
height."""

RULES: Sequence[Rule[Ask]] = (Rule("points_are_suppressed", "NonMaxSuppression", _guard_boxes),)
