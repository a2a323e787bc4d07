"""Rewrite: replaces numeric operations that OpenVINO lacks or computes differently.

Each is composed of operations that OpenVINO has, in the graph and in every function. The last
operation of the composition keeps the node's name.

| operation | replacement | because |
|---|---|---|
| `SparseSegmentSum` | the segment sum of the gathered rows | no rule converts it |
| `SegmentMean` | the segment sum over the number of rows, at least 1 | no rule converts it |
| `DenseBincount` | the sum, or the maximum, of one-hot rows | no rule converts it |
| `Bincount` | the same | OpenVINO counts a single value as none |
| `ApproximateEqual` | a comparison by `LessEqual` | OpenVINO compares by `Less` |
| `Div` of integers | `TruncateDiv` | OpenVINO corrects a quotient that is right already |
| `LRN` | a product of the squares with a band of ones | OpenVINO adds up other channels |
| `NonMaxSuppression`, its second form | the third, by the least score | scores of 0 are left out |
| `ScatterNd` | an addition to zeros | OpenVINO keeps one of several values for one index |
| `LowerBound`, `UpperBound` | the number of values that come before | no rule converts them |
| `ResourceGatherNd`, `VariableShape` | the same of the variable's value | no rule converts them |
| `Const`, `Exp` of complex numbers | `Complex` of their parts | no rule converts them |
| `ReverseV2`, several axes or one from the end | `StridedSlice` | OpenVINO takes one, from 0 |
| `SparseReshape` to other sizes | flat indices, divided again | OpenVINO leaves them unchanged |
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from ie_serving.core.values.tensors import BY_NUMBER, Array, DataType
from ie_serving.engines.savedmodel.constants import held, tensor_proto
from ie_serving.engines.savedmodel.frames import name_of, replace_references
from ie_serving.wire.protobuf.messages import Proto

_INT32 = DataType.INT32.number
_INT64 = DataType.INT64.number
_FLOAT = DataType.FP32.number
_COMPLEX = 8
"""The number of complex64, which has no `DataType`: the API does not carry it."""

_OUTPUTS: Final = {
    **dict.fromkeys(("Abs", "Cast", "Cos", "Exp", "LogicalNot", "OnesLike", "Sin", "Square"), "y"),
    **dict.fromkeys(("AddV2", "ApproximateEqual", "Equal", "FloorDiv", "FloorMod", "Greater"), "z"),
    **dict.fromkeys(("Less", "LessEqual", "Maximum", "Mul", "NotEqual", "Pow", "RealDiv"), "z"),
    **{"Sub": "z", "Bincount": "bins", "Complex": "out", "ReadVariableOp": "value"},
}
"""The name of the output of operations, by which functions refer to it; of others `output`."""
_OF_LRN = MappingProxyType({"alpha": 1.0, "beta": 0.5, "bias": 1.0})
"""Attributes of LRN that a file leaves out where they have these values."""


class EditedNodes:
    """The nodes of the graph or of one function, to which nodes are added.

    Args of the constructor:
        nodes: nodes of the graph or the function.
        function: the FunctionDef; None for the graph.
    """

    def __init__(self, nodes: Proto, function: Proto | None) -> None:
        self.nodes = nodes
        self._function = function
        self._by_name = {node.name: node for node in nodes}
        # The number of nodes would not do: it falls when one is taken out.
        self._numbers = itertools.count(len(nodes))

    def add(self, op: str, inputs: Sequence[str], **types: int) -> str:
        """Add a node and give the reference to its first output."""
        node = self.nodes.add(name=f"ie_serving_replaced_{next(self._numbers)}", op=op)
        node.input.extend(inputs)
        for name, dtype in types.items():
            node.attr[name].type = dtype
        return node.name if self._function is None else _output_of(node)

    def constant(self, value: object, dtype: type = np.int32) -> str:
        """Add a Const."""
        tensor = tensor_proto(np.asarray(value, dtype))
        reference = self.add("Const", [], dtype=tensor.dtype)
        self.nodes[-1].attr["value"].tensor.CopyFrom(tensor)
        return reference

    def cast(self, reference: str, given: int, wanted: int) -> str:
        """Add a cast from one dtype to another."""
        return self.add("Cast", [reference], SrcT=given, DstT=wanted)

    def number(self, value: float, wanted: int) -> str:
        """Add a number of a dtype that the API may lack."""
        if isinstance(value, int):
            return self.cast(self.constant(value), _INT32, wanted)
        return self.cast(self.constant(value, np.float32), _FLOAT, wanted)

    def expanded(self, reference: str, axis: int, dtype: int) -> str:
        """Add a dimension of size 1."""
        return self.add("ExpandDims", [reference, self.constant(axis)], T=dtype, Tdim=_INT32)

    def joined(self, references: Sequence[str], dtype: int) -> str:
        """Join rows."""
        joined = self.add("ConcatV2", [*references, self.constant(0)], T=dtype, Tidx=_INT32)
        self.nodes[-1].attr["N"].i = len(references)
        return joined

    def indices(self, count: str) -> tuple[str, str]:
        """Number so many indices, in a row and in a column."""
        at = self.add("Range", [self.constant(0), count, self.constant(1)], Tidx=_INT32)
        return self.expanded(at, 0, _INT32), self.expanded(at, 1, _INT32)

    def node(self, reference: str) -> Proto | None:
        """Give the node here that a reference is to; None for an argument."""
        return self._by_name.get(name_of(reference))

    def value(self, reference: str) -> Array | None:
        """Give the value of the Const that a reference is to; None for any other node."""
        node = self.node(reference)
        return held(node) if node is not None and node.op == "Const" else None

    def is_empty_constant(self, reference: str) -> bool:
        """Tell whether a reference is to a Const without elements."""
        array = self.value(reference)
        return array is not None and not array.size

    def become(self, node: Proto, op: str, inputs: Sequence[str]) -> None:
        """Turn a node into another operation; it keeps its name."""
        controls = [reference for reference in node.input if reference.startswith("^")]
        was = _output_of(node)
        node.op = op
        del node.input[:]
        node.input.extend([*inputs, *controls])
        if self._function is not None:
            self._rename(was, _output_of(node))

    def give_instead(self, node: Proto, outputs: Mapping[str, str]) -> None:
        """Let readers of a node's outputs, by name and in order, read other references."""
        for number, (output, reference) in enumerate(outputs.items()):
            if self._function is not None:
                self._rename(f"{node.name}:{output}:0", reference)
            else:
                self._rename(f"{node.name}:{number}", reference)
                if not number:
                    self._rename(node.name, reference)
        self.nodes.remove(node)

    def _rename(self, old: str, new: str) -> None:
        returned = {} if self._function is None else self._function.ret
        replace_references(self.nodes, returned, {old: new})


