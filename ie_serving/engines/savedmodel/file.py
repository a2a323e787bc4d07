"""Reads the graph for serving and the signatures of a SavedModel, or of a frozen graph.

A SavedModel is `saved_model.pb` or `saved_model.pbtxt`. A frozen graph is a GraphDef, which names
no inputs and outputs: its placeholders are the inputs, and results that no other node uses are the
outputs, as in OpenVINO. With a signature of these it is treated like a SavedModel, so operations
that OpenVINO lacks or computes wrongly are replaced or refused.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from ie_serving.core.values.errors import LoadFailed, NoModel
from ie_serving.core.values.tensors import SERVING_DEFAULT, DataType, Method
from ie_serving.engines.savedmodel.frames import name_of, shape_of
from ie_serving.wire.protobuf import graph
from ie_serving.wire.protobuf.messages import Proto

FILE = "saved_model.pb"
TEXT_FILE = "saved_model.pbtxt"
"""The same as protobuf text, read where there is no `FILE`, as TensorFlow does."""
TAG = "serve"
VARIANT = 21
"""`DT_VARIANT`, the number of the dtype of messages and of lists of tensors, in types.proto."""
_REFERENCE = 100
"""Added to the number of a dtype for a variable of TensorFlow 1 that is given out itself."""
INTERNAL = "__saved_model_"
"""Prefix of the names of TensorFlow's own signatures; they compute nothing."""

MetaGraph: TypeAlias = Proto
"""A MetaGraphDef: the graph, its functions and its signatures."""

PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderWithDefault"})
LEFT_OVER = "unused_control_flow_input"
"""Begins the names of placeholders that `convert_variables_to_constants_v2` leaves over of loops,
as in frozen LSTMs of Keras. Source: lift_to_graph.py of TensorFlow."""
WITHOUT_OUTPUTS = frozenset({"Assert", "NoOp", "Print"})
_OF_OUTPUT = ("DstT", "Tout", "out_type", "output_type", "dtype", "type", "T", "Tparams")
"""Attributes of nodes that name the dtype of what they give; the first one that a node has."""
_GIVES = {"AsString": 7, "Bucketize": 3, "Substr": 7, "Where": 9}
"""Numbers of the dtypes that operations give whose attributes name another one."""
_OTHERS = ("All", "Any", "Arg", "Equal", "Greater", "Is", "Less", "Logical", "NotEqual", "Save")
"""Prefixes of the types of operations whose attributes name another dtype, or that give nothing."""
_OPEN_UNTIL = 24
"""Version of TensorFlow's graphs before which the shape of a scalar meant any shape."""
Types = Mapping[str, int]
"""Number of the `tensorflow.DataType` of each node that gives an output, by the node's name."""


@dataclass(frozen=True)
class TensorInfo:
    """`TensorInfo` of meta_graph.proto.

    Attributes:
        tensor: tensor name with its port.
        shape: None for an open rank, and where the file says nothing of the shape.
        dtype: number of the `tensorflow.DataType`.
    """

    tensor: str
    shape: tuple[int, ...] | None
    dtype: int


@dataclass(frozen=True)
class DeclaredSignature:
    """A signature as the file declares it.

    Attributes:
        name: signature name.
        method: its method name.
        inputs: `TensorInfo` by alias.
        outputs: `TensorInfo` by alias.
    """

    name: str
    method: str
    inputs: Mapping[str, TensorInfo]
    outputs: Mapping[str, TensorInfo]


def read_graph(directory: Path, tags: Collection[str] = (TAG,)) -> MetaGraph:
    """Read the MetaGraphDef with these tags; one that has further tags where none has these alone.

    Raises:
        LoadFailed: not a SavedModel, or no graph with these tags.
    """
    model = _binary(directory / FILE) if (directory / FILE).is_file() else _text(directory)
    able = [each for each in model.meta_graphs if {*tags} <= {*each.meta_info_def.tags}]
    if able:
        return min(able, key=lambda each: len(each.meta_info_def.tags))
    if not model.meta_graphs:
        raise NoModel(f"{FILE} holds no graph: upload it again")
    there = "; ".join(",".join(each.meta_info_def.tags) for each in model.meta_graphs)
    raise LoadFailed(
        f"{FILE} has no graph tagged {','.join(tags)!r}, it has {there!r}; export the model for"
        " serving"
    )


def _binary(path: Path) -> Proto:
    try:
        return graph.SavedModel.FromString(path.read_bytes())
    except DecodeError as error:
        raise LoadFailed(f"{FILE} is not a SavedModel, or is cut short: upload it again") from error


# Fields that `graph` does not name are lost here, which a copy of a binary file would keep:
# OpenVINO reads none of them.
def _text(directory: Path) -> Proto:
    try:
        text = (directory / TEXT_FILE).read_text("utf-8")
        return text_format.Parse(text, graph.SavedModel(), allow_unknown_field=True)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise LoadFailed(f"{TEXT_FILE} is not a SavedModel in text form: {error}") from error


