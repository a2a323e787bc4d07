"""Refuses input shapes that do not fit together, before the engine sees them.

The CPU plugin would raise for them as well, but is unreliable afterwards: with 2026.4, after an
inference that failed for its shapes the next valid one can silently answer from freed memory. So
every new combination is first tried on a copy of the model without weights. The same copy shows
where an operation gets an empty input and is skipped (`faults/hazards.py`).

It also refuses shapes that OpenVINO's shape inference accepts but its CPU plugin cannot compute.
With one thread the error of such an operation is lost, and the outputs are those of the previous
request; otherwise later valid requests fail. Measured with OpenVINO 2026.4
(`test_shape_checks.py`). `known_operations.NEVER_FAILS` relies on these checks for the operations
here; after a failure of any other the model is compiled again.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import openvino as ov

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import InvalidTensor, QueueFull
from ie_serving.engines.openvino.error_texts import in_words
from ie_serving.engines.openvino.faults.hazards import input_shapes, output_shapes, skips_empty
from ie_serving.engines.openvino.faults.known_operations import EMPTY_FROM_EMPTY
from ie_serving.engines.openvino.graphs.constants import known_input
from ie_serving.engines.openvino.graphs.rules import Rule, Rules
from ie_serving.engines.openvino.graphs.walk import elements, operations
from ie_serving.engines.openvino.graphs.weightless import WeightlessCopy, fix
from ie_serving.engines.openvino.interface import mixed_rows
from ie_serving.engines.openvino.interface.tensor_specs import Port
from ie_serving.engines.run.infer_request import MOST_INFER_WAITERS, Shapes

KNOWN_LIMIT = 4096
"""Combinations that fit and are remembered, about 200 bytes each; for one more the oldest is
forgotten, and tried again when it comes."""
HELD = frozenset({"Constant", "Parameter"})
"""Operations whose memory exists before an inference: weights, and inputs, which are counted."""
REFUSED_LIMIT = 64
"""Refused combinations that are remembered with their error text; for one more the oldest is
forgotten. Fewer than accepted ones, since a client with wrong shapes sends many."""

T = TypeVar("T")

TRIAL_THREAD = ThreadPoolExecutor(1, thread_name_prefix="shapes")
"""Shared by all models: each has one combination at a time here. OpenVINO frees the interpreter."""


class ShapeInference:
    """Tells whether a model takes a combination of input shapes. Used from one event loop.

    See `engines.run.infer_request.ShapeAdmission`.

    Known combinations are looked up; a new one is inferred in a thread, one at a time, so that many
    new shapes block neither the loop nor more than one thread. A second request for a combination
    that is being inferred waits for its turn, and then finds it known.
    """

    def __init__(
        self, twin: WeightlessCopy, inputs: Sequence[Port], keepers: Collection[str] = ()
    ) -> None:
        self.names = [port.spec.name for port in inputs]
        self._indices = [port.index for port in inputs]
        self._keepers = keepers
        self._model = twin.model
        self._readers = [
            pair.copied for pair in twin.pairs if not pair.inside and _may_read_nothing(pair.node)
        ]
        self.known: dict[Shapes, None] = {}
        self._refused: dict[Shapes, str] = {}
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def check(self, shapes: Shapes) -> None:
        """Try shapes, in the order of the inputs.

        Raises:
            InvalidTensor: with the shapes and the operation that refuses them.
            QueueFull: `MOST_INFER_WAITERS` wait for their turn already.
        """
        self._check_room()
        self._waiting += 1
        try:
            async with self._turn:
                await self._learn(shapes)
        finally:
            self._waiting -= 1
        if shapes in self._refused:
            raise InvalidTensor(self._refused[shapes])

    def _check_room(self) -> None:
        if self._waiting >= MOST_INFER_WAITERS:
            raise QueueFull(
                f"{MOST_INFER_WAITERS} requests of new shapes wait for this model already: ask"
                " again later, or send fewer shapes"
            )

    async def _learn(self, shapes: Shapes) -> None:
        # Learnt while this request waited for its turn: most waiting ones repeat the first.
        if shapes in self.known or shapes in self._refused:
            return
        loop = asyncio.get_running_loop()
        fit, refusal = await loop.run_in_executor(TRIAL_THREAD, self.try_shapes, shapes)
        if refusal is not None:
            _remember(self._refused, shapes, refusal, REFUSED_LIMIT)
        elif fit:
            _remember(self.known, shapes, None, KNOWN_LIMIT)

    def try_shapes(self, shapes: Shapes) -> tuple[bool, str | None]:
        """Tell whether `shapes` may be remembered, or why the model does not take them. Blocking.

        A combination that gives an operation an empty input is not remembered: with some operations
        fused behind it, it fails, so each such request has to run in the way that keeps errors.
        """
        try:
            fix(self._model, dict(zip(self._indices, map(_closed, shapes), strict=True)))
        except RuntimeError as error:
            return False, f"{self._refusal_text(shapes)}: {in_words(error)}"
        if mixed := mixed_rows.mixed(self._model, self._keepers):
            return False, f"{self._refusal_text(shapes)}: {mixed}; send another shape"
        reading = [node for node in self._readers if _reads_nothing(node)]
        skipped = [str(node.get_friendly_name()) for node in reading if skips_empty(node)]
        if skipped:
            given, names = self._refusal_text(shapes), ", ".join(skipped)
            return False, f"{given}: nothing is left for {names} to compute with: send more"
        computing = (node for node in operations(self._model) if node.get_type_name() not in HELD)
        fault = next(filter(None, (unfit(node) or _too_large(node) for node in computing)), None)
        return not reading, fault and f"{self._refusal_text(shapes)}: {fault}"

    def _refusal_text(self, shapes: Shapes) -> str:
        pairs = zip(self.names, shapes, strict=True)
        given = ", ".join(f'"{name}" {shape}' for name, shape in pairs)
        return f"the model cannot take inputs of shape {given}"


def _closed(shape: tuple[int, ...]) -> ov.PartialShape:
    return ov.PartialShape(list(shape))


def _may_read_nothing(node: ov.Node) -> bool:
    """Tell whether some input of the operation may be empty, and its output not."""
    name = node.get_type_name()
    return name not in EMPTY_FROM_EMPTY and any(shape.is_dynamic for shape in input_shapes(node))


def _reads_nothing(node: ov.Node) -> bool:
    """Tell whether an input is empty and an output is not, or need not be."""
    if not any(_is_empty(node, number) for number in range(node.get_input_size())):
        return False
    # OpenVINO infers that an empty `Unique` gives nothing; the plugin leaves its output as it was.
    return node.get_type_name() == "Unique" or any(map(_may_hold_something, output_shapes(node)))


# An output whose shape depends on values, as that of `Unique`, is open even where all inputs are
# known; skipped for an empty input, it keeps the shape of the request before, and its values.
def _may_hold_something(shape: ov.PartialShape) -> bool:
    return bool(shape.rank.is_dynamic) or all(dim.get_max_length() != 0 for dim in shape)


def _too_large(node: ov.Node) -> str | None:
    """Say that an operation gives more than all requests together may hold, if it does."""
    size = max((_bytes(node, number) for number in range(node.get_output_size())), default=0)
    if size <= BUDGET.limit:
        return None
    most = f"all requests together may take {BUDGET.limit}: send less at once"
    return f"{node.get_friendly_name()} would give {size} bytes, and {most}"


def _bytes(node: ov.Node, number: int) -> int:
    """Give the size of an output; 0 where it is not known."""
    count = elements(node.get_output_partial_shape(number)) or 0
    return count * int(node.get_output_element_type(number).size)


def _is_empty(node: ov.Node, number: int) -> bool:
    """Tell whether an input is known to be empty."""
    return elements(node.get_input_partial_shape(number)) == 0


def _remember(known: dict[Shapes, T], shapes: Shapes, what: T, most: int) -> None:
    """Add an entry; the oldest goes when there are `most`."""
    # The oldest, not the longest unused: moving an entry at each use would cost every request.
    if len(known) >= most:
        del known[next(iter(known))]
    known[shapes] = what


def unfit(node: ov.Node) -> str | None:
    """Say why an operation fails with its present shapes; None if it does not."""
    return next((rule.do(node) for _, rule in RULES.of(node)), None)


def _asks_beyond(node: ov.Node) -> str | None:
    """Compare the number of values of a `TopK` with the size of its axis, if both are known."""
    if node.get_input_partial_shape(0).rank.is_dynamic:
        return None
    axis = int(node.get_attributes()["axis"])
    asked, size = node.get_output_partial_shape(0)[axis], node.get_input_partial_shape(0)[axis]
    if size.is_dynamic or asked.get_min_length() <= size.get_length():
        return None
    name, least = node.get_friendly_name(), asked.get_min_length()
    return f"{name} is asked for the first {least} of {size.get_length()}: send more"


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
    name = node.get_friendly_name()
    return f"{name} has slopes of shape {slopes} for values of shape {values}: send another shape"


def _makes_other_sizes(node: ov.Node) -> str | None:
    """Compare the number of elements before and after a `Reshape`."""
    given, made = node.get_input_partial_shape(0), node.get_output_partial_shape(0)
    before, after = elements(given), elements(made)
    if before is None or after is None or before == after:
        return None
    what = f"{given}, which holds {before} numbers: send another shape"
    return f"{node.get_friendly_name()} would make {made} of {what}"


def _has_nothing(node: ov.Node) -> str | None:
    """Find an input that is empty."""
    for number in range(node.get_input_size()):
        shape = node.get_input_partial_shape(number)
        if shape.is_static and 0 in shape.to_shape():
            return f"{node.get_friendly_name()} has nothing to compute with: send more"
    return None


RULES: Rules[Callable[[ov.Node], str | None]] = Rules(
    (
        Rule("shapes_of_nothing_fail_late", "DepthToSpace SpaceToDepth", _has_nothing),
        Rule("shapes_of_nothing_fail_late", "PRelu", _slopes_do_not_fit),
        Rule("a_reshape_makes_rows_of_an_image", "Reshape", _makes_other_sizes),
        Rule("shapes_of_nothing_fail_late", "Squeeze", _leaves_out_more_than_one),
        Rule("too_many_values_are_those_of_another_request", "TopK", _asks_beyond),
    )
)
"""Checks by operation; each says why an operation fails with its shapes, or gives None."""