def _output_of(node: Proto) -> str:
    return f"{node.name}:{_OUTPUTS.get(node.op, 'output')}:0"


def _segments(body: EditedNodes, ids: str, dtype: int) -> str:
    """Give the number of segments: the greatest of `ids` and one more, none for no ids."""
    kind = np.int32 if dtype == _INT32 else np.int64
    padded = body.joined([ids, body.constant([-1], kind)], dtype)
    greatest = body.add("Max", [padded, body.constant([0])], T=dtype, Tidx=_INT32)
    return body.add("AddV2", [greatest, body.constant(1, kind)], T=dtype)


def _sparse_segment_sum(body: EditedNodes, node: Proto) -> None:
    data, indices, ids = node.input[:3]
    id_type = node.attr["Tsegmentids"].type or _INT32
    types = {"Tparams": node.attr["T"].type, "Tindices": node.attr["Tidx"].type or _INT32}
    rows = body.add("GatherV2", [data, indices, body.constant(0)], Taxis=_INT32, **types)
    count = _segments(body, ids, id_type)
    body.become(node, "UnsortedSegmentSum", [rows, ids, count])
    node.attr["Tindices"].type = node.attr["Tnumsegments"].type = id_type


def _segment_mean(body: EditedNodes, node: Proto) -> None:
    data, ids = node.input[:2]
    dtype, id_type = node.attr["T"].type, node.attr["Tindices"].type
    count = _segments(body, ids, id_type)
    types = {"T": dtype, "Tindices": id_type, "Tnumsegments": id_type}
    total = body.add("UnsortedSegmentSum", [data, ids, count], **types)
    ones = body.add("OnesLike", [data], T=dtype)
    sizes = body.add("UnsortedSegmentSum", [ones, ids, count], **types)
    one = body.number(1, dtype)
    least = body.add("Maximum", [sizes, one], T=dtype)
    body.become(node, "RealDiv", [total, least])


