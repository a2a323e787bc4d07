"""Outputs of nodes inside of functions, by number instead of by name.

In a function a reference is `node:output name:index`. OpenVINO's front end knows the names of the
outputs of a few operations alone; of the others it takes the first output, whichever is meant, so
that the second output of `Unique` would be the first without a word. It also takes `node:number`,
as in a graph, and then refuses an output that it does not have.
"""

from collections.abc import Mapping

from ie_serving.wire.protobuf.messages import Proto


class Numbers:
    """Numbers of the outputs that the references inside of functions name.

    Args of the constructor:
        meta_graph: whose list of operations says which outputs each has.
    """

    def __init__(self, meta_graph: Proto) -> None:
        self._outputs = _several(meta_graph)

    def of(self, node: Proto, port: str) -> int:
        """Number an output of a node.

        Args:
            node: of a function.
            port: what a reference has behind the node's name: `output name:index`.
        """
        output, _, index = port.rpartition(":")
        number = int(index or 0)
        if not output or node.op not in self._outputs:
            return number
        return _first_of(self._outputs[node.op], node, output) + number


def has_others_than_first(meta_graph: Proto) -> bool:
    """Tell whether a function refers to an output that its node does not have first."""
    outputs = _several(meta_graph)
    functions = meta_graph.graph_def.library.function
    return bool(outputs) and any(_changes(each, outputs) for each in functions)


def number_outputs(meta_graph: Proto) -> None:
    """Change these references in all functions."""
    outputs = _several(meta_graph)
    for function in meta_graph.graph_def.library.function:
        if changes := _changes(function, outputs):
            _apply(changes, function)


def _apply(changes: Mapping[str, str], function: Proto) -> None:
    for node in function.node_def:
        for at, reference in enumerate(node.input):
            if reference in changes:
                node.input[at] = changes[reference]
    # The keys stay, so the map may be changed while it is read.
    for name, reference in function.ret.items():
        if reference in changes:
            function.ret[name] = changes[reference]


def _several(meta_graph: Proto) -> dict[str, Proto]:
    """Give the operations that have several outputs by name: the file lists those that it uses."""
    listed = meta_graph.meta_info_def.stripped_op_list.op
    return {each.name: each for each in listed if len(each.output_arg) > 1}


def _changes(function: Proto, outputs: Mapping[str, Proto]) -> dict[str, str]:
    """Give the new form of each reference that is to be changed."""
    nodes = {node.name: node for node in function.node_def if node.op in outputs}
    if not nodes:
        return {}
    found = {}
    references = {ref for node in function.node_def for ref in node.input}
    for reference in (*references, *function.ret.values()):
        name, _, rest = reference.partition(":")
        output, _, index = rest.rpartition(":")
        if name in nodes and output:
            node = nodes[name]
            number = _first_of(outputs[node.op], node, output) + int(index)
            if number:
                found[reference] = f"{name}:{number}"
    return found


def _first_of(operation: Proto, node: Proto, output: str) -> int:
    """Count the outputs in front of the one of that name."""
    count = 0
    for each in operation.output_arg:
        if each.name == output:
            break
        if each.number_attr:
            count += node.attr[each.number_attr].i
        elif each.type_list_attr:
            count += len(node.attr[each.type_list_attr].list.type)
        else:
            count += 1
    return count
