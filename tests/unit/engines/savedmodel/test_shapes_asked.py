"""`shape` and `batch_size` of SavedModels of which the server itself reads something."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.fit import fit
from tests.unit.engines.openvino.models import load, run
from tests.unit.engines.savedmodel.exports import EXAMPLES, strings


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
