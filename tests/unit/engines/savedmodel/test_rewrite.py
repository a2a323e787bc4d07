"""What is sorted out of a signature before OpenVINO sees it, and what is said of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.fit import fit
from ie_serving.engines.savedmodel.example_features import (
    ExampleFeatures,
    ExampleParser,
    SequenceFeatures,
)
from ie_serving.engines.savedmodel.file import FILE, MetaGraph, declared, read_graph
from ie_serving.engines.savedmodel.rewrite import (
    PreparedGraph,
    directory_for,
    directory_of_constants,
    prepare,
    unfold_cases,
)
from ie_serving.wire.protobuf import graph
from ie_serving.wire.tfs.classify_regress import serialize_examples
from tests.unit.engines.openvino.models import load, run
from tests.unit.engines.savedmodel.exports import EXAMPLES, first_generation, plain_graph, strings

# What is sorted out of a signature before OpenVINO sees it, on a graph that TensorFlow wrote.


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "1"
    first_generation(path, plain_graph)
    return path


def prepared(path: Path, name: str) -> tuple[MetaGraph, PreparedGraph]:
    meta_graph = read_graph(path)
    return meta_graph, prepare(meta_graph, declared(meta_graph)[name])


def test_a_placeholder_with_a_default_is_fed_and_may_be_left_out(plain: Path) -> None:
    meta_graph, made = prepared(plain, "serving_default")
    assert {name: value.item() for name, value in made.defaults.items()} == {"keep": 0.5}
    with directory_for(plain, meta_graph, made) as copy:
        changed = read_graph(copy)
    ops = {node.name: node.op for node in changed.graph_def.node}
    definition = changed.signature_def["serving_default"]
    fed = {alias: ops[info.name.partition(":")[0]] for alias, info in definition.inputs.items()}
    assert fed == {"x": "Placeholder", "keep": "Placeholder"}


def test_the_default_that_the_signature_declares_wins(plain: Path) -> None:
    _, made = prepared(plain, "declared_default")
    assert made.defaults["keep"].item() == 0.25


def test_an_input_that_no_signature_names_keeps_its_default(plain: Path) -> None:
    _, made = prepared(plain, "without_keep")
    assert (set(made.inputs), made.defaults) == ({"x"}, {})


def test_outputs_of_no_input_are_constants_or_computed_once(plain: Path) -> None:
    meta_graph, made = prepared(plain, "constants")
    assert set(made.outputs) == {"y"}
    assert made.constants["names"].tolist() == [b"a", b"b"]
    assert made.constants["threshold"].item() == 0.25
    assert set(made.computed) == {"held"}
    with directory_of_constants(plain, meta_graph, made) as copy:
        definition = read_graph(copy).signature_def["serving_default"]
    assert [len(definition.inputs), len(definition.outputs)] == [1, 1]


def test_an_output_that_is_an_input_or_its_identity_is_echoed(plain: Path) -> None:
    _, made = prepared(plain, "echo")
    assert (set(made.outputs), made.echoes) == ({"y"}, {"x2": "x", "x3": "x"})


def test_an_input_that_is_checked_is_not_echoed(plain: Path) -> None:
    _, made = prepared(plain, "checked")
    assert (set(made.outputs), made.echoes) == ({"y", "x4"}, {})


def test_a_tensor_that_two_inputs_name_is_refused(plain: Path) -> None:
    meta_graph = read_graph(plain)
    inputs = meta_graph.signature_def["echo"].inputs
    inputs["again"].CopyFrom(inputs["x"])
    with pytest.raises(LoadFailed, match=r"'again' and 'x'|'x' and 'again'"):
        prepare(meta_graph, declared(meta_graph)["echo"])


def test_an_output_of_two_names_is_computed_once(plain: Path) -> None:
    _, made = prepared(plain, "twice")
    assert (set(made.outputs), made.repeats) == ({"y"}, {"z": "y"})


def test_a_graph_that_needs_no_change_is_read_where_it_lies(plain: Path) -> None:
    meta_graph = read_graph(plain)
    definition = meta_graph.signature_def["serving_default"]
    definition.CopyFrom(meta_graph.signature_def["without_keep"])
    made = prepare(meta_graph, declared(meta_graph)["serving_default"])
    with directory_for(plain, meta_graph, made) as source:
        assert source == plain


def test_an_output_of_an_inputs_name_gets_another_in_a_copy(plain: Path) -> None:
    meta_graph = read_graph(plain)
    definition = meta_graph.signature_def["serving_default"]
    definition.CopyFrom(meta_graph.signature_def["without_keep"])
    definition.outputs["x"].CopyFrom(definition.outputs["y"])
    del definition.outputs["y"]
    made = prepare(meta_graph, declared(meta_graph)["serving_default"])
    with directory_for(plain, meta_graph, made) as copy:
        assert (copy / FILE).is_file()
        changed = read_graph(copy).signature_def["serving_default"]
    assert set(changed.inputs).isdisjoint(changed.outputs)


def test_a_tensor_that_the_graph_lacks_is_named(plain: Path) -> None:
    meta_graph = read_graph(plain)
    meta_graph.signature_def["echo"].outputs["y"].name = "absent:0"
    with pytest.raises(LoadFailed, match="refers to a node 'absent'"):
        prepare(meta_graph, declared(meta_graph)["echo"])


# What a parsing node says of its features is read, or refused with the node's name.

RESOURCE = 20
"""`DT_RESOURCE`, which no request can carry."""


@pytest.mark.parametrize(
    ("kind", "operation", "attribute"),
    [
        pytest.param(ExampleFeatures, "ParseExampleV2", "Tdense", id="Example"),
        pytest.param(
            SequenceFeatures, "ParseSequenceExample", "Tcontext_dense", id="SequenceExample"
        ),
    ],
)
def test_a_feature_of_an_unknown_dtype_is_refused(
    kind: type[ExampleParser], operation: str, attribute: str
) -> None:
    node = graph.NodeDef(name="parse", op=operation)
    node.attr[attribute].list.type.append(RESOURCE)
    with pytest.raises(LoadFailed, match=f"{operation} 'parse' has a feature of dtype number 20"):
        kind(node, lambda number: np.array([], np.object_))


# An error of the model's part of a signature speaks of what the client sent, not of our names.

KERNEL = [[1.0, 2.0], [3.0, 4.0]]


class Parts(tf.Module):  # type: ignore[misc]
    """Host before model, and Examples before model; both multiply two tensors row by row."""

    def __init__(self) -> None:
        super().__init__()
        made = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([0, 1], tf.int64))
        self.table = tf.lookup.StaticHashTable(made, -1)

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, "s"), tf.TensorSpec([None, 2], name="x")]
    )
    def words(self, s: tf.Tensor, x: tf.Tensor) -> dict[str, tf.Tensor]:
        weights = tf.gather([1.0, 2.0], self.table.lookup(s))
        return {"y": tf.matmul(x, KERNEL)[:, 0] * weights}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def parsed(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        feature = tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True)
        found = tf.io.parse_example(examples, {"f": feature, "g": feature})
        return {"y": tf.exp(found["f"]) * found["g"]}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("parts")
    parts = Parts()
    tf.saved_model.save(parts, directory, {"words": parts.words, "parsed": parts.parsed})
    return directory


async def test_a_tensor_of_the_host_is_named_by_its_operation_and_input(exported: Path) -> None:
    inputs = {"s": np.array([b"a", b"b"], np.object_), "x": np.ones((3, 2), np.float32)}
    with pytest.raises(InvalidTensor) as failure:
        await run(load(exported), inputs, "words")
    told = str(failure.value)
    assert "what LookupTableFindV2" in told
    assert 'makes of "s" (2,)' in told
    assert '"x" (3, 2)' in told
    assert "ie_serving_" not in told


async def test_a_parsed_tensor_is_named_by_its_key_and_input(exported: Path) -> None:
    rows = serialize_examples([{"f": [1.0, 2.0], "g": [1.0, 2.0, 3.0]}])
    with pytest.raises(InvalidTensor) as failure:
        await run(load(exported), {"examples": np.array(rows, np.object_)}, "parsed")
    told = str(failure.value)
    assert 'feature "f" of "examples" (1, 2)' in told
    assert 'feature "g" of "examples" (1, 3)' in told
    assert "ie_serving_" not in told


# `shape` and `batch_size` of SavedModels of which the server itself reads something.


class Mixed(tf.Module):  # type: ignore[misc]
    """Signatures of strings, of numbers, of both, and of Examples."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="s")])
    def lower(self, s: Any) -> Any:
        return {"t": tf.strings.lower(s)}

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def double(self, x: Any) -> Any:
        return {"y": x * 2.0, "version": tf.constant("v1")}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="s"),
            tf.TensorSpec([None, 2], tf.float32, name="x"),
        ]
    )
    def both(self, s: Any, x: Any) -> Any:
        return {"t": tf.strings.lower(s), "y": tf.matmul(x, [[2.0, 0.0], [0.0, 2.0]])}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def parsed(self, examples: Any) -> Any:
        spec = {"a": tf.io.FixedLenFeature([2], tf.float32)}
        return {"y": tf.io.parse_example(examples, spec)["a"] * 2.0}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mixed") / "1"
    module = Mixed()
    names = ("lower", "double", "both", "parsed")
    tf.saved_model.save(module, str(path), {name: getattr(module, name) for name in names})
    return path


