"""Loops and branches of TensorFlow 1 become functional ones, where the host has to run them."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.savedmodel.host.functional import functional
from ie_serving.engines.savedmodel.host.needs import FIRST_FORM
from ie_serving.engines.savedmodel.host.nodes import GraphNodes
from ie_serving.wire.protobuf import graph
from ie_serving.wire.protobuf.messages import Proto
from tests.unit.engines.savedmodel.exports import (
    first_control_flow,
    first_generation,
    signature,
    strings,
)

Build = Callable[[Any, Any], Any]
"""Makes a tensor of strings and a flag."""


def made_by(build: Build) -> tuple[Proto, str]:
    """Give a graph, and the tensor that `build` gives of its inputs."""
    with first_control_flow(), v1.Graph().as_default() as made:
        words, flag = v1.placeholder(tf.string, [None], "words"), v1.placeholder(tf.bool, [], "f")
        output = build(words, flag)
        return graph.GraphDef.FromString(made.as_graph_def(True).SerializeToString()), output.name


def ops_above(definition: Proto, output: str) -> set[str]:
    return {node.op for node in GraphNodes(definition).above([output])}


def functions_of(definition: Proto, attributes: Collection[str]) -> list[set[str]]:
    """Give the operations of the functions that loops and branches call."""
    functions = {each.signature.name: each for each in definition.library.function}
    holders = [definition.node, *(each.node_def for each in functions.values())]
    called = dict.fromkeys(
        node.attr[attribute].func.name
        for nodes in holders
        for node in nodes
        for attribute in attributes
        if attribute in node.attr
    )
    return [{node.op for node in functions[name].node_def} for name in called]


def lower(row: Any) -> Any:
    return tf.strings.lower(row)


def join(rows: Any, other: Any) -> Any:
    return tf.map_fn(lambda row: tf.strings.join([row, other]), rows)


def test_a_loop_becomes_a_while_with_lists() -> None:
    definition, output = made_by(lambda words, _: tf.map_fn(lower, words))
    before = definition.SerializeToString(deterministic=True)
    changed = functional(definition, [output])
    assert definition.SerializeToString(deterministic=True) == before
    ops = ops_above(changed, output)
    assert not [op for op in ops if op.startswith(FIRST_FORM)]
    assert {"TensorListFromTensor", "While", "TensorListStack"} <= ops
    (condition,) = functions_of(changed, ["cond"])
    assert {"Less", "LogicalAnd"} <= condition
    (body,) = functions_of(changed, ["body"])
    assert {"TensorListGetItem", "StringLower", "TensorListSetItem"} <= body


def test_a_branch_becomes_an_if() -> None:
    definition, output = made_by(
        lambda words, flag: v1.cond(flag, lambda: lower(words), lambda: tf.constant(["no"]))
    )
    changed = functional(definition, [output])
    assert ops_above(changed, output) == {"Identity", "If", "Placeholder"}
    assert functions_of(changed, ["then_branch"]) == [{"StringLower"}]
    assert functions_of(changed, ["else_branch"]) == [{"Const"}]


def test_the_branch_that_is_taken_is_read_from_the_graph_not_from_an_order() -> None:
    definition, output = made_by(
        lambda words, flag: v1.cond(flag, lambda: lower(words), lambda: tf.constant(["no"]))
    )
    merge = next(node for node in definition.node if node.op == "Merge")
    merge.input[:] = reversed(merge.input)
    changed = functional(definition, [output])
    assert functions_of(changed, ["then_branch"]) == [{"StringLower"}]


def test_loops_within_one_another_become_functions_of_functions() -> None:
    definition, output = made_by(
        lambda words, _: tf.map_fn(lambda row: join(words, row), words),
    )
    changed = functional(definition, [output])
    assert "While" in ops_above(changed, output)
    inner, outer = sorted(functions_of(changed, ["body"]), key=lambda ops: "While" in ops)
    assert "StringJoin" in inner
    assert "While" in outer


def test_numbers_in_loops_are_left_to_openvino() -> None:
    definition, output = made_by(
        lambda words, flag: v1.while_loop(
            lambda x: tf.reduce_sum(x) < 3.0, lambda x: x * 2.0, [tf.cast(flag, tf.float32)]
        )
    )
    assert functional(definition, [output]) is None


def deep(words: Any, flag: Any) -> Any:
    """Put more branches within one another than are rewritten."""
    for _ in range(60):
        words = _within(words, flag)
    return words


def _within(words: Any, flag: Any) -> Any:
    return v1.cond(flag, lambda: lower(words), lambda: words)


def nested(words: Any, flag: Any, depth: int) -> Any:
    if not depth:
        return lower(words)
    return v1.cond(flag, lambda: nested(words, flag, depth - 1), lambda: words)


def test_branches_after_one_another_may_be_many() -> None:
    definition, output = made_by(deep)
    assert ops_above(functional(definition, [output]), output) == {"Identity", "If", "Placeholder"}


def joined(words: Any, _: Any) -> Any:
    """Join elements of different lengths."""
    array = tf.TensorArray(tf.string, size=1, infer_shape=False).write(0, words)
    return array.concat()


def without_counterpart(definition: Proto) -> None:
    next(node for node in definition.node if node.op == "TensorArrayConcatV3").op += "x"


def invariant(definition: Proto) -> None:
    """Let a value come in in the first turn alone."""
    enter = next(node for node in definition.node if node.attr["is_constant"].b)
    enter.attr["is_constant"].b = False


def other_frame(definition: Proto) -> None:
    enter = next(node for node in definition.node if node.attr["is_constant"].b)
    enter.attr["frame_name"].s = b"another"


def cut_off(definition: Proto) -> None:
    next(node for node in definition.node if node.op == "Switch").ClearField("input")


def taken(definition: Proto) -> None:
    """Let something read which of the two values a Merge gives."""
    for node in definition.node:
        if node.op == "Merge":
            definition.node.add(name="which", op="Identity", input=[f"{node.name}:1"])
            return


@pytest.mark.parametrize(
    ("build", "change"),
    [
        (joined, without_counterpart),
        (lambda words, flag: nested(words, flag, 60), lambda definition: None),
        (lambda words, _: tf.map_fn(lower, words), invariant),
        (lambda words, _: tf.map_fn(lower, words), other_frame),
        (lambda words, _: tf.map_fn(lower, words), cut_off),
        (_within, taken),
    ],
    ids=[
        "no list does that",
        "too deep",
        "enters once",
        "two frames",
        "no inputs",
        "which branch it was",
    ],
)
def test_another_form_is_left_as_it_is(build: Build, change: Callable[[Proto], None]) -> None:
    definition, output = made_by(build)
    change(definition)
    assert functional(definition, [output]) is None


WORDS = strings(b"b", b"abc", b"")


def _decoded(data: Any) -> Any:
    """Decode as `tf.image.decode_image` of TensorFlow 1 does."""
    start = tf.strings.substr(data, 0, 3)

    def gif() -> Any:
        return v1.cond(
            tf.equal(start, b"GIF"),
            lambda: tf.io.decode_gif(data),
            lambda: tf.io.decode_bmp(data, channels=3),
        )

    def png() -> Any:
        return v1.cond(tf.equal(start, b"\x89PN"), lambda: tf.io.decode_png(data, channels=3), gif)

    exact = {"channels": 3, "dct_method": "INTEGER_ACCURATE"}
    is_jpeg = tf.equal(start, b"\xff\xd8\xff")
    return v1.cond(is_jpeg, lambda: tf.io.decode_jpeg(data, **exact), png)


async def test_images_are_decoded_by_what_they_are(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    with first_control_flow():
        first_generation(tmp_path / "1", _of_images)
    pixels = (np.arange(48) * 5).astype(np.uint8).reshape(4, 4, 3)
    files = [tf.io.encode_png(pixels).numpy(), tf.io.encode_jpeg(pixels).numpy()]
    exact = tf.io.decode_jpeg(files[1], dct_method="INTEGER_ACCURATE").numpy()
    served = OpenVinoEngine().compile(tmp_path / "1", EngineOptions())
    got = await answer(served, "serving_default", strings(*files))
    assert got["y"].tolist() == [pixels.tolist(), exact.tolist()]


def _of_images() -> Mapping[str, Any]:
    files = v1.placeholder(tf.string, [None], name="words")
    decoded = tf.map_fn(_decoded, files, tf.uint8)
    return {"serving_default": signature({"words": files}, {"y": decoded})}


def _signatures() -> Mapping[str, Any]:
    words = v1.placeholder(tf.string, [None], name="words")
    three = v1.placeholder(tf.string, [3], name="three")
    read_often = {"infer_shape": False, "clear_after_read": False}
    growing = tf.TensorArray(tf.string, size=0, dynamic_size=True, **read_often)
    _, growing = v1.while_loop(
        lambda at, _: at < 3,
        lambda at, array: (at + 1, array.write(at, tf.strings.join([three[at], "+"]))),
        [tf.constant(0), growing],
    )
    placed = tf.TensorArray(tf.string, size=4, **read_often).scatter([3, 0, 1], three)
    _, growing_rows = v1.while_loop(
        lambda at, _: at < 3,
        lambda at, array: (at + 1, array.write(at, three[: at + 1])),
        [tf.constant(0), tf.TensorArray(tf.string, size=3, infer_shape=False)],
    )
    parts = tf.TensorArray(tf.string, size=3, infer_shape=False, clear_after_read=False)
    parts = parts.split(three, tf.strings.length(three))
    numbers = tf.foldl(
        lambda so_far, row: so_far * 0.5 + tf.cast(tf.strings.length(row), tf.float32),
        words,
        initializer=tf.constant([[1.0, 2.0]]),
    )
    arrays = {
        "all": growing.stack(),
        "some": growing.gather([2, 0]),
        "size": growing.size(),
        "placed": placed.gather([0, 3]),
        "static": tf.map_fn(tf.strings.length, three, tf.int32),
        "joined": growing_rows.concat(),
    }
    return {
        "arrays": signature({"words": three}, arrays),
        "parts": signature(
            {"words": three}, {"last": parts.read(1), "count": parts.size(), "all": parts.concat()}
        ),
        "numbers": signature({"words": words}, {"y": numbers @ tf.constant([[1.0, 2], [3, 4]])}),
        "rows": signature({"words": words}, {"y": join(words, "!")}),
        "unset": signature({"words": three}, {"y": placed.stack()}),
    }


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("loops") / "1"
    with first_control_flow():
        first_generation(made, _signatures)
    return made


@pytest.fixture(scope="module")
def served(path: Path) -> CompiledModel:
    options = EngineOptions().having(OpenVinoOptions(inference_precision="f32"))
    return OpenVinoEngine().compile(path, options)


async def answer(served: CompiledModel, name: str, words: Any) -> dict[str, Any]:
    signature = served.signatures[name]
    assert not signature.left_out
    return await served.infer(
        signature,
        {"words": words},
        lambda outputs: {alias: np.array(value) for alias, value in outputs.items()},
    )


PARTS = strings(b"b", b"ab", b"")
"""As many letters as texts, so that their lengths may divide them."""


@pytest.mark.parametrize(
    ("name", "words"),
    [("arrays", WORDS), ("numbers", WORDS), ("rows", WORDS), ("parts", PARTS)],
    ids=["arrays", "numbers", "rows", "parts"],
)
async def test_the_answer_is_that_of_tensorflow(
    name: str, words: Any, path: Path, served: CompiledModel
) -> None:
    with v1.Graph().as_default() as made, v1.Session(graph=made) as session:
        loaded = v1.saved_model.load(session, ["serve"], str(path)).signature_def[name]
        tensors = {alias: info.name for alias, info in loaded.outputs.items()}
        want = session.run(tensors, {loaded.inputs["words"].name: words})
    got = await answer(served, name, words)
    assert got.keys() == want.keys()
    for alias, value in want.items():
        assert got[alias].shape == value.shape, alias
        if value.dtype == np.object_:
            assert got[alias].tolist() == value.tolist(), alias
        else:
            np.testing.assert_allclose(got[alias], value, rtol=1e-6, err_msg=alias)


async def test_no_rows_are_no_rows(served: CompiledModel) -> None:
    assert (await answer(served, "rows", WORDS[:0]))["y"].shape == (0,)


async def test_lengths_that_do_not_divide_a_value_are_refused(served: CompiledModel) -> None:
    with pytest.raises(InvalidRequest, match="Expected lengths to add up to the 3 rows"):
        await answer(served, "parts", WORDS)


async def test_an_element_that_nothing_was_set_to_is_refused(served: CompiledModel) -> None:
    with pytest.raises(InvalidRequest, match="uninitialized element"):
        await answer(served, "unset", WORDS)
