"""Whether rows may share a batch: by their shapes, and by a trial."""

from collections.abc import Callable

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType, Signature, TensorSpec
from ie_serving.engines.layers.joining import refused_by_shapes, refused_by_trial
from tests.unit.engines.layers.models import Model


def spec(name: str, *shape: int, dtype: DataType = DataType.FP32) -> TensorSpec:
    return TensorSpec(name, dtype, shape, f"{name}:0")


def of(inputs: list[TensorSpec], outputs: list[TensorSpec]) -> Signature:
    return Signature(
        SERVING_DEFAULT, {each.name: each for each in inputs}, {each.name: each for each in outputs}
    )


@pytest.mark.parametrize(
    ("signature", "why"),
    [
        pytest.param(of([spec("x", -1, 3)], [spec("y", -1)]), "", id="an open batch"),
        pytest.param(
            of([spec("x", 1, 3)], [spec("y", 1)]),
            'input "x" float (1, 3) is not open',
            id="a fixed batch",
        ),
        pytest.param(
            of([spec("x", -1), spec("k")], [spec("y", -1)]),
            'input "k" float () is not open',
            id="an input without a batch",
        ),
        pytest.param(
            of([spec("x", -1, 3)], [spec("y", 3, -1)]),
            'output "y" float (3, -1) is not the batch',
            id="the batch last",
        ),
        pytest.param(
            of([spec("x", -1, 3)], [spec("y")]),
            'output "y" float () is not the batch',
            id="an output without a batch",
        ),
        pytest.param(of([], [spec("y", -1)]), "it has no inputs", id="no inputs"),
        pytest.param(
            of([TensorSpec("x", DataType.FP32, None, "x:0")], [spec("y", -1)]),
            'input "x" float any shape is not open',
            id="any shape",
        ),
    ],
)
def test_rows_are_refused_by_their_shapes(signature: Signature, why: str) -> None:
    found = refused_by_shapes(signature)
    assert why in found
    assert bool(why) == bool(found)


def centred(x: Array) -> Array:
    return np.asarray(x - x.mean(axis=0))


def softmax_of_the_batch(x: Array) -> Array:
    return np.asarray(np.exp(x) / np.exp(x).sum(axis=0))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        pytest.param(lambda x: x + 1, "", id="a sum"),
        pytest.param(lambda x: np.where(x > 0, x, np.nan), "", id="NaN"),
        pytest.param(lambda x: x.argmax(axis=1), "", id="the largest of a row"),
        pytest.param(
            lambda x: x.astype(np.float16).astype(np.float32) + x.mean(axis=1, keepdims=True),
            "",
            id="half precision and a mean",
        ),
        pytest.param(centred, "depend on each other", id="centred"),
        pytest.param(softmax_of_the_batch, "depend on each other", id="softmax of the batch"),
        pytest.param(lambda x: x.cumsum(axis=0), "depend on each other", id="a running sum"),
        pytest.param(lambda x: x[::-1], "depend on each other", id="reversed"),
        pytest.param(lambda x: x.argsort(axis=0), "depend on each other", id="sorted"),
        pytest.param(lambda x: x @ x.T, "another shape alone", id="a product with itself"),
        pytest.param(
            lambda x: x.sum(axis=0, keepdims=True),
            "its first dimension is not the batch",
            id="a sum of rows",
        ),
        pytest.param(lambda x: x.sum(), "its first dimension is not the batch", id="a sum of all"),
    ],
)
def test_a_trial_finds_rows_that_depend_on_each_other(
    body: Callable[[Array], Array], why: str
) -> None:
    model = Model(lambda x: np.asarray(body(x)), -1, 4)
    found = refused_by_trial(model, model.signatures[SERVING_DEFAULT])
    assert why in found
    assert bool(why) == bool(found)


def test_open_dimensions_are_tried_until_the_model_takes_them() -> None:
    def body(x: Array) -> Array:
        if x.shape[1] < 200:
            raise InvalidTensor("too small")
        return x

    model = Model(body, -1, -1)
    assert refused_by_trial(model, model.signatures[SERVING_DEFAULT]) == ""


def test_a_model_that_refuses_every_trial_is_refused_with_its_words() -> None:
    def body(x: Array) -> Array:
        raise InvalidTensor("never")

    model = Model(body, -1, -1)
    found = refused_by_trial(model, model.signatures[SERVING_DEFAULT])
    assert found == "its rows could not be tried one by one: never"
