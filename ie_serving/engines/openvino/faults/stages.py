"""All rules that work around faults of OpenVINO, in the order of a load: one graph walk a stage.

`docs/design/data.md` lists the passes over whole graphs that run between these stages.
"""

from ie_serving.engines.openvino.faults import (
    box_suppression,
    fusions,
    indices,
    limits,
    nonfinite,
    quantization,
    ranges,
    rewrites,
    sizes,
    strings,
)
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Rules, note_source

TENSORFLOW: Rules[Ask] = Rules(quantization.RULES)
"""For a graph from TensorFlow's front end. `reading/onnx_graph.py` has those for ONNX."""
READ: Rules[Ask] = Rules(rewrites.READ, nonfinite.RULES)
"""For a graph from any front end."""
KEEPING_NONFINITE: Rules[Ask] = Rules(nonfinite.KEEPING)
"""For a graph that keeps NaN and infinity."""
STRINGS: Rules[Ask] = Rules(strings.RULES)
"""After `READ`, which corrects some operations on strings."""
SIZED: Rules[Ask] = Rules(rewrites.SIZED, fusions.RULES)
"""Once the sizes of the inputs are final."""


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
        ranges.LOOP_RULES,
    )


VALUES = _values()
"""Guards against values of requests, in a graph and in all bodies inside it."""
VALUES_WITH_NONFINITE = _values(*nonfinite.REFUSED)
"""After `KEEPING_NONFINITE`."""
