"""Finds signatures of a SavedModel that compute the same: `serve` and `serving_default` of Keras.

TensorFlow wraps the function of each signature in a function of its own. Signatures compute the
same where these wrappers differ in nothing but their names, and are given the same.
"""

from collections.abc import Mapping

from ie_serving.core.values.tensors import without_port
from ie_serving.engines.savedmodel.file import DeclaredSignature, MetaGraph, TensorInfo
from ie_serving.engines.savedmodel.frames import CALLS
from ie_serving.wire.protobuf.messages import Proto

SignaturesByName = Mapping[str, Proto]


def repeats(meta_graph: MetaGraph, signatures: Mapping[str, DeclaredSignature]) -> dict[str, str]:
    """Give the name of the first signature that computes the same, by the names of later ones."""
    graph = meta_graph.graph_def
    nodes = {node.name: node for node in graph.node}
    functions = {each.signature.name: each for each in graph.library.function}
    first: dict[object, str] = {}
    named = {}
    for name, signature in signatures.items():
        defaults = meta_graph.signature_def[name].defaults.items()
        own = tuple(sorted((alias, _bytes(value)) for alias, value in defaults))
        computed = _computation(signature, nodes, functions)
        named[name] = first.setdefault((own, computed), name)
    return {name: earlier for name, earlier in named.items() if earlier != name}


def _computation(
    signature: DeclaredSignature, nodes: SignaturesByName, functions: SignaturesByName
) -> object:
    """Describe what a signature computes: alike only for signatures that compute the same."""
    inputs, outputs = signature.inputs, signature.outputs
    specs = (signature.method, _specs(inputs), _specs(outputs))
    given = [nodes.get(without_port(info.tensor)) for info in inputs.values()]
    references = [info.tensor.partition(":") for info in outputs.values()]
    called = {name for name, _, _ in references}
    if len(called) == 1 and all(node is not None and not node.input for node in given):
        fed = {without_port(info.tensor): alias for alias, info in inputs.items()}
        call = _call(nodes.get(called.pop()), fed, nodes, functions)
        if call:
            ports = tuple(port for _, _, port in references)
            return specs, ports, tuple(map(_nameless, given)), call
    return specs, tuple(info.tensor for info in (*inputs.values(), *outputs.values()))


def _specs(infos: Mapping[str, TensorInfo]) -> object:
    return tuple((alias, info.dtype, info.shape) for alias, info in infos.items())


def _call(
    node: Proto, fed: Mapping[str, str], nodes: SignaturesByName, functions: SignaturesByName
) -> object:
    """Describe a call; None where it is given what other nodes compute."""
    function = functions.get(node.attr["f"].func.name) if node and node.op in CALLS else None
    read = [without_port(reference) for reference in node.input] if function else []
    if function is None or any(each not in nodes or nodes[each].input for each in read):
        return None
    signature = function.signature
    parts = (*signature.input_arg, *signature.output_arg, *function.node_def)
    return (
        _nameless(node),
        tuple(map(_bytes, parts)),
        tuple(sorted(function.ret.items())),
        tuple((each in fed, fed.get(each, each)) for each in read),
    )


def _nameless(node: Proto) -> bytes:
    """Serialize a node without its name, its inputs and the name of its function."""
    copy = type(node).FromString(node.SerializeToString())
    copy.ClearField("name")
    copy.ClearField("input")
    if "f" in copy.attr:
        copy.attr["f"].func.ClearField("name")
    return _bytes(copy)


def _bytes(message: Proto) -> bytes:
    return bytes(message.SerializeToString(deterministic=True))
