"""All rules for what OpenVINO gets wrong, in the order of a load: one walk of the graph a stage.

Three passes are no rules for single operations, since they follow values or shapes through a graph:

- `integers/exact.py`, in front of `VALUES`: between which bounds integers lie, then what makes the
  operations on them exact;
- `shared_sizes.py` and `hazards.py`, behind it: what shows in a copy without weights whose inputs
  have fixed shapes;
- `absolutes.py`, at the end: operations that other rules have added count, too.
"""

from ie_serving.engines.openvino.faults import (
    box_suppression,
    indices,
    limits,
    loop_rounds,
    nonfinite,
    quantization,
    ranges,
    rewrites,
    sizes,
    strings,
)
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Rules
from ie_serving.engines.openvino.graphs.sources import note_source

TENSORFLOW: Rules[Ask] = Rules(quantization.RULES)
"""A graph that TensorFlow's front end made. That of ONNX: `reading/onnx_graph.py`."""
READ: Rules[Ask] = Rules(rewrites.READ)
"""A graph of any front end."""
KEEPING_NONFINITE: Rules[Ask] = Rules(nonfinite.KEEPING)
"""A graph for requests with NaN or infinity."""
STRINGS: Rules[Ask] = Rules(strings.RULES)
"""Behind `READ`, which makes some operations on strings right."""
SIZED: Rules[Ask] = Rules(rewrites.SIZED)
"""Once the sizes of the inputs are what they will be."""


def _values(*first: Rule[Ask]) -> Rules[Ask]:
    return Rules(
        (Rule("", "", note_source),),
        limits.REFUSED,
        first,
        sizes.RULES,
        ranges.RULES,
        indices.RULES,
        limits.RULES,
        box_suppression.RULES,
        loop_rounds.RULES,
    )


VALUES = _values()
"""What the values of a request may ask of a graph, and of all bodies inside of it."""
VALUES_WITH_NONFINITE = _values(*nonfinite.REFUSED)
"""Behind `KEEPING_NONFINITE`."""
