"""Refuses at load the graphs that OpenVINO's front end would convert wrongly.

Each was measured with OpenVINO 2026.4 and has its test on a graph made by TensorFlow.

| in the graph | OpenVINO's result |
|---|---|
| a TensorArray that grows beyond a constant first size | no elements, or the process died |
| a TensorArray of elements of different lengths that are concatenated | elements were padded |
| `MaxPoolWithArgmax` with the padding SAME | the indices and values of VALID |
| `MaxPoolWithArgmax` of other strides than its window | windows that lie side by side |
| `XlaConv`, `XlaConvV2` that spread their input (`lhs_dilation`) | its convolution as it is |
| an output that comes with another rank or fixed size than the file declares | that other shape |
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.savedmodel.constants import held
from ie_serving.engines.savedmodel.frames import CALLS, Library, NodeOutput, functions_of, name_of
from ie_serving.wire.protobuf.messages import Proto

NodesByName = Mapping[str, Proto]

_GROWS_BY = {"TensorListSetItem": "resize_if_index_out_of_bounds", "TensorArrayV3": "dynamic_size"}
"""Attribute that lets a list grow."""
_SIZE_OF = {"TensorListReserve": 1, "TensorArrayV3": 0}
"""Number of the input that says how many elements a list has at first."""

_MAKES_LIST = frozenset({"EmptyTensorList", "TensorListReserve"})
"""Operations that make a list; their first input is the shape of an element."""

_JOINS = ("TensorListConcat", "TensorArrayConcat")
_POOL, _XLA = "MaxPoolWithArgmax", "XlaConv"
_LOOKED_AT = ("TensorList", "TensorArray", _POOL, _XLA)
"""Prefixes of the types of all operations that are looked at here."""


def check_graph(meta_graph: Proto, library: Library, node_outputs: Iterable[NodeOutput]) -> None:
    """Refuse a graph that would be converted wrongly.

    Args:
        meta_graph: its list of operations tells whether a walk is needed, which takes 20 ms for
            each thousand nodes.
        library: functions of the graph.
        node_outputs: everything above the outputs.

    Raises:
        LoadFailed: naming the operation, and the remedy.
    """
    listed = meta_graph.meta_info_def.stripped_op_list.op
    if listed and not any(each.name.startswith(_LOOKED_AT) for each in listed):
        return
    found = list(_reached(library, node_outputs))
    _check_pools(node for node, _ in found)
    _check_spreading(found)
    growing = next((node for node, _ in found if _grows(node)), None)
    if growing is not None and any(_has_constant_size(*each) for each in found):
        raise LoadFailed(
            f"{growing.op} {growing.name!r} lets a TensorArray grow, which OpenVINO computes"
            " wrongly: give tf.TensorArray its size"
        )
    joining = next((node for node, _ in found if node.op.startswith(_JOINS)), None)
    if joining is not None and any(_has_open_elements(*each) for each in found):
        raise LoadFailed(
            f"{joining.op} {joining.name!r} joins elements that may differ in length, which"
            " OpenVINO computes wrongly: give tf.TensorArray an element_shape without open"
            " dimensions"
        )


def _check_pools(nodes: Iterable[Proto]) -> None:
    for node in nodes:
        if node.op == _POOL and node.attr["padding"].s == b"SAME":
            raise LoadFailed(
                f"{node.op} {node.name!r} has the padding SAME, which OpenVINO computes as VALID:"
                " pad its input in the model, with tf.pad"
            )
        if node.op == _POOL and list(node.attr["strides"].list.i) != list(
            node.attr["ksize"].list.i
        ):
            raise LoadFailed(
                f"{node.op} {node.name!r} has other strides than its window is large, which"
                " OpenVINO ignores: pool with tf.nn.max_pool2d, or by windows side by side"
            )


def _check_spreading(found: Iterable[tuple[Proto, NodesByName]]) -> None:
    for node, nodes in found:
        by = _constant(node.input[4], nodes) if node.op.startswith(_XLA) else None
        value = None if by is None else held(by)
        if node.op.startswith(_XLA) and (value is None or (value != 1).any()):
            raise LoadFailed(
                f"{node.op} {node.name!r} spreads its input (lhs_dilation), which OpenVINO ignores:"
                " export the model without XLA, from JAX by enable_xla=False"
            )


def check_shape(alias: str, declared: Sequence[int] | None, got: Sequence[int] | None) -> None:
    """Refuse an output whose shape contradicts the graph's; -1 is an open size, None an open rank.

    Raises:
        LoadFailed: naming both.
    """
    if declared is None or got is None:
        return
    fits = len(declared) == len(got) and all(
        -1 in pair or pair[0] == pair[1] for pair in zip(declared, got, strict=True)
    )
    if not fits:
        raise LoadFailed(
            f"OpenVINO converts the output {alias!r} to the shape {tuple(got)}, but the signature"
            f" declares {tuple(declared)}: reshape it in the model, or leave it out"
        )


def _reached(
    library: Library, node_outputs: Iterable[NodeOutput]
) -> Iterator[tuple[Proto, NodesByName]]:
    """Give the nodes of these, and of the bodies of their loops, each with those beside it."""
    named: set[str] = set()
    for node_output in node_outputs:
        if node_output.node is not None:
            named.update(_functions(node_output.node))
            yield node_output.node, node_output.frame.nodes
    entered: set[str] = set()
    while left := named - entered:
        entered |= left
        for name in left:
            nodes = {node.name: node for node in library.function(name).node_def}
            for node in nodes.values():
                named.update(_functions(node))
                yield node, nodes


def _functions(node: Proto) -> Iterable[str]:
    """Name the functions that a node runs; those of plain calls are walked as frames."""
    return () if node.op in CALLS else functions_of(node)


def _grows(node: Proto) -> bool:
    attribute = _GROWS_BY.get(node.op, "")
    return attribute in node.attr and bool(node.attr[attribute].b)


def _has_constant_size(node: Proto, nodes: NodesByName) -> bool:
    return node.op in _SIZE_OF and _constant(node.input[_SIZE_OF[node.op]], nodes) is not None


def _has_open_elements(node: Proto, nodes: NodesByName) -> bool:
    """Tell whether a node makes a list whose elements may differ in their first dimension.

    The joining operation does not show it: TensorFlow leaves the first dimension open there.
    """
    if node.op == "TensorArrayV3":
        noted = node.attr["element_shape"].shape.dim
        return not node.attr["identical_element_shapes"].b and (not noted or noted[0].size < 0)
    if node.op not in _MAKES_LIST:
        return False
    shape = _constant(node.input[0], nodes)
    value = None if shape is None else held(shape)
    return value is None or value.ndim != 1 or not value.size or int(value[0]) < 0


def _constant(reference: str, nodes: NodesByName) -> Proto | None:
    node = nodes.get(name_of(reference))
    return node if node is not None and node.op == "Const" else None
