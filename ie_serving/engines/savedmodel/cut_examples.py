"""Rewrite: cuts ParseExample out of the graph, so that its results become inputs.

OpenVINO has no parser of Examples. The node's attributes and constant inputs define the parsed
features; they become an `ExampleSpec`, and each used output becomes a placeholder.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array
from ie_serving.engines.savedmodel.constants import constant
from ie_serving.engines.savedmodel.example_features import (
    EXAMPLE_PARSERS,
    SEQUENCE_PARSERS,
    ExampleFeatures,
    SequenceFeatures,
)
from ie_serving.engines.savedmodel.file import PLACEHOLDERS
from ie_serving.engines.savedmodel.frames import Frame, Key, NodeOutput, above, write_shape
from ie_serving.wire.examples.example_spec import ExampleSpec, ParsedOutput
from ie_serving.wire.examples.sequence_examples import SequenceSpec
from ie_serving.wire.protobuf.messages import Proto, TensorShapeProto

PARSERS = EXAMPLE_PARSERS | SEQUENCE_PARSERS


@dataclass(frozen=True)
class ExampleParsing:
    """A ParseExample that was cut out.

    Attributes:
        examples: name of the graph's placeholder that it read.
        spec: the parsed features; the tensors have the names of the placeholders that replace it.
        inputs: the placeholders, with the dtype of each.
        given: names of tensors that are outputs of the signature as they are, by the key of the
            node output that gave them.
    """

    examples: str
    spec: ExampleSpec | SequenceSpec
    inputs: dict[str, int]
    given: dict[Key, str]


def cut_examples(outputs: Sequence[NodeOutput]) -> list[ExampleParsing]:
    """Cut out every ParseExample above `outputs` that reads an input.

    The host runs those that read another operation's output (`host/kernels_examples.py`).

    Raises:
        LoadFailed: one has keys that are no constants, or is a ParseSequenceExample of no input.
    """
    nodes: dict[tuple[int, str], NodeOutput] = {}
    for node_output in above(list(outputs)):
        if (
            node_output.node is not None
            and node_output.node.op in PARSERS
            and _reads_input(node_output)
        ):
            nodes.setdefault((id(node_output.frame), node_output.node.name), node_output)
    given = {node_output.origin().key for node_output in outputs}
    return [
        _cut(node_output.frame, node_output.node.name, f"ie_serving_example_{number}", given)
        for number, node_output in enumerate(nodes.values())
    ]


def _reads_input(node_output: NodeOutput) -> bool:
    node = node_output.node
    source = node_output.frame.node_output(node.input[0]).origin().node
    if source.op in PLACEHOLDERS:
        return True
    if node.op in SEQUENCE_PARSERS:
        raise LoadFailed(
            f"{node.op} {node.name!r} parses what {source.op} gives, not an input:"
            " export the signature with what it parses as an input"
        )
    return False


def _cut(frame: Frame, name: str, prefix: str, given: set[Key]) -> ExampleParsing:
    frame.own()
    node = frame.nodes[name]
    source = frame.node_output(node.input[0]).origin()
    features = _features(frame, node)
    scalar = node.op.startswith("ParseSingle") or _is_scalar(source.node)
    names: dict[tuple[str, int], str] = {}  # see `Names`
    inputs: dict[str, int] = {}
    results: dict[Key, str] = {}
    arguments: dict[str, str] = {}
    read = frame.read()
    for number, output in enumerate(features.outputs(scalar)):
        reference = _reference(frame, name, output, number)
        placeholder = f"{prefix}_{output.group}_{output.index}"
        key = frame.node_output(reference).key
        # The signature returns this as it was parsed, whether or not the model reads it, too.
        if key in given:
            names[output.group, output.index] = results[key] = placeholder
        if reference not in read:
            continue
        shape = TensorShapeProto()
        write_shape(shape, output.shape)
        arguments[reference] = frame.add_argument(placeholder, output.dtype, shape)
        names[output.group, output.index] = placeholder
        inputs[placeholder] = output.dtype
    spec = features.spec(scalar, names)
    frame.replace(arguments)
    frame.remove(name)
    return ExampleParsing(source.node.name, spec, inputs, results)


def _features(frame: Frame, node: Proto) -> ExampleFeatures | SequenceFeatures:
    value = partial(_constant, frame, node)
    if node.op in SEQUENCE_PARSERS:
        return SequenceFeatures(node, value)
    return ExampleFeatures(node, value)


def _constant(frame: Frame, node: Proto, number: int) -> Array:
    """Evaluate the input `number` of a node. Raises: LoadFailed, where it is no constant."""
    value = constant(frame.node_output(node.input[number]))
    if value is None:
        raise LoadFailed(
            f"input {number} of {node.op} {node.name!r} is not a constant:"
            " export the model with one"
        )
    return value


def _is_scalar(placeholder: Proto) -> bool:
    shape = placeholder.attr["shape"].shape
    return "shape" in placeholder.attr and not shape.unknown_rank and not shape.dim


def _reference(frame: Frame, name: str, output: ParsedOutput, number: int) -> str:
    """Write how nodes of the frame refer to an output, the `number`-th of the node."""
    if frame.parent is not None:
        return f"{name}:{output.group}:{output.index}"
    return f"{name}:{number}" if number else name
