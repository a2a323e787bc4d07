"""Operations on strings: those that the CPU plugin does not do right are refused.

With OpenVINO 2026.4 `Slice`, `StridedSlice`, `Split`, `VariadicSplit`, `ScatterUpdate`,
`SliceScatter` and `DepthToSpace` copy strings byte by byte, so that two of them own one memory, and
the process ends. What is known to be right is taken; every other operation of OpenVINO's own is
refused before it is tried. Those of extensions, such as tokenizers, are written for strings.
"""

from collections.abc import Sequence

import openvino as ov

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Visit

RIGHT = frozenset(
    {
        *("Parameter", "Constant", "Result", "If", "ShapeOf"),
        *("Reshape", "Squeeze", "Unsqueeze", "Transpose", "Concat", "Gather"),
        *("StringTensorPack", "StringTensorUnpack"),
    }
)
"""`test_strings.py` asks each 200 times, with strings that own memory."""
_OWN = "opset"
"""What the version of an operation begins with that is OpenVINO's own."""


def _refuse_strings(node: ov.Node, _: Visit) -> None:
    kind = node.get_type_name()
    is_own = str(node.get_type_info().version_id).startswith(_OWN)
    if is_own and kind not in RIGHT and _has_strings(node):
        raise LoadFailed(
            f"operation {node.get_friendly_name()} is a {kind} of strings, in which OpenVINO"
            " loses their memory: take it out of the model, or do it in the client"
        )


def _has_strings(node: ov.Node) -> bool:
    ports = (*node.inputs(), *node.outputs())
    return any(port.get_element_type() == ov.Type.string for port in ports)


RULES: Sequence[Rule[Ask]] = (Rule("strings_are_freed_twice", "", _refuse_strings),)
"""Behind `rewrites.READ`, which makes some operations right."""