def test_a_batch_that_the_server_cannot_give_is_refused_by_name(mixed: Path) -> None:
    """Before, it was ignored: the signature of strings took any batch, without a word."""
    signatures = load(mixed, batch_size=3).signatures
    for name, own in (("lower", "s"), ("both", "s"), ("parsed", "examples")):
        assert "batch_size: cannot be applied to input" in signatures[name].left_out
        assert own in signatures[name].left_out
    assert not signatures["double"].left_out


async def test_a_batch_that_is_set_is_told_and_held(mixed: Path) -> None:
    """Before, metadata showed any batch, since the output that is a constant is answered here."""
    model = load(mixed, batch_size=3, inference_precision="f32")
    signature = model.signatures["double"]
    assert signature.inputs["x"].shape == (3, 2)
    assert signature.outputs["y"].shape == (3, 2)
    x = np.ones((3, 2), np.float32)
    assert (await run(model, {"x": x}, "double"))["y"].tolist() == (x * 2).tolist()
    with pytest.raises(InvalidTensor):
        fit(signature, {"x": x[:1]})


async def test_any_batch_is_what_they_take_already(mixed: Path) -> None:
    """Before, the signature of Examples was left out, since its model has no input of a client."""
    model = load(mixed, batch_size=-1)
    assert not any(signature.left_out for signature in model.signatures.values())
    assert (await run(model, {"s": strings(b"AB")}, "lower"))["t"].tolist() == [b"ab"]
    examples = {"examples": strings(*EXAMPLES[:2])}
    assert (await run(model, examples, "parsed"))["y"].tolist() == [[2.0, 4.0], [1.0, -2.0]]


def test_a_shape_of_strings_is_refused_by_name(mixed: Path) -> None:
    signatures = load(mixed, shape={"x": (5, 2)}).signatures
    assert signatures["both"].inputs["x"].shape == (5, 2)
    assert "shape names no input 'x'" in signatures["lower"].left_out
    with pytest.raises(LoadFailed, match=r"signature 'both' .*shape: cannot be applied to input"):
        load(mixed, shape={"s": (4,), "x": (5, 2)})


@pytest.mark.parametrize(
    ("branches", "cause"),
    [
        pytest.param([], r"its branches \[\] are not in the file", id="no branch"),
        pytest.param(["gone"], r"its branches \['gone'\] are not in the file", id="a lost branch"),
    ],
)
def test_a_case_without_its_branches_is_refused(branches: list[str], cause: str) -> None:
    graph_def = graph.GraphDef()
    case = graph_def.node.add(name="case", op="StatelessCase", input=["index"])
    for each in branches:
        case.attr["branches"].list.func.add(name=each)
    with pytest.raises(LoadFailed, match=f'StatelessCase "case": {cause}'):
        unfold_cases(graph_def)
