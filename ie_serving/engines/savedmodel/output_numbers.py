"""Rewrite: refers to outputs of nodes inside functions by number instead of by name.

In a function a reference is `node:output name:index`. OpenVINO's front end knows the output names
of a few operations only; of others it silently takes the first output, so that the second output of
`Unique` would be the first. It also accepts `node:number`, as in a graph, and then refuses an
output that does not exist.
"""

from ie_serving.engines.savedmodel.frames import replace_references
from ie_serving.wire.protobuf.messages import Proto


class Numbers:
    """Numbers of the outputs that the references inside of functions name.

    Args of the constructor:
        meta_graph: its list of operations has the outputs of each.
    """

    def __init__(self, meta_graph: Proto) -> None:
        # The file lists the operations that it uses.
        listed = meta_graph.meta_info_def.stripped_op_list.op
        self._outputs = {each.name: each for each in listed if len(each.output_arg) > 1}

    def of(self, node: Proto, port: str) -> int:
        """Number an output of a node.

        Args:
            node: node of a function.
            port: the part of a reference after the node's name: `output name:index`.
        """
        output, _, index = port.rpartition(":")
        number = int(index or 0)
        if not output or node.op not in self._outputs:
            return number
        return _first_of(self._outputs[node.op], node, output) + number

    def changes(self, function: Proto) -> dict[str, str]:
        """Give the new form of each reference in a function to another output than the first."""
        nodes = {node.name: node for node in function.node_def if node.op in self._outputs}
        found = {}
        references = {ref for node in function.node_def for ref in node.input} if nodes else ()
        for reference in (*references, *function.ret.values()):
            name, _, port = reference.partition(":")
            if name in nodes and ":" in port and (number := self.of(nodes[name], port)):
                found[reference] = f"{name}:{number}"
        return found


def has_others_than_first(meta_graph: Proto) -> bool:
    """Tell whether a function refers to an output that its node does not have first."""
    return any(map(Numbers(meta_graph).changes, meta_graph.graph_def.library.function))


def number_outputs(meta_graph: Proto) -> None:
    """Change these references in all functions."""
    numbers = Numbers(meta_graph)
    for function in meta_graph.graph_def.library.function:
        replace_references(function.node_def, function.ret, numbers.changes(function))


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