def _dense_bincount(body: EditedNodes, node: Proto) -> None:
    values, size, weights = node.input[:3]
    dtype, value_type = node.attr["T"].type, node.attr["Tidx"].type
    one, zero = body.number(1, dtype), body.number(0, dtype)
    count = body.cast(size, value_type, _INT32)
    hot = body.add("OneHot", [values, count, one, zero], T=dtype, TI=value_type)
    body.nodes[-1].attr["axis"].i = -1
    is_binary = "binary_output" in node.attr and node.attr["binary_output"].b
    if not body.is_empty_constant(weights) and not is_binary:
        known = body.node(weights)
        if known is None or known.op != "Const":
            weights = _weights(body, values, weights, (value_type, dtype))
        hot = body.add("Mul", [hot, body.expanded(weights, -1, dtype)], T=dtype)
    reduce = "Max" if is_binary else "Sum"
    node.attr["Tidx"].type = _INT32
    body.become(node, reduce, [hot, body.constant([-2])])


def _weights(body: EditedNodes, values: str, weights: str, types: tuple[int, int]) -> str:
    """Give as many weights as values: those of a request, or ones where it brings none."""
    value_type, dtype = types
    row, start = body.constant([-1]), body.constant([0])
    shape = body.add("Shape", [values], T=value_type, out_type=_INT32)
    size = body.add("Size", [values], T=value_type, out_type=_INT32)
    count = body.expanded(size, 0, _INT32)
    given = body.add("Reshape", [weights, row], T=dtype, Tshape=_INT32)
    ones = body.add("Fill", [count, body.number(1, dtype)], T=dtype, index_type=_INT32)
    first = body.add(
        "Slice", [body.joined([given, ones], dtype), start, count], T=dtype, Index=_INT32
    )
    return body.add("Reshape", [first, shape], T=dtype, Tshape=_INT32)


def _bincount(body: EditedNodes, node: Proto) -> None:
    node.attr["Tidx"].type = _INT32
    for index, dtype in ((0, _INT32), (2, node.attr["T"].type)):
        if not body.is_empty_constant(node.input[index]):
            row = [node.input[index], body.constant([-1])]
            node.input[index] = body.add("Reshape", row, T=dtype, Tshape=_INT32)
    _dense_bincount(body, node)


def _approximate_equal(body: EditedNodes, node: Proto) -> None:
    (x, y), dtype = node.input[:2], node.attr["T"].type
    tolerance = node.attr["tolerance"].f if "tolerance" in node.attr else 1e-5
    apart = body.add("Abs", [body.add("Sub", [x, y], T=dtype)], T=dtype)
    body.become(node, "LessEqual", [apart, body.number(tolerance, dtype)])


def _div(_: EditedNodes, node: Proto) -> None:
    dtype = BY_NUMBER.get(node.attr["T"].type)
    if dtype is not None and dtype.numpy.kind in "iu":
        node.op = "TruncateDiv"


