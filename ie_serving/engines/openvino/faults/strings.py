"""Operations on strings: those that the CPU plugin does not do right are refused.

With OpenVINO 2026.4 `Slice`, `StridedSlice`, `Split`, `VariadicSplit`, `ScatterUpdate`,
`SliceScatter` and `DepthToSpace` copy strings byte by byte, so that two of them own one memory, and
the process ends. What is known to be right is taken; every other operation of OpenVINO's own is
refused before it is tried. Those of extensions, such as tokenizers, are written for strings.
"""

import openvino as ov

from ie_serving.core.errors import LoadFailed
from ie_serving.engines.openvino.graphs.bodies import bodies
from ie_serving.engines.openvino.graphs.walk import operations

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


def check_texts(model: ov.Model) -> None:
    """Refuse operations that would spoil strings, those of bodies too.

    Raises:
        LoadFailed: naming the operation.
    """
    for node in operations(model):
        for body in bodies(node):
            check_texts(body)
        kind = node.get_type_name()
        is_own = str(node.get_type_info().version_id).startswith(_OWN)
        if is_own and kind not in RIGHT and _has_texts(node):
            raise LoadFailed(
                f"operation {node.get_friendly_name()} is a {kind} of strings, in which OpenVINO"
                " loses their memory: take it out of the model, or do it in the client"
            )


def _has_texts(node: ov.Node) -> bool:
    ports = (*node.inputs(), *node.outputs())
    return any(port.get_element_type() == ov.Type.string for port in ports)
