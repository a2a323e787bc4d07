"""Loops over strings that a request decides the length of, in a SavedModel of TensorFlow."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.savedmodel.host import allowance
from ie_serving.engines.savedmodel.host.tensor_list import TensorList


class Loops(tf.Module):  # type: ignore[misc]
    """A loop that a number of the client ends, and one over the rows."""

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32, "times")])
    def count(self, times: Any) -> Any:
        return tf.while_loop(
            lambda at, text: at < times,
            lambda at, text: (at + 1, tf.strings.as_string(at)),
            [0, tf.constant("none")],
        )[1]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "rows")])
    def mark(self, rows: Any) -> Any:
        return tf.map_fn(lambda row: tf.strings.join([row, "!"]), rows)


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CompiledModel]:
    path = tmp_path_factory.mktemp("loops")
    made = Loops()
    tf.saved_model.save(made, str(path), signatures={"count": made.count, "mark": made.mark})
    compiled = OpenVinoEngine().compile(path, EngineOptions())
    yield compiled
    compiled.close()


async def call(loops: CompiledModel, name: str, **inputs: Any) -> Any:
    signature = loops.signatures[name]
    return await loops.infer(signature, inputs, lambda outputs: outputs["output_0"].tolist())


async def test_a_loop_ends_where_the_request_says(loops: CompiledModel) -> None:
    assert await call(loops, "count", times=np.int32(0)) == b"none"
    assert await call(loops, "count", times=np.int32(12)) == b"11"


async def test_a_number_that_makes_a_loop_long_is_refused(
    loops: CompiledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allowance, "MOST_TURNS", 1000)  # of 100,000, which take 2.5 s
    assert await call(loops, "count", times=np.int32(1000)) == b"999"
    with pytest.raises(InvalidTensor, match=r"may take 1000 turns.*While"):
        await call(loops, "count", times=np.int32(2**31 - 1))


async def test_map_fn_copies_its_list_once(
    loops: CompiledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row copied the rows before it: 10,000 rows took 100 million steps."""

    def copied(*_: Any) -> None:
        raise AssertionError("a list was copied within a loop")

    monkeypatch.setattr(TensorList, "having", copied)
    rows = [b"a\0", b"", b"c"]
    assert await call(loops, "mark", rows=np.array(rows, np.object_)) == [b"a\0!", b"!", b"c!"]
