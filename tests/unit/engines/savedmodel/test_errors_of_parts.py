"""An error of the model's part of a signature speaks of what the client sent, not of our names."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.wire.tfs.classify_regress import serialize_examples
from tests.unit.engines.openvino.models import load, run

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


async def test_what_the_host_makes_is_named_by_its_operation_and_input(exported: Path) -> None:
    inputs = {"s": np.array([b"a", b"b"], np.object_), "x": np.ones((3, 2), np.float32)}
    with pytest.raises(InvalidTensor) as failure:
        await run(load(exported), inputs, "words")
    told = str(failure.value)
    assert "what LookupTableFindV2" in told
    assert 'makes of "s" (2,)' in told
    assert '"x" (3, 2)' in told
    assert "ie_serving_" not in told


async def test_what_is_parsed_is_named_by_its_key_and_input(exported: Path) -> None:
    rows = serialize_examples([{"f": [1.0, 2.0], "g": [1.0, 2.0, 3.0]}])
    with pytest.raises(InvalidTensor) as failure:
        await run(load(exported), {"examples": np.array(rows, np.object_)}, "parsed")
    told = str(failure.value)
    assert 'feature "f" of "examples" (1, 2)' in told
    assert 'feature "g" of "examples" (1, 3)' in told
    assert "ie_serving_" not in told
