"""Rewrite: ParseExample is cut out of the graph, and its results become inputs.

OpenVINO has no parser of Examples. The node's attributes and constant inputs say what it parses;
they become an `ExampleSpec`, and each of its outputs that something reads becomes a placeholder.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ie_serving.core.errors import LoadFailed
from ie_serving.core.tensors import BY_NUMBER, Array, DataType
from ie_serving.engines.openvino.savedmodel.constants import constant
from ie_serving.engines.openvino.savedmodel.cut_sequences import (
    SEQUENCE_PARSERS,
    SequenceFeatures,
)
from ie_serving.engines.openvino.savedmodel.example_spec import (
    Dense,
    ExampleSpec,
    Names,
    Output,
    Ragged,
    Sparse,
    is_default,
)
from ie_serving.engines.openvino.savedmodel.frames import Frame, Key, Place, above
from ie_serving.engines.openvino.savedmodel.sequences import SequenceSpec
from ie_serving.wire.protobuf.messages import Proto, TensorShapeProto

PARSERS = frozenset({"ParseExample", "ParseExampleV2", "ParseSingleExample"}) | SEQUENCE_PARSERS


@dataclass(frozen=True)
class Parsing:
    """A ParseExample that was cut out.

    Attributes:
        examples: name of the graph's placeholder that it read.
        spec: what it parses; the tensors bear the names of the placeholders that replace it.
        inputs: the placeholders, with the dtype of each.
        given: names of tensors that are outputs of the signature as they are, by the key of the
            place that gave them.
    """

    examples: str
    spec: ExampleSpec | SequenceSpec
    inputs: dict[str, int]
    given: dict[Key, str]


def cut_examples(outputs: Sequence[Place]) -> list[Parsing]:
    """Cut out every ParseExample above `outputs`, whatever lies between.

    Raises:
        LoadFailed: one reads what is no input, or has keys that are no constants.
    """
    nodes: dict[tuple[int, str], Place] = {}
    for place in above(list(outputs)):
        if place.node is not None and place.node.op in PARSERS:
            nodes.setdefault((id(place.frame), place.node.name), place)
    given = {place.origin().key for place in outputs}
    return [
        _cut(place.frame, place.node.name, f"ie_serving_example_{number}", given)
        for number, place in enumerate(nodes.values())
    ]


def _cut(frame: Frame, name: str, prefix: str, given: set[Key]) -> Parsing:
    frame.own()
    node = frame.nodes[name]
    source = frame.place(node.input[0]).origin()
    if source.node.op not in ("Placeholder", "PlaceholderWithDefault"):
        # What an operation computes the serialized Examples from, we would have to compute first.
        raise LoadFailed(f"{node.op} {name!r} parses what {source.node.op} gives, not an input")
    features = _features(frame, node)
    scalar = node.op.startswith("ParseSingle") or _is_scalar(source.node)
    names: dict[tuple[str, int], str] = {}  # see `Names`
    inputs: dict[str, int] = {}
    results: dict[Key, str] = {}
    for number, output in enumerate(features.outputs(scalar)):
        reference = _reference(frame, name, output, number)
        placeholder = f"{prefix}_{output.group}_{output.index}"
        key = frame.place(reference).key
        # The signature returns this as it was parsed, whether or not the model reads it, too.
        if key in given:
            names[output.group, output.index] = results[key] = placeholder
        if not _is_read(frame, reference):
            continue
        argument = frame.add_argument(placeholder, output.dtype, _shape_proto(output.shape))
        frame.replace(reference, argument)
        names[output.group, output.index] = placeholder
        inputs[placeholder] = output.dtype
    spec = features.spec(scalar, names)
    frame.remove(name)
    return Parsing(source.node.name, spec, inputs, results)


def _features(frame: Frame, node: Proto) -> "_Features | SequenceFeatures":
    if node.op in SEQUENCE_PARSERS:
        return SequenceFeatures(node, partial(_constant, frame, node))
    return _Features(frame, node)


def _constant(frame: Frame, node: Proto, number: int) -> Array:
    """Evaluate the input `number` of a node. Raises: LoadFailed, where it is no constant."""
    value = constant(frame.place(node.input[number]))
    if value is None:
        raise LoadFailed(f"input {number} of {node.op} {node.name!r} is not a constant")
    return value


class _Features:
    """What a node parses, read from its attributes and constant inputs."""

    def __init__(self, frame: Frame, node: Proto) -> None:
        self._frame = frame
        self._node = node
        attr = node.attr
        self.dense_types = [_dtype(t, node) for t in attr["Tdense"].list.type]
        self.sparse_types = [_dtype(t, node) for t in attr["sparse_types"].list.type]
        self.ragged_types = [_dtype(t, node) for t in attr["ragged_value_types"].list.type]
        self.split_types = [_dtype(t, node) for t in attr["ragged_split_types"].list.type]
        self.dense_shapes = [
            tuple(dim.size for dim in shape.dim) for shape in attr["dense_shapes"].list.shape
        ]
        self._read_keys()

    def _read_keys(self) -> None:
        node, dense, sparse = self._node, len(self.dense_types), len(self.sparse_types)
        self.ragged_keys: list[str] = []
        # Inputs 0 and 1 are the Examples and their names. In ParseExample an input for each key
        # follows, in V2 one for all keys of a kind; ParseSingleExample has its keys as attributes.
        # The defaults of dense features come last.
        if node.op == "ParseSingleExample":
            self.sparse_keys = [key.decode() for key in node.attr["sparse_keys"].list.s]
            self.dense_keys = [key.decode() for key in node.attr["dense_keys"].list.s]
            first_default = 1
        elif node.op == "ParseExampleV2":
            self.sparse_keys, self.dense_keys, self.ragged_keys = map(self._keys, (2, 3, 4))
            first_default = 5
        else:
            self.sparse_keys = [self._keys(2 + i)[0] for i in range(sparse)]
            self.dense_keys = [self._keys(2 + sparse + i)[0] for i in range(dense)]
            first_default = 2 + sparse + dense
        self.defaults = [
            _constant(self._frame, self._node, first_default + i) for i in range(dense)
        ]

    def _keys(self, number: int) -> list[str]:
        return [key.decode() for key in _constant(self._frame, self._node, number).ravel()]

    def outputs(self, scalar: bool) -> Iterator[Output]:
        """List the node's outputs in order."""
        yield from self._sparse_outputs(1 if scalar else 2)
        batch = () if scalar else (-1,)  # the number of Examples
        for at, dtype in enumerate(self.dense_types):
            yield Output("dense_values", at, dtype.number, (*batch, *self.dense_shapes[at]))
        for at, dtype in enumerate(self.ragged_types):
            yield Output("ragged_values", at, dtype.number, (-1,))
        for at, dtype in enumerate(self.split_types):
            yield Output("ragged_row_splits", at, dtype.number, (-1,))

    def _sparse_outputs(self, rank: int) -> Iterator[Output]:
        # Not feature by feature: the node has the indices of all, then the values, then the shapes.
        for at, _ in enumerate(self.sparse_types):
            yield Output("sparse_indices", at, DataType.INT64.number, (-1, rank))
        for at, dtype in enumerate(self.sparse_types):
            yield Output("sparse_values", at, dtype.number, (-1,))
        for at, _ in enumerate(self.sparse_types):
            yield Output("sparse_shapes", at, DataType.INT64.number, (rank,))

    def spec(self, scalar: bool, names: Names) -> ExampleSpec:
        """Say what is parsed, into tensors of these names by output; "" for outputs not read.

        A dense feature that nothing reads is parsed as well: TensorFlow refuses an Example without
        it all the same.
        """
        return ExampleSpec(
            scalar,
            tuple(self._dense(at, names) for at in range(len(self.dense_keys))),
            tuple(self._sparse(at, names) for at in range(len(self.sparse_keys))),
            tuple(self._ragged(at, names) for at in range(len(self.ragged_keys))),
        )

    def _dense(self, at: int, names: Names) -> Dense:
        default, shape = self.defaults[at], self.dense_shapes[at]
        return Dense(
            self.dense_keys[at],
            self.dense_types[at],
            shape,
            default if is_default(default, shape) else None,
            names.get(("dense_values", at), ""),
        )

    def _sparse(self, at: int, names: Names) -> Sparse:
        groups = ("sparse_indices", "sparse_values", "sparse_shapes")
        indices, values, shapes = (names.get((group, at), "") for group in groups)
        return Sparse(self.sparse_keys[at], self.sparse_types[at], indices, values, shapes)

    def _ragged(self, at: int, names: Names) -> Ragged:
        values, splits = (
            names.get((group, at), "") for group in ("ragged_values", "ragged_row_splits")
        )
        kinds = self.ragged_types[at], self.split_types[at]
        return Ragged(self.ragged_keys[at], kinds[0], values, splits, kinds[1])


def _dtype(number: int, node: Proto) -> DataType:
    if number not in BY_NUMBER:
        raise LoadFailed(f"{node.op} {node.name!r} has a feature of dtype number {number}")
    return BY_NUMBER[number]


def _is_scalar(placeholder: Proto) -> bool:
    shape = placeholder.attr["shape"].shape
    return "shape" in placeholder.attr and not shape.unknown_rank and not shape.dim


def _reference(frame: Frame, name: str, output: Output, number: int) -> str:
    """Write how nodes of the frame refer to an output, the `number`-th of the node."""
    if frame.parent is not None:
        return f"{name}:{output.group}:{output.index}"
    return f"{name}:{number}" if number else name


def _is_read(frame: Frame, reference: str) -> bool:
    return any(reference in node.input for node in frame.nodes.values()) or frame.returns(reference)


def _shape_proto(shape: tuple[int, ...]) -> Proto:
    proto = TensorShapeProto()
    proto.SetInParent()
    for size in shape:
        proto.dim.add(size=size)
    return proto
