"""Refuses operations on strings that OpenVINO's CPU plugin does not handle correctly.

With OpenVINO 2026.4 `Slice`, `StridedSlice`, `Split`, `VariadicSplit`, `ScatterUpdate`,
`SliceScatter` and `DepthToSpace` copy strings byte by byte, so that two strings own one memory and
the process ends. Operations known to be correct are accepted; every other operation of OpenVINO is
refused at load. Operations of extensions, such as tokenizers, are made for strings and accepted.
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
"""Correct operations; `test_strings.py` runs each 200 times with strings that own memory."""
_OWN = "opset"
"""Prefix of the version of OpenVINO's own operations."""


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
"""Applied after `rewrites.READ`, which corrects some operations."""
