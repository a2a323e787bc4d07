"""All rules for what OpenVINO gets wrong, in the order of a load: one walk of the graph a stage.

`docs/design/map.md`, section 11, has the passes between them that follow something through a graph.
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
