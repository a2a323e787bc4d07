"""A parser that is cut out of a graph of TensorFlow gives what TensorFlow's own operation gives."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from ie_serving.core.values.tensors import Array
from ie_serving.engines.savedmodel.cut_examples import PARSERS, ExampleParsing, cut_examples
from ie_serving.engines.savedmodel.frames import Frame, Library, NodeOutput
from ie_serving.wire.examples.sequence_examples import SequenceSpec, parse_sequences
from ie_serving.wire.examples.serialized_examples import parse
from ie_serving.wire.protobuf import graph
from tests.unit.engines.savedmodel.exports import EXAMPLES, example

Outputs = Mapping[str, Any]
EMPTY = example()
DENSE = tf.io.FixedLenFeature([2], tf.float32, default_value=[5.0, 6.0])


def sequence(lists: Mapping[str, list[list[Any]]], **context: Any) -> bytes:
    """Serialize a SequenceExample; the first value of a step tells its kind."""
    made = tf.train.SequenceExample()
    made.context.CopyFrom(tf.train.Example.FromString(example(**context)).features)
    for key, steps in lists.items():
        held = made.feature_lists.feature_list[key]
        for values in steps:
            step = tf.train.Example.FromString(example(x=values)) if values else None
            held.feature.add().CopyFrom(step.features.feature["x"] if step else tf.train.Feature())
    return bytes(made.SerializeToString())


SEQUENCES = [
    sequence({"d": [[1.0, 2.0], [3.0, 4.0]], "s": [[1, 2], [], [3]]}, a=[0.5, 1.5], t=[b"x"]),
    sequence({"d": [[5.0, 6.0]], "t": [[b"y"], [b"z", b""]]}),
    sequence({"d": [], "s": [[7]]}, a=[1.0, 2.0], t=[b"p", b"q"]),
]


def flat(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Name the components of sparse and ragged tensors."""
    found: dict[str, Any] = {}
    for name, value in tensors.items():
        if isinstance(value, tf.SparseTensor):
            parts = {"i": value.indices, "v": value.values, "s": value.dense_shape}
            found.update({f"{name}/{part}": tensor for part, tensor in parts.items()})
        elif isinstance(value, tf.RaggedTensor):
            found[f"{name}/v"] = value.flat_values
            splits = enumerate(value.nested_row_splits)
            found.update({f"{name}/{depth}": tensor for depth, tensor in splits})
        else:
            found[name] = value
    return found


def examples_of_every_kind(serialized: Any) -> Any:
    features = {
        "a": DENSE,
        "b": tf.io.FixedLenFeature([], tf.int64, default_value=9),
        "w": tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True, default_value=-1.0),
        "t": tf.io.VarLenFeature(tf.string),
        "v": tf.io.RaggedFeature(tf.int64),
    }
    return tf.io.parse_example(serialized, features)


def first_version(serialized: Any) -> Any:
    """Write the operation of TensorFlow 1: an input for each key."""
    made = tf.raw_ops.ParseExample(
        serialized=serialized,
        names=tf.constant([], tf.string),
        sparse_keys=["t", "w"],
        dense_keys=["a"],
        dense_defaults=[tf.constant([5.0, 6.0])],
        sparse_types=[tf.string, tf.float32],
        dense_shapes=[[2]],
    )
    return {
        "a": made.dense_values[0],
        "i": made.sparse_indices[1],
        "v": made.sparse_values[1],
        "s": made.sparse_shapes[0],
    }


CONTEXT = {"a": DENSE, "t": tf.io.VarLenFeature(tf.string)}
LISTS = {
    "d": tf.io.FixedLenSequenceFeature([2], tf.float32),
    "s": tf.io.VarLenFeature(tf.int64),
    "t": tf.io.RaggedFeature(tf.string, row_splits_dtype=tf.int64),
}


def sequences_of_every_kind(serialized: Any) -> Any:
    context, lists, lengths = tf.io.parse_sequence_example(serialized, CONTEXT, LISTS)
    return {
        **{f"c/{name}": value for name, value in context.items()},
        **{f"l/{name}": value for name, value in lists.items()},
        **{f"n/{name}": value for name, value in lengths.items()},
    }


def one_sequence(serialized: Any) -> Any:
    context, lists = tf.io.parse_single_sequence_example(serialized, CONTEXT, LISTS)
    return {
        **{f"c/{name}": value for name, value in context.items()},
        **{f"l/{name}": value for name, value in lists.items()},
    }


def first_sequences(serialized: Any) -> Any:
    made = tf.raw_ops.ParseSequenceExample(
        serialized=serialized,
        debug_name=tf.constant([], tf.string),
        context_dense_defaults=[tf.constant([5.0, 6.0])],
        feature_list_dense_missing_assumed_empty=["d"],
        context_sparse_keys=["t"],
        context_dense_keys=["a"],
        feature_list_sparse_keys=["s"],
        feature_list_dense_keys=["d"],
        Ncontext_sparse=1,
        Ncontext_dense=1,
        Nfeature_list_sparse=1,
        Nfeature_list_dense=1,
        context_sparse_types=[tf.string],
        feature_list_dense_types=[tf.float32],
        context_dense_shapes=[[2]],
        feature_list_sparse_types=[tf.int64],
        feature_list_dense_shapes=[[2]],
    )
    return {name: part[0] for name, part in made._asdict().items()}


