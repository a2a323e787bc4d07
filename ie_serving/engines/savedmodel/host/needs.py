"""Finds by names and dtypes the nodes that the host must compute, since OpenVINO cannot.

Imported for every SavedModel; the computing modules are imported only where this finds nodes.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ie_serving.core.values.tensors import DataType
from ie_serving.engines.savedmodel.file import TensorInfo
from ie_serving.engines.savedmodel.frames import CALLS, PASSES_ON, Library, NodeOutput
from ie_serving.wire.protobuf.messages import Proto

ON_HOST = (
    "AsString DecodeBase64 DecodeBmp DecodeGif DecodeImage DecodeJpeg DecodePng DecodeRaw"
    " EncodeBase64 HashTable LookupTable MutableHashTable ParseExample ParseSingleExample"
    " ReduceJoin RegexFullMatch RegexReplace StaticRegex String Substr UnicodeTranscode"
    " AudioSpectrogram CombinedNonMaxSuppression DecodeWav Mfcc"
    " Bitcast DenseBincount RaggedBincount RaggedTensorToSparse RaggedTensorToTensor SparseReorder"
    " ResizeBicubic ScaleAndTranslate"
)
"""Prefixes of the types of operations that compute with strings, tables or images; in the last two
rows those that stand beside them, that OpenVINO lacks and that `kernels_*.py` have."""

_BEGINNINGS = tuple(ON_HOST.split())
_SOURCES = CALLS | PASSES_ON | {"Const", "Placeholder", "PlaceholderWithDefault", "VarHandleOp"}
_GIVE_TEXT = frozenset(
    {"Const", "Placeholder", "PlaceholderWithDefault", "VarHandleOp", "Variable", "VariableV2"}
)
_STRING = DataType.STRING.number

FUNCTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "If": ("then_branch", "else_branch"),
    "StatelessIf": ("then_branch", "else_branch"),
    "StatelessWhile": ("cond", "body"),
    "While": ("cond", "body"),
}
"""Attributes of loops and branches that name the functions which they call."""

FIRST_FORM = (
    "Enter",
    "Exit",
    "LoopCond",
    "Merge",
    "NextIteration",
    "Switch",
    "TensorArray",
)
"""Prefixes of the types of operations that loops and branches of TensorFlow 1 consist of."""


def on_host(node: Proto, library: Library) -> bool:
    """Tell whether a node computes with strings, tables or images, or is of the last rows above.

    A loop or branch does when anything in its functions does.
    """
    if node.op in FUNCTIONS:
        return _inside(node, library, set())
    return _by_itself(node)


def _by_itself(node: Proto) -> bool:
    if node.op in _SOURCES:
        return False
    if node.op.startswith(_BEGINNINGS):
        return True
    return any(attr.type == _STRING or _STRING in attr.list.type for attr in node.attr.values())


def _inside(node: Proto, library: Library, seen: set[str]) -> bool:
    if node.op not in CALLS and _by_itself(node):
        return True
    names = [node.attr[each].func.name for each in (*FUNCTIONS.get(node.op, ()), *_called(node))]
    new = [name for name in names if name not in seen]
    seen.update(new)
    return any(
        _inside(each, library, seen) for name in new for each in library.function(name).node_def
    )


def _called(node: Proto) -> tuple[str, ...]:
    return ("f",) if node.op in CALLS else ()


def hold_first_form(node_outputs: Iterable[NodeOutput]) -> bool:
    """Tell whether functions among `node_outputs` hold loops or branches of TensorFlow 1."""
    return any(
        node_output.node.op.startswith(FIRST_FORM)
        for node_output in node_outputs
        if node_output.node is not None and node_output.frame.parent is not None
    )


def may_need_host(outputs: Iterable[TensorInfo], node_outputs: Iterable[NodeOutput]) -> bool:
    """Tell whether the host has to compute a part of a signature.

    Every load calls this, so it looks at the sources of strings and tables, not at every attribute.

    Args:
        outputs: outputs of the signature.
        node_outputs: all from which the outputs are computed.
    """
    if any(info.dtype == _STRING for info in outputs):
        return True
    known: set[str] = set()
    for node_output in node_outputs:
        node = node_output.node
        if node is None or node.op in known:
            continue
        if node.op in _GIVE_TEXT:
            if node.attr["dtype"].type == _STRING:
                return True
        elif node.op in FUNCTIONS:
            if on_host(node, node_output.frame.library):
                return True
        elif node.op.startswith(_BEGINNINGS):
            return True
        else:
            known.add(node.op)
    return False