def declared(meta_graph: MetaGraph) -> dict[str, DeclaredSignature]:
    """Give the signatures of a MetaGraphDef by name, those of TensorFlow itself left out."""
    return {
        name: DeclaredSignature(
            name,
            definition.method_name,
            _inputs(meta_graph, definition),
            _tensors(definition.outputs),
        )
        for name, definition in sorted(meta_graph.signature_def.items())
        if not name.startswith(INTERNAL)
    }


def _inputs(meta_graph: MetaGraph, definition: Proto) -> dict[str, TensorInfo]:
    """Give the inputs; what Classify and Regress take is text where the graph has it so.

    TensorFlow Serving feeds serialized Examples there, whatever dtype the signature declares: that
    of its own `half_plus_three` is DT_FLOAT.
    """
    inputs = _tensors(definition.inputs)
    if definition.method_name not in (Method.CLASSIFY.value, Method.REGRESS.value):
        return inputs
    names = {name_of(info.tensor) for info in inputs.values()}
    text = DataType.STRING.number
    given = {
        node.name
        for node in meta_graph.graph_def.node
        if node.name in names and node.attr["dtype"].type == text
    }
    return {
        alias: replace(info, dtype=text) if name_of(info.tensor) in given else info
        for alias, info in inputs.items()
    }


def _tensors(infos: Mapping[str, Proto]) -> dict[str, TensorInfo]:
    return {
        alias: TensorInfo(info.name, _shape(info), info.dtype % _REFERENCE)
        for alias, info in sorted(infos.items())
    }


def _shape(info: Proto) -> tuple[int, ...] | None:
    return shape_of(info.tensor_shape) if info.HasField("tensor_shape") else None


def read_frozen(file: Path, types: Types) -> MetaGraph:
    """Read a GraphDef, and give it a signature.

    Args:
        file: the GraphDef, serialized.
        types: types of the outputs, as far as OpenVINO tells; of others a node's attributes do.

    Raises:
        LoadFailed: it is no GraphDef, or gives no output of a known type.
    """
    meta_graph = graph.MetaGraphDef()
    meta_graph.meta_info_def.tags.append(TAG)
    try:
        meta_graph.graph_def.ParseFromString(file.read_bytes())
    except DecodeError as error:
        raise LoadFailed(f"{file.name} is no graph of TensorFlow: upload it again") from error
    signature = meta_graph.signature_def[SERVING_DEFAULT]
    signature.method_name = Method.PREDICT.value
    _drop_left_over(meta_graph.graph_def)
    for node in meta_graph.graph_def.node:
        if node.op == "Placeholder" and meta_graph.graph_def.versions.producer < _OPEN_UNTIL:
            shape = node.attr["shape"].shape
            shape.unknown_rank = not shape.dim
        if node.op in PLACEHOLDERS:
            _add_input(signature, node)
    constants = {node.name for node in meta_graph.graph_def.node if node.op == "Const"}
    for node in _ends(meta_graph.graph_def):
        is_constant = constants.issuperset(node.input)  # what a converter left over
        if dtype := types.get(node.name) or (not is_constant and _dtype(node)):
            info = signature.outputs[node.name]
            info.name, info.dtype, info.tensor_shape.unknown_rank = f"{node.name}:0", dtype, True
    if not signature.outputs:
        raise LoadFailed(f"{file.name} has no output: expected a frozen graph of TensorFlow")
    return meta_graph


def _drop_left_over(graph_def: Proto) -> None:
    """Drop what TensorFlow puts beside a loop that it wrote out, and that no node reads."""
    taken = {name_of(each) for node in graph_def.node for each in node.input}
    for node in [*graph_def.node]:
        if node.name.startswith(LEFT_OVER) and node.op == "Placeholder" and node.name not in taken:
            graph_def.node.remove(node)


def _add_input(signature: Proto, node: Proto) -> None:
    info = signature.inputs[node.name]
    info.name, info.dtype = f"{node.name}:0", node.attr["dtype"].type
    if "shape" in node.attr:
        info.tensor_shape.CopyFrom(node.attr["shape"].shape)
    else:
        info.tensor_shape.unknown_rank = True


def _dtype(node: Proto) -> int:
    """Read the dtype of what a node gives from its attributes; 0 where none tells."""
    if node.op.startswith(_OTHERS):
        return 0
    named = (node.attr[name].type for name in _OF_OUTPUT if name in node.attr)
    return _GIVES.get(node.op) or next(named, 0)


def _ends(graph_def: Proto) -> list[Proto]:
    """Give the nodes whose results no other node takes."""
    taken = {name_of(each) for node in graph_def.node for each in node.input}
    return [
        node
        for node in graph_def.node
        if node.name not in taken and node.op not in WITHOUT_OUTPUTS | PLACEHOLDERS
    ]
