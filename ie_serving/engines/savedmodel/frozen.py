"""A frozen graph of TensorFlow as the SavedModel that it might have been.

A GraphDef names no inputs and outputs: its placeholders are the inputs, and what no other node
takes are the outputs, as OpenVINO has it. With a signature made of those it goes the way of a
SavedModel, so what OpenVINO lacks or computes wrongly is replaced or refused as there.
"""

from collections.abc import Mapping
from pathlib import Path

from google.protobuf.message import DecodeError

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, Method
from ie_serving.engines.savedmodel.file import TAG, MetaGraph
from ie_serving.wire.protobuf import graph
from ie_serving.wire.protobuf.messages import Proto

PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderWithDefault"})
WITHOUT_OUTPUTS = frozenset({"Assert", "NoOp", "Print"})

Types = Mapping[str, int]
"""Number of the `tensorflow.DataType` of each node that gives an output, by the node's name."""


def read_frozen(file: Path, types: Types) -> MetaGraph:
    """Read a GraphDef, and give it a signature.

    Args:
        file: the GraphDef, serialized.
        types: of the outputs, which the file does not say.

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
    for node in meta_graph.graph_def.node:
        if node.op in PLACEHOLDERS:
            _add_input(signature, node)
    for name in _ends(meta_graph.graph_def):
        if name in types:
            info = signature.outputs[name]
            info.name, info.dtype, info.tensor_shape.unknown_rank = f"{name}:0", types[name], True
    if not signature.outputs:
        raise LoadFailed(f"{file.name} has no output: expected a frozen graph of TensorFlow")
    return meta_graph


def _add_input(signature: Proto, node: Proto) -> None:
    info = signature.inputs[node.name]
    info.name, info.dtype = f"{node.name}:0", node.attr["dtype"].type
    if "shape" in node.attr:
        info.tensor_shape.CopyFrom(node.attr["shape"].shape)
    else:
        info.tensor_shape.unknown_rank = True


def _ends(graph_def: Proto) -> list[str]:
    """Name the nodes whose results no other node takes."""
    taken = {each.lstrip("^").partition(":")[0] for node in graph_def.node for each in node.input}
    return [
        node.name
        for node in graph_def.node
        if node.name not in taken and node.op not in WITHOUT_OUTPUTS | PLACEHOLDERS
    ]
