"""Rewrite: numeric operations that OpenVINO lacks, or computes in another way, are written out.

Each is put together from operations that it has, in the graph and in every function alike, so it
does not matter where it is called from. Its last operation keeps the node's name.

| operation | what stands in its place | because |
|---|---|---|
| `SparseSegmentSum` | the segment sum of the gathered rows | no rule converts it |
| `SegmentMean` | the segment sum over the number of rows, at least 1 | no rule converts it |
| `DenseBincount` | the sum, or the maximum, of one-hot rows | no rule converts it |
| `ScatterNd` | an addition to zeros | OpenVINO keeps one of several values for one place |
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from ie_serving.core.tensors import BY_NUMPY, Array, DataType
from ie_serving.wire.protobuf.messages import Proto

_INT32 = DataType.INT32.number


class Body:
    """The nodes of the graph or of one function, to which nodes are added.

    Args of the constructor:
        nodes: of the graph or the function.
        function: the FunctionDef; None for the graph.
    """

    def __init__(self, nodes: Proto, function: Proto | None) -> None:
        self.nodes = nodes
        self._function = function
        self._by_name = {node.name: node for node in nodes}

    def add(self, op: str, inputs: Sequence[str], output: str = "output", **types: int) -> str:
        """Add a node and give the reference to its first output, whose name is `output`."""
        node = self.nodes.add(name=f"ie_serving_replaced_{len(self.nodes)}", op=op)
        node.input.extend(inputs)
        for name, dtype in types.items():
            node.attr[name].type = dtype
        return node.name if self._function is None else f"{node.name}:{output}:0"

    def constant(self, value: object, dtype: type = np.int32) -> str:
        """Add a Const."""
        array: Array = np.asarray(value, dtype)
        number = BY_NUMPY[array.dtype].number
        reference = self.add("Const", [], dtype=number)
        tensor = self.nodes[-1].attr["value"].tensor
        tensor.dtype = number
        tensor.tensor_shape.SetInParent()
        for size in array.shape:
            tensor.tensor_shape.dim.add(size=size)
        tensor.tensor_content = array.tobytes()
        return reference

    def is_empty_constant(self, reference: str) -> bool:
        """Tell whether a reference is to a Const without elements."""
        node = self._by_name.get(reference.partition(":")[0])
        if node is None or node.op != "Const":
            return False
        return any(dim.size == 0 for dim in node.attr["value"].tensor.tensor_shape.dim)

    def become(self, node: Proto, op: str, inputs: Sequence[str], output: str = "output") -> None:
        """Make a node another operation, whose output is called `output` in functions.

        The output of every operation that is replaced here is called "output" there.
        """
        controls = [reference for reference in node.input if reference.startswith("^")]
        node.op = op
        del node.input[:]
        node.input.extend([*inputs, *controls])
        if self._function is not None and output != "output":
            self._rename(f"{node.name}:output:0", f"{node.name}:{output}:0")

    def _rename(self, old: str, new: str) -> None:
        assert self._function is not None  # a graph refers to outputs by number
        for node in self.nodes:
            for at, reference in enumerate(node.input):
                if reference == old:
                    node.input[at] = new
        for name, reference in self._function.ret.items():
            if reference == old:
                self._function.ret[name] = new


def _segments(body: Body, ids: str, dtype: int) -> str:
    """Give the number of segments: the greatest of `ids` and one more, none for no ids."""
    kind = np.int32 if dtype == _INT32 else np.int64
    none = body.constant([-1], kind)
    padded = body.add("ConcatV2", [ids, none, body.constant(0)], T=dtype, Tidx=_INT32)
    body.nodes[-1].attr["N"].i = 2
    greatest = body.add("Max", [padded, body.constant([0])], T=dtype, Tidx=_INT32)
    return body.add("AddV2", [greatest, body.constant(1, kind)], "z", T=dtype)


def _sparse_segment_sum(body: Body, node: Proto) -> None:
    data, places, ids = node.input[:3]
    id_type = node.attr["Tsegmentids"].type or _INT32
    types = {"Tparams": node.attr["T"].type, "Tindices": node.attr["Tidx"].type or _INT32}
    rows = body.add("GatherV2", [data, places, body.constant(0)], Taxis=_INT32, **types)
    count = _segments(body, ids, id_type)
    body.become(node, "UnsortedSegmentSum", [rows, ids, count])
    node.attr["Tindices"].type = node.attr["Tnumsegments"].type = id_type


def _segment_mean(body: Body, node: Proto) -> None:
    data, ids = node.input[:2]
    dtype, id_type = node.attr["T"].type, node.attr["Tindices"].type
    count = _segments(body, ids, id_type)
    types = {"T": dtype, "Tindices": id_type, "Tnumsegments": id_type}
    total = body.add("UnsortedSegmentSum", [data, ids, count], **types)
    ones = body.add("OnesLike", [data], "y", T=dtype)
    sizes = body.add("UnsortedSegmentSum", [ones, ids, count], **types)
    one = body.add("Cast", [body.constant(1)], "y", SrcT=_INT32, DstT=dtype)
    least = body.add("Maximum", [sizes, one], "z", T=dtype)
    body.become(node, "RealDiv", [total, least], "z")


def _dense_bincount(body: Body, node: Proto) -> None:
    values, size, weights = node.input[:3]
    dtype, value_type = node.attr["T"].type, node.attr["Tidx"].type
    one, zero = (
        body.add("Cast", [body.constant(number)], "y", SrcT=_INT32, DstT=dtype) for number in (1, 0)
    )
    count = body.add("Cast", [size], "y", SrcT=value_type, DstT=_INT32)
    hot = body.add("OneHot", [values, count, one, zero], T=dtype, TI=value_type)
    body.nodes[-1].attr["axis"].i = -1
    if not body.is_empty_constant(weights) and not node.attr["binary_output"].b:
        column = body.add("ExpandDims", [weights, body.constant(-1)], T=dtype, Tdim=_INT32)
        hot = body.add("Mul", [hot, column], "z", T=dtype)
    reduce = "Max" if node.attr["binary_output"].b else "Sum"
    node.attr["Tidx"].type = _INT32
    body.become(node, reduce, [hot, body.constant([-2])])


def _scatter_nd(body: Body, node: Proto) -> None:
    places, updates, shape = node.input[:3]
    dtype, place_type = node.attr["T"].type, node.attr["Tindices"].type
    zero = body.add("Cast", [body.constant(0)], "y", SrcT=_INT32, DstT=dtype)
    zeros = body.add("Fill", [shape, zero], T=dtype, index_type=place_type)
    body.become(node, "TensorScatterAdd", [zeros, places, updates])


REPLACED: Mapping[str, Callable[[Body, Proto], None]] = MappingProxyType(
    {
        "DenseBincount": _dense_bincount,
        "ScatterNd": _scatter_nd,
        "SegmentMean": _segment_mean,
        "SparseSegmentSum": _sparse_segment_sum,
    }
)


def has_replaced(graph_def: Proto) -> bool:
    """Tell whether there is anything to replace."""
    return any(node.op in REPLACED for body in _bodies(graph_def) for node in body.nodes)


def replace_operations(graph_def: Proto) -> None:
    """Replace in place what OpenVINO lacks."""
    for body in _bodies(graph_def):
        for node in [each for each in body.nodes if each.op in REPLACED]:
            REPLACED[node.op](body, node)


def _bodies(graph_def: Proto) -> Iterator[Body]:
    yield Body(graph_def.node, None)
    for function in graph_def.library.function:
        yield Body(function.node_def, function)
