"""Examples that a loop parses one by one are parsed as TensorFlow parses them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.wire.tfs.classify_regress import serialize_examples

KERNEL = [[1.0, 2.0], [3.0, -4.0]]
FEATURES = {
    "x": tf.io.FixedLenFeature([2], tf.float32),
    "n": tf.io.FixedLenFeature([], tf.int64, 7),
    "s": tf.io.FixedLenFeature([], tf.string, "none"),
    "tags": tf.io.VarLenFeature(tf.string),
}
ROWS = np.array(
    serialize_examples(
        [
            {"x": [1.0, 2.0], "n": [3], "s": [b"a"], "tags": [b"u", b"v"]},
            {"x": [0.5, -1.0], "s": [b"b"]},
            {"x": [4.0, 4.0], "n": [1], "tags": [b"w"]},
        ]
    ),
    np.object_,
)


class Parsing(tf.Module):  # type: ignore[misc]
    """Examples are parsed one by one, by each version of the operation."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def each(self, examples: Any) -> Any:
        def decode(row: Any) -> Any:
            found = tf.io.parse_single_example(row, FEATURES)
            joined = tf.strings.join([found["s"], tf.strings.as_string(found["n"])])
            return found["x"] * 2.0, joined, tf.size(found["tags"].values)

        kinds = (tf.float32, tf.string, tf.int32)
        x, joined, tags = tf.map_fn(decode, examples, fn_output_signature=kinds)
        return {"y": tf.matmul(x, KERNEL), "joined": joined, "tags": tags}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def first_generation(self, examples: Any) -> Any:
        def decode(row: Any) -> Any:
            found = tf.raw_ops.ParseSingleExample(
                serialized=row,
                dense_defaults=[tf.zeros([0]), tf.constant(7, tf.int64)],
                num_sparse=1,
                sparse_keys=["tags"],
                dense_keys=["x", "n"],
                sparse_types=[tf.string],
                dense_shapes=[[2], []],
            )
            return found.dense_values[0], found.dense_values[1] + found.sparse_shapes[0][0]

        x, n = tf.map_fn(decode, examples, fn_output_signature=(tf.float32, tf.int64))
        return {"y": tf.matmul(x, KERNEL), "n": n}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "encoded")])
    def encoded(self, encoded: Any) -> Any:
        found = tf.io.parse_example(tf.io.decode_base64(encoded), FEATURES)
        return {"y": tf.matmul(found["x"], KERNEL), "s": found["s"], "n": found["n"]}


@pytest.fixture(scope="module")
def parsing() -> Parsing:
    return Parsing()


@pytest.fixture(scope="module")
def served(parsing: Parsing, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CompiledModel]:
    path = tmp_path_factory.mktemp("parsing")
    names = ("each", "first_generation", "encoded")
    signatures = {name: getattr(parsing, name) for name in names}
    tf.saved_model.save(parsing, str(path), signatures=signatures)
    compiled = OpenVinoEngine().compile(path, EngineOptions())
    yield compiled
    compiled.close()


@pytest.mark.parametrize("name", ["each", "first_generation", "encoded"])
async def test_examples_are_parsed_as_tensorflow_parses_them(
    name: str, parsing: Parsing, served: CompiledModel
) -> None:
    encoded = name == "encoded"
    rows = np.array(tf.io.encode_base64(ROWS).numpy(), np.object_) if encoded else ROWS
    expected = {key: value.numpy() for key, value in getattr(parsing, name)(rows).items()}
    signature = served.signatures[name]
    assert not signature.left_out
    (alias,) = signature.inputs
    answer = await served.infer(
        signature, {alias: rows}, lambda found: {key: np.array(found[key]) for key in expected}
    )
    for key, value in expected.items():
        if value.dtype == np.float32:
            np.testing.assert_allclose(answer[key], value, rtol=1e-5)
        else:
            assert answer[key].tolist() == value.tolist()


async def test_a_fault_is_named_as_tensorflow_names_it(served: CompiledModel) -> None:
    rows = np.array(serialize_examples([{"n": [1]}]), np.object_)
    with pytest.raises(InvalidRequest, match=r"Feature: x \(data type: float\) is required"):
        await served.infer(served.signatures["each"], {"examples": rows}, dict)
