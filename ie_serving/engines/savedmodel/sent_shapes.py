"""Tells of shapes that a signature does not declare whether OpenVINO computes what TensorFlow does.

TensorFlow holds requests to no declared shape; its operations refuse what they cannot compute with.
OpenVINO's operations refuse less: they repeat, and take vectors for matrices. So a request of
another rank is followed through operations that treat every rank alike, up to the Reshape that
gives the declared rank again, and one of other sizes through operations known to refuse alike.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Signature
from ie_serving.engines.savedmodel.constants import constant
from ie_serving.engines.savedmodel.file import DeclaredSignature, MetaGraph, read_graph
from ie_serving.engines.savedmodel.frames import (
    CALLS,
    Frame,
    Key,
    Library,
    NodeOutput,
    above,
    name_of,
    noted_shape,
    write_shape,
)
from ie_serving.engines.savedmodel.rewrite import deciding

SentShape = tuple[int, ...]
RankChange = tuple[int, int] | None
"""The declared rank of a tensor and the sent one; None where these are the same."""

# fmt: off
_ANY_RANK = frozenset((
    "Abs", "Add", "AddV2", "Cast", "Ceil", "Cos", "Elu", "Equal", "Erf", "Exp", "Floor",
    "FloorDiv", "FloorMod", "Greater", "GreaterEqual", "Identity", "IdentityN", "LeakyRelu",
    "Less", "LessEqual", "Log", "Log1p", "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum",
    "Minimum", "Mul", "Neg", "NotEqual", "OnesLike", "Pow", "RealDiv", "Reciprocal", "Relu",
    "Relu6", "Rsqrt", "Selu", "SelectV2", "Sigmoid", "Sign", "Sin", "Softplus", "Sqrt", "Square",
    "SquaredDifference", "StopGradient", "Sub", "Tanh", "ZerosLike",
))
"""Operations that TensorFlow and OpenVINO compute alike for every rank, element by element."""
_OTHER_RANK = frozenset(("ExpandDims", "Max", "Mean", "Min", "OneHot", "Prod", "Reshape", "Sum"))
"""The same of operations whose output has another rank, which is the declared one for Reshape."""
_PRODUCTS = frozenset(("Conv2D", "Conv3D", "DepthwiseConv2dNative", "MatMul"))
"""Products whose weights, their second input, decide how many channels the output has."""
_ANY_SIZE = _ANY_RANK | _OTHER_RANK | _PRODUCTS | frozenset((
    "All", "Any", "ArgMax", "ArgMin", "Atan2", "AvgPool", "BatchToSpaceND", "BroadcastTo",
    "CheckNumerics", "ConcatV2", "Cumsum", "DepthToSpace", "ExtractImagePatches", "Gather",
    "GatherNd", "GatherV2", "L2Loss", "LogSoftmax", "LRN", "MatrixBandPart", "MaxPool", "MirrorPad",
    "Pack", "Pad", "PadV2", "PlaceholderWithDefault", "PreventGradient", "ResizeBilinear",
    "ResourceGather", "Roll", "Snapshot", "Softmax", "SpaceToBatchND", "SpaceToDepth", "Split",
    "SplitV", "Squeeze", "Tile", "TopKV2", "Transpose", "Unpack", "Where", "Xdivy",
))
# fmt: on
"""Operations that refuse the same sizes in TensorFlow and in OpenVINO. Others, such as AddN, Slice
and Einsum, OpenVINO computes by repeating or leaving out values where TensorFlow refuses."""


@dataclass(frozen=True)
class ShapedSignature:
    """One signature for inputs of other shapes than its file declares.

    Attributes:
        name: name of the signature.
        shapes: shapes of all inputs, by the names of clients.
    """

    name: str
    shapes: Mapping[str, SentShape | None]

    def declared(
        self, meta_graph: MetaGraph, signature: DeclaredSignature, names: Mapping[str, str]
    ) -> DeclaredSignature:
        """Give the signature with these shapes, and set them in the graph.

        Args:
            meta_graph: is changed.
            signature: signature of the file.
            names: clients' names by the file's.

        Raises:
            LoadFailed: OpenVINO might compute something else than TensorFlow.
        """
        frame = Frame(Library(meta_graph.graph_def), meta_graph.graph_def)
        changed: dict[str, RankChange] = {}
        for alias, info in signature.inputs.items():
            shape = self.shapes[names[alias]]
            if shape != info.shape:
                node = frame.node_output(info.tensor).node
                changed[node.name] = len(info.shape or ()), len(shape or ())
                if node.op == "Placeholder":
                    write_shape(node.attr["shape"].shape, shape or ())
        _check([frame.node_output(each.tensor) for each in signature.outputs.values()], changed)
        inputs = {
            alias: replace(info, shape=self.shapes[names[alias]])
            for alias, info in signature.inputs.items()
        }
        outputs = {alias: replace(info, shape=None) for alias, info in signature.outputs.items()}
        return replace(signature, inputs=inputs, outputs=outputs)


def read_by(
    directory: Path, tags: Collection[str], signature: Signature
) -> Mapping[str, frozenset[str]]:
    """Name for each output of a signature the inputs from which it is computed."""
    graph_def = read_graph(directory, tags).graph_def
    frame = Frame(Library(graph_def), graph_def)
    found = {}
    for alias, output in signature.outputs.items():
        own = (
            each.node
            for each in deciding([frame.node_output(output.tensor)])
            if not each.frame.parent
        )
        names = {node.name for node in own if node is not None}
        found[alias] = frozenset(
            each for each, spec in signature.inputs.items() if name_of(spec.tensor) in names
        )
    return found


def _check(outputs: list[NodeOutput], changed: Mapping[str, RankChange]) -> None:
    """Follow inputs of other shapes downwards.

    Args:
        outputs: outputs of the signature.
        changed: ranks of such inputs, by the names of their nodes.
    """
    readers: dict[Key, list[tuple[NodeOutput, int]]] = {}
    waiting: list[tuple[NodeOutput, RankChange]] = []
    for node_output in above(outputs):
        for number, source in enumerate(node_output.sources()):
            readers.setdefault(source.key, []).append((node_output, number))
        if (
            node_output.node is not None
            and node_output.frame.parent is None
            and node_output.node.name in changed
        ):
            waiting.append((node_output, _unequal(changed[node_output.node.name])))
    seen: set[tuple[Key, RankChange]] = set()
    while waiting:
        source, ranks = waiting.pop()
        if (source.key, ranks) not in seen:
            seen.add((source.key, ranks))
            waiting.extend(
                (reader, _ranks(reader, number, ranks))
                for reader, number in readers.get(source.key, ())
            )


def _unequal(ranks: RankChange) -> RankChange:
    return None if ranks is None or ranks[0] == ranks[1] else ranks


def _ranks(reader: NodeOutput, number: int, ranks: RankChange) -> RankChange:
    """Give the ranks of what a node output computes from an input, its `number`, of other ranks.

    Raises:
        LoadFailed: TensorFlow and OpenVINO may differ there.
    """
    node = reader.node
    if node is None or node.op in CALLS:
        return ranks
    if ranks is None:
        able = _takes_any_size(reader, number)
    elif node.op == "GatherV2":
        able = number == 1 and not node.attr["batch_dims"].i
    else:
        able = node.op in _ANY_RANK or node.op in _OTHER_RANK
    if not able or (number and node.op in _OTHER_RANK):
        raise LoadFailed(f"{node.op} {node.name!r} takes the declared shape alone: send that")
    if ranks is None or node.op == "Reshape":
        return None
    if node.op in _ANY_RANK:
        return _broadcast(reader, ranks)
    return _UNKNOWN


def _takes_any_size(reader: NodeOutput, number: int) -> bool:
    """Tell whether an operation refuses the same sizes of an input, its `number`, in both."""
    node = reader.node
    if node.op in _PRODUCTS:
        return number == 0
    if node.op.startswith("FusedBatchNorm"):
        return number == 0 and not node.attr["is_training"].b
    if node.op == "BiasAdd":  # OpenVINO repeats a single channel
        return number == 0 and next(reader.sources()).origin().node.op in _PRODUCTS
    if node.op == "StridedSlice":  # OpenVINO takes the last index for one beyond
        return number == 0 and _takes_first_elements(reader)
    return node.op in _ANY_SIZE


def _takes_first_elements(reader: NodeOutput) -> bool:
    """Tell whether each index that a StridedSlice takes alone is there in every size."""
    mask, begin = reader.node.attr["shrink_axis_mask"].i, constant([*reader.sources()][1])
    if not mask:
        return True
    return begin is not None and all(
        index in (0, -1) for axis, index in enumerate(begin.tolist()) if mask >> axis & 1
    )


def _broadcast(reader: NodeOutput, ranks: RankChange) -> RankChange:
    """Give the ranks of a result that may have those of another operand: none for the declared."""
    rank = len(noted_shape(reader.node, reader.index).dim)
    assert ranks is not None
    return None if ranks[0] < rank and ranks[1] <= rank else ranks


_UNKNOWN: RankChange = -1, 99
"""Ranks of a result that no declared rank covers."""