def one_first_sequence(serialized: Any) -> Any:
    made = tf.raw_ops.ParseSingleSequenceExample(
        serialized=serialized,
        feature_list_dense_missing_assumed_empty=tf.constant(["d"]),
        context_sparse_keys=["t"],
        context_dense_keys=["a"],
        feature_list_sparse_keys=["s"],
        feature_list_dense_keys=["d"],
        context_dense_defaults=[tf.constant([5.0, 6.0])],
        debug_name=tf.constant(""),
        context_sparse_types=[tf.string],
        feature_list_dense_types=[tf.float32],
        context_dense_shapes=[[2]],
        feature_list_sparse_types=[tf.int64],
        feature_list_dense_shapes=[[2]],
    )
    return {name: part[0] for name, part in made._asdict().items()}


def one_example(serialized: Any) -> Any:
    features = {"a": DENSE, "v": tf.io.VarLenFeature(tf.int64), "r": tf.io.RaggedFeature(tf.int64)}
    return tf.io.parse_single_example(serialized, features)


CASES: Mapping[str, tuple[Callable[[Any], Any], Any]] = {
    "ParseExampleV2": (examples_of_every_kind, [*EXAMPLES, EMPTY]),
    "ParseExample": (first_version, [*EXAMPLES, EMPTY]),
    "ParseSingleExample": (one_example, EXAMPLES[0]),
    "ParseSequenceExampleV2": (sequences_of_every_kind, SEQUENCES),
    "one by ParseSequenceExampleV2": (one_sequence, SEQUENCES[1]),
    "ParseSequenceExample": (first_sequences, [*SEQUENCES, EMPTY]),
    "ParseSingleSequenceExample": (one_first_sequence, SEQUENCES[0]),
}


def made(parse: Callable[[Any], Any], serialized: Any) -> tuple[Any, dict[str, str], Outputs]:
    """Give a graph, its outputs by name, and TensorFlow's values of them."""
    shape = [None] if isinstance(serialized, list) else []
    with v1.Graph().as_default() as held, v1.Session(graph=held) as session:
        placeholder = v1.placeholder(tf.string, shape, name="serialized")
        outputs = flat(parse(placeholder))
        answers = session.run(outputs, {placeholder: serialized})
    return held.as_graph_def(), {name: each.name for name, each in outputs.items()}, answers


def cut(definition: Any, outputs: Mapping[str, str]) -> tuple[ExampleParsing, dict[str, str]]:
    """Cut the parser out; give it with the names of its tensors by output."""
    changed = graph.GraphDef.FromString(definition.SerializeToString())
    frame = Frame(Library(changed), changed)
    places = {name: frame.node_output(tensor) for name, tensor in outputs.items()}
    keys = {name: place.origin().key for name, place in places.items()}
    (parsing,) = cut_examples(list(places.values()))
    assert not PARSERS & {node.op for node in changed.node}
    return parsing, {name: parsing.given[key] for name, key in keys.items()}


def tensors_of(parsing: ExampleParsing, serialized: Any) -> dict[str, Array]:
    rows = serialized if isinstance(serialized, list) else [serialized]
    if isinstance(parsing.spec, SequenceSpec):
        return parse_sequences(parsing.spec, rows)
    return parse(parsing.spec, rows)


@pytest.mark.parametrize(("operation", "serialized"), CASES.values(), ids=CASES)
def test_a_cut_parser_parses_as_tensorflow_does(
    operation: Callable[[Any], Any], serialized: Any
) -> None:
    definition, outputs, answers = made(operation, serialized)
    parsing, names = cut(definition, outputs)
    assert parsing.examples == "serialized"
    tensors = tensors_of(parsing, serialized)
    for name, answer in answers.items():
        got = tensors[names[name]]
        assert (got.shape, got.dtype) == (answer.shape, answer.dtype), name
        assert got.tolist() == answer.tolist(), name


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        pytest.param(
            sequence({}),
            "Feature list 'd' is required but could not be found.",
            id="a list that is missing",
        ),
        pytest.param(
            sequence({"d": [[1.0]]}),
            "Key: d, Index: 0.  Number of float values != expected.",
            id="too few values",
        ),
        pytest.param(
            sequence({"d": [[1, 2]]}),
            "Key: d, Index: 0.  Data types don't match.",
            id="another type",
        ),
        pytest.param(
            sequence({"d": []}, a=[1.0]),
            "Key: a, Index: 0.  Number of float values != expected.",
            id="too few values beside the list",
        ),
        pytest.param(b"\xff", "Could not parse example input", id="no Example"),
    ],
)
def test_faults_of_sequences_are_named_as_tensorflow_names_them(data: bytes, fault: str) -> None:
    definition, outputs, _ = made(sequences_of_every_kind, SEQUENCES)
    parsing, _ = cut(definition, outputs)
    with pytest.raises(InvalidRequest) as caught:
        tensors_of(parsing, [data])
    assert fault in str(caught.value)


def parsers_of(build: Callable[[tf.Tensor], object]) -> list[NodeOutput]:
    """Give the parsers of a graph that makes something of a text that it computes."""
    with v1.Graph().as_default() as held:
        build(tf.strings.upper(v1.placeholder(tf.string, [None], name="serialized")))
    changed = graph.GraphDef.FromString(held.as_graph_def().SerializeToString())
    frame = Frame(Library(changed), changed)
    return [frame.node_output(node.name) for node in changed.node if node.op in PARSERS]


def test_examples_that_the_graph_computes_are_left_to_the_host() -> None:
    places = parsers_of(lambda text: tf.io.parse_example(text, {"a": DENSE}))
    assert len(places) == 1
    assert not cut_examples(places)


def test_sequences_that_the_graph_computes_cannot_be_cut() -> None:
    places = parsers_of(lambda text: tf.io.parse_sequence_example(text, {"a": DENSE}))
    with pytest.raises(LoadFailed, match="parses what StringUpper gives"):
        cut_examples(places)