def _suppress(body: EditedNodes, node: Proto) -> None:
    overlap = node.attr["iou_threshold"].f if "iou_threshold" in node.attr else 0.5
    threshold = node.attr["T_threshold"].type if "T_threshold" in node.attr else _FLOAT
    if node.op == "NonMaxSuppression":
        inputs = [*node.input[:3], body.constant(overlap, np.float32)]
    else:
        inputs = list(node.input[:4])
    least = body.constant(np.finfo(np.float32).min, np.float32)
    if threshold != _FLOAT:
        least = body.cast(least, _FLOAT, threshold)
    node.attr.pop("iou_threshold", None)
    body.become(node, "NonMaxSuppressionV3", [*inputs, least])


def _scatter_nd(body: EditedNodes, node: Proto) -> None:
    indices, updates, shape = node.input[:3]
    dtype, place_type = node.attr["T"].type, node.attr["Tindices"].type
    is_flag = dtype == DataType.BOOL.number
    if is_flag:  # any of several is enough
        updates = body.cast(updates, dtype, _INT32)
        dtype = _INT32
    zeros = body.add("Fill", [shape, body.number(0, dtype)], T=dtype, index_type=place_type)
    if is_flag:
        types = {"T": dtype, "Tindices": place_type}
        total = body.add("TensorScatterAdd", [zeros, indices, updates], **types)
        node.attr["T"].type = dtype
        del node.attr["Tindices"]
        body.become(node, "NotEqual", [total, body.constant(0)])
    else:
        body.become(node, "TensorScatterAdd", [zeros, indices, updates])


def _sparse_reshape(body: EditedNodes, node: Proto) -> None:
    indices, old, new = node.input[:3]
    if _is_two_to_two(body, old, new):
        return
    one = body.constant(1, np.int64)
    is_open = body.add("Equal", [new, body.constant(-1, np.int64)], T=_INT64)
    sizes = body.add("SelectV2", [is_open, one, new], T=_INT64)
    first = body.constant([0])
    total, known = (body.add("Prod", [each, first], T=_INT64, Tidx=_INT32) for each in (old, sizes))
    known = body.add("Maximum", [known, one], T=_INT64)
    rest = body.add("FloorDiv", [total, known], T=_INT64)
    shape = body.add("SelectV2", [is_open, rest, sizes], T=_INT64)
    parts = body.add("Mul", [indices, _strides(body, old)], T=_INT64)
    flat = body.add("Sum", [parts, body.constant([1])], T=_INT64, Tidx=_INT32)
    strides, wide = (
        body.add("Maximum", [each, one], T=_INT64) for each in (_strides(body, shape), shape)
    )
    rows = body.add("FloorDiv", [body.expanded(flat, 1, _INT64), strides], T=_INT64)
    moved = body.add("FloorMod", [rows, wide], T=_INT64)
    body.give_instead(node, {"output_indices": moved, "output_shape": shape})


def _strides(body: EditedNodes, shape: str) -> str:
    """Give how far values lie apart along each dimension: the product of the sizes behind it."""
    count = body.add("Size", [shape], T=_INT64, out_type=_INT32)
    is_behind = body.add("Greater", body.indices(count), T=_INT32)
    sizes = body.expanded(shape, 0, _INT64)
    kept = body.add("SelectV2", [is_behind, sizes, body.constant(1, np.int64)], T=_INT64)
    return body.add("Prod", [kept, body.constant([1])], T=_INT64, Tidx=_INT32)


def _is_two_to_two(body: EditedNodes, old: str, new: str) -> bool:
    """Tell whether two dimensions stay as they are.

    `safe_embedding_lookup_sparse` reshapes to the product of all sizes but the last, and the last.
    """
    packed = body.node(new)
    if packed is None or packed.op != "Pack" or len(packed.input) != 2:
        return False
    product, last = map(body.node, packed.input)
    if product is None or product.op != "Prod" or last is None or last.op != "GatherV2":
        return False
    first = body.node(product.input[0])
    if first is None or first.op != "Slice" or {first.input[0], last.input[0]} != {old}:
        return False
    return _values(body, first.input[2]) == _values(body, last.input[1]) == [1]


