"""Sizes of batches: text and JSON mean the same, and they increase."""

import pytest

from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.layer_options import batch_sizes


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        pytest.param([1, 8, 32], (1, 8, 32), id="a list"),
        pytest.param("[1, 8, 32]", (1, 8, 32), id="a list as text"),
        pytest.param(" 1,8,32 ", (1, 8, 32), id="numbers as text"),
        pytest.param([" 4"], (4,), id="a number as text in a list"),
        pytest.param("16", (16,), id="one number as text"),
        pytest.param([], (), id="an empty list"),
        pytest.param("", (), id="nothing"),
        pytest.param("[]", (), id="an empty list as text"),
    ],
)
def test_sizes_mean_the_same_as_text_and_as_json(value: object, meant: tuple[int, ...]) -> None:
    assert batch_sizes(value, "p") == meant


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(8, id="a number"),
        pytest.param(None, id="None"),
        pytest.param({"a": 1}, id="an object"),
        pytest.param([8, 4], id="sizes that decrease"),
        pytest.param([4, 4], id="a size twice"),
        pytest.param([0, 1], id="a size of 0"),
        pytest.param("4;8", id="semicolons"),
        pytest.param([1.5], id="a fraction"),
        pytest.param([True], id="a boolean"),
    ],
)
def test_a_value_that_is_no_sizes_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="p: "):
        batch_sizes(value, "p")
