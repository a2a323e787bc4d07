"""Lists the operations of a model's file, in the order in which they are computed.

Read again from the file, only where a model is refused: to name the operation at fault.
"""

from collections.abc import Collection, Iterator
from pathlib import Path

from ie_serving.engines.onnx_file import MAIN_DOMAIN, nodes
from ie_serving.engines.openvino.error_texts import Operation
from ie_serving.engines.openvino.reading import formats
from ie_serving.engines.savedmodel.file import declared, read_graph
from ie_serving.engines.savedmodel.frames import (
    Frame,
    Library,
    NodeOutput,
    functions_of,
    standing_alone,
)
from ie_serving.wire.protobuf import graph


def operations(file: Path, tags: Collection[str], signature: str = "") -> Iterator[Operation]:
    """List the operations; none for formats whose files have no names for them.

    Args:
        file: file of the model.
        tags: tags of the graph of a SavedModel.
        signature: signature of a SavedModel, whose outputs count; else the whole graph.

    Raises:
        LoadFailed: the file is damaged.
        OSError: it is gone.
        ValueError: as of LoadFailed.
    """
    if file.suffix == formats.ONNX:
        for node in nodes(file):
            kind = node.kind if node.domain == MAIN_DOMAIN else f"{node.domain}.{node.kind}"
            yield Operation(kind, tuple(filter(None, (node.name, *node.outputs))))
    elif file.name in (formats.SAVED_MODEL, formats.SAVED_MODEL_TEXT):
        meta_graph = read_graph(file.parent, tags)
        frame = Frame(Library(meta_graph.graph_def), meta_graph.graph_def)
        outputs = declared(meta_graph)[signature].outputs.values()
        yield from _above([frame.node_output(info.tensor) for info in outputs], "")
    elif file.suffix == formats.FROZEN:
        for node in graph.GraphDef.FromString(file.read_bytes()).node:
            yield Operation(node.op, (node.name,))


def _above(node_outputs: list[NodeOutput], where: str) -> Iterator[Operation]:
    # Imported on first use: only SavedModels that are refused need it.
    from ie_serving.engines.savedmodel.host.partition import ordered

    for node_output in ordered(node_outputs):
        node = node_output.node
        for function in functions_of(node):
            _, _, returned = standing_alone(node_output.frame.library, function)
            yield from _above(returned, f', in a function of {node.op} "{node.name}"')
        yield Operation(node.op, (node.name,), where)