def _local_response_normalization(body: EditedNodes, node: Proto) -> None:
    (x,) = node.input[:1]
    dtype, attrs = node.attr["T"].type or _FLOAT, node.attr
    radius = attrs["depth_radius"].i if "depth_radius" in attrs else 5
    values = {name: attrs[name].f if name in attrs else value for name, value in _OF_LRN.items()}
    shape = body.add("Shape", [x], T=dtype, out_type=_INT32)
    types = {"Tparams": _INT32, "Tindices": _INT32, "Taxis": _INT32}
    depth = body.add("GatherV2", [shape, body.constant(3), body.constant(0)], **types)
    apart = body.add("Abs", [body.add("Sub", body.indices(depth), T=_INT32)], T=_INT32)
    near = body.add("LessEqual", [apart, body.constant(radius)], T=_INT32)
    band = body.cast(near, DataType.BOOL.number, dtype)
    squares = body.add("Square", [x], T=dtype)
    sums = body.add("BatchMatMulV2", [squares, band], T=dtype)
    alpha, bias, beta = (body.number(values[name], dtype) for name in ("alpha", "bias", "beta"))
    scaled = body.add("Mul", [sums, alpha], T=dtype)
    raised = body.add("AddV2", [scaled, bias], T=dtype)
    norm = body.add("Pow", [raised, beta], T=dtype)
    body.become(node, "RealDiv", [x, norm])


def _search(body: EditedNodes, node: Proto) -> None:
    """Count the sorted values that come before each value, NaN last as in TensorFlow."""
    dtype, wide = node.attr["T"].type, node.attr["out_type"].type or _INT32
    held = body.expanded(node.input[0], 1, dtype)
    asked = body.expanded(node.input[1], 2, dtype)
    if node.op == "LowerBound":
        before = body.add("Less", [held, asked], T=dtype)
    else:
        behind = body.add("Less", [asked, held], T=dtype)
        before = body.add("LogicalNot", [behind])
    ones = body.cast(before, DataType.BOOL.number, wide)
    node.attr["T"].type, node.attr["Tidx"].type = wide, _INT32
    body.become(node, "Sum", [ones, body.constant(2)])


def _reverse(body: EditedNodes, node: Proto) -> None:
    """Slice backwards, by axes from the front and by those from the end."""
    data, axes, dtype = node.input[0], _values(body, node.input[1]), node.attr["T"].type
    front = [-1 if axis in axes else 1 for axis in range(max(axes) + 1)]
    back = [-1 if axis in axes else 1 for axis in range(min(axes), 0)]
    for strides, ellipsis in ((front, 0), ([1, *back], 1)):
        if -1 in strides:
            ends = body.constant([0] * len(strides))
            inputs = [data, ends, ends, body.constant(strides)]
            data = body.add("StridedSlice", inputs, T=dtype, Index=_INT32)
            masks = {"begin": 2 ** len(strides) - 1, "end": 2 ** len(strides) - 1}
            for name, mask in {**masks, "ellipsis": ellipsis}.items():
                body.nodes[-1].attr[f"{name}_mask"].i = mask
    node.attr.clear()
    node.attr["T"].type = dtype
    body.become(node, "Identity", [data])


def _values(body: EditedNodes, reference: str) -> list[int]:
    """Read integers that are constant; none of others."""
    array = body.value(reference)
    return [] if array is None else [int(each) for each in array.ravel()]


def _complex_exp(body: EditedNodes, node: Proto) -> None:
    real, angle = (body.add(op, node.input[:1], T=_COMPLEX, Tout=_FLOAT) for op in ("Real", "Imag"))
    size = body.add("Exp", [real], T=_FLOAT)
    ways = [body.add(op, [angle], T=_FLOAT) for op in ("Cos", "Sin")]
    parts = [body.add("Mul", [size, way], T=_FLOAT) for way in ways]
    node.attr["T"].type, node.attr["Tout"].type = _FLOAT, _COMPLEX
    body.become(node, "Complex", parts)


def _complex_constant(body: EditedNodes, node: Proto) -> None:
    value = _complex_value(node)
    parts = [body.constant(part, np.float32) for part in (value.real, value.imag)]
    node.attr.clear()
    node.attr["T"].type, node.attr["Tout"].type = _FLOAT, _COMPLEX
    body.become(node, "Complex", parts)


def _complex_value(node: Proto) -> Array:
    tensor = node.attr["value"].tensor
    sizes = [dim.size for dim in tensor.tensor_shape.dim]
    flat = tensor.scomplex_val
    values = np.frombuffer(tensor.tensor_content, np.complex64)
    if len(flat):
        values = np.array(flat, np.float32).view(np.complex64)
    # TensorFlow repeats the last value in place of those that are missing; without any, all are 0.
    filled = np.full(math.prod(sizes), values[-1] if values.size else 0, np.complex64)
    filled[: values.size] = values[: filled.size]
    return filled.reshape(sizes)


def _read(body: EditedNodes, node: Proto, dtype: int) -> str:
    return body.add("ReadVariableOp", node.input[:1], dtype=dtype)


def _gather_nd(body: EditedNodes, node: Proto) -> None:
    dtype = node.attr["dtype"].type
    params, indices = _read(body, node, dtype), node.input[1]
    node.attr["Tparams"].type = dtype
    body.become(node, "GatherNd", [params, indices])


def _variable_shape(body: EditedNodes, node: Proto) -> None:
    handle = body.node(node.input[0])
    known = handle is not None and handle.op == "VarHandleOp"
    dtype = handle.attr["dtype"].type if handle is not None and known else _FLOAT
    node.attr["T"].type = dtype
    body.become(node, "Shape", [_read(body, node, dtype)])


REPLACED: Final[Mapping[str, Callable[[EditedNodes, Proto], None]]] = {
    "ApproximateEqual": _approximate_equal,
    "Bincount": _bincount,
    "Const": _complex_constant,
    "DenseBincount": _dense_bincount,
    "Div": _div,
    "Exp": _complex_exp,
    "LRN": _local_response_normalization,
    "LowerBound": _search,
    "NonMaxSuppression": _suppress,
    "NonMaxSuppressionV2": _suppress,
    "ReverseV2": _reverse,
    "ScatterNd": _scatter_nd,
    "ResourceGatherNd": _gather_nd,
    "SegmentMean": _segment_mean,
    "SparseReshape": _sparse_reshape,
    "SparseSegmentSum": _sparse_segment_sum,
    "UpperBound": _search,
    "VariableShape": _variable_shape,
}


def _are_several_or_negative(axes: Sequence[int]) -> bool:
    return len(axes) > 1 or min(axes, default=0) < 0


_ONLY: Final[Mapping[str, Callable[[EditedNodes, Proto], bool]]] = {
    "Const": lambda _, node: node.attr["dtype"].type == _COMPLEX,
    "Exp": lambda _, node: node.attr["T"].type == _COMPLEX,
    "ReverseV2": lambda body, node: _are_several_or_negative(_values(body, node.input[1])),
}
"""Conditions under which operations are replaced that OpenVINO has in other forms."""


def has_replaced(graph_def: Proto) -> bool:
    """Tell whether there is anything to replace."""
    return any(_is_replaced(body, node) for body in _bodies(graph_def) for node in body.nodes)


def replace_operations(graph_def: Proto) -> None:
    """Replace in place the operations that OpenVINO lacks or computes differently."""
    for body in _bodies(graph_def):
        for node in [each for each in body.nodes if _is_replaced(body, each)]:
            REPLACED[node.op](body, node)


def _is_replaced(body: EditedNodes, node: Proto) -> bool:
    return node.op in REPLACED and (node.op not in _ONLY or _ONLY[node.op](body, node))


def _bodies(graph_def: Proto) -> Iterator[EditedNodes]:
    yield EditedNodes(graph_def.node, None)
    for function in graph_def.library.function:
        yield EditedNodes(function.node_def, function)
