"""New shapes from `batch_size` and `shape`."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.reshape import InputShape, model_shapes, new_shapes

X = InputShape(frozenset({"x", "tensor_x"}), (1, 3))
Y = InputShape(frozenset({"y"}), (1, (2, 4)))
LAST = InputShape(frozenset({"x"}), (3, 1), batch=1)
SCALAR = InputShape(frozenset({"training"}), ())
OPEN = InputShape(frozenset({"anything"}), None)


@pytest.mark.parametrize(
    ("inputs", "options", "shapes"),
    [
        pytest.param([X], {}, {}, id="nothing asked"),
        pytest.param([X, Y], {"batch_size": 8}, {0: (8, 3), 1: (8, (2, 4))}, id="batch size"),
        pytest.param([X, SCALAR, OPEN], {"batch_size": -1}, {0: (-1, 3)}, id="where there is one"),
        pytest.param([X, Y], {"shape": "auto"}, {0: (-1, -1), 1: (-1, -1)}, id="auto"),
        pytest.param([X], {"shape": (2, 5)}, {0: (2, 5)}, id="the only input"),
        pytest.param([X, Y], {"shape": {"y": (2, 5)}}, {1: (2, 5)}, id="by alias"),
        pytest.param([X, Y], {"shape": {"tensor_x": (-1, 3)}}, {0: (-1, 3)}, id="by tensor name"),
        pytest.param([X], {"batch_size": (1, 8)}, {0: ((1, 8), 3)}, id="a range of batches"),
        pytest.param([LAST], {"batch_size": 8}, {0: (3, 8)}, id="where the layout has it"),
        pytest.param(
            [X, Y], {"shape": {"x": "auto", "y": (2, 5)}}, {0: (-1, -1), 1: (2, 5)}, id="auto for x"
        ),
        pytest.param([X], {"shape": ((1, 4), 3)}, {0: ((1, 4), 3)}, id="a range"),
        pytest.param([X], {"shape": (2, 5), "batch_size": 9}, {0: (2, 5)}, id="shape wins"),
    ],
)
def test_new_shapes_follow_from_batch_size_and_shape(
    inputs: list[InputShape], options: dict[str, Any], shapes: dict[int, Any]
) -> None:
    assert new_shapes(inputs, OpenVinoOptions(**options)) == shapes


@pytest.mark.parametrize(
    ("inputs", "options", "text"),
    [
        pytest.param([X, Y], {"shape": (1, 2)}, "Noname shape specified", id="one for two"),
        pytest.param([X], {"shape": {"z": (1,)}}, "'z'.*tensor_x/x", id="unknown name"),
        pytest.param([X], {"shape": "Auto"}, "'Auto'.*'auto'", id="unknown word"),
        pytest.param([SCALAR], {"batch_size": 2}, "no input has a first", id="nothing to batch"),
    ],
)
def test_refused(inputs: list[InputShape], options: dict[str, Any], text: str) -> None:
    with pytest.raises(LoadFailed, match=text):
        new_shapes(inputs, OpenVinoOptions(**options))


TEXTS = InputShape(frozenset({"texts"}), (-1, 3))


@pytest.mark.parametrize(
    ("own", "options", "shapes"),
    [
        pytest.param([], {}, {}, id="nothing asked"),
        pytest.param([], {"batch_size": -1}, {}, id="the batch is open"),
        pytest.param([X], {"batch_size": -1}, {0: (-1, 3)}, id="the model's is opened"),
        pytest.param([X], {"shape": {"x": (2, 5)}}, {0: (2, 5)}, id="by name"),
        pytest.param([], {"shape": (-1, 3)}, {}, id="as it is"),
    ],
)
def test_an_input_that_the_server_reads_keeps_its_shape(
    own: list[InputShape], options: dict[str, Any], shapes: dict[int, Any]
) -> None:
    assert model_shapes(own, [TEXTS], OpenVinoOptions(**options)) == shapes


@pytest.mark.parametrize(
    ("own", "options", "text"),
    [
        pytest.param(
            [], {"batch_size": 4}, r"batch_size: .* input texts, of the shape \(-1, 3\)", id="batch"
        ),
        pytest.param([X], {"batch_size": 4}, "batch_size: cannot be applied", id="of one of two"),
        pytest.param([], {"shape": "auto"}, "shape: cannot be applied to input texts", id="auto"),
        pytest.param([], {"shape": {"texts": (1, 3)}}, "shape: cannot be applied", id="by name"),
        pytest.param([X], {"shape": (1, 3)}, "Noname shape specified", id="one for two"),
        pytest.param([X], {"shape": {"z": (1,)}}, "'z'.*tensor_x/x, texts", id="unknown name"),
    ],
)
def test_an_input_that_the_server_reads_gets_no_other_shape(
    own: list[InputShape], options: dict[str, Any], text: str
) -> None:
    with pytest.raises(LoadFailed, match=text):
        model_shapes(own, [TEXTS], OpenVinoOptions(**options))


def test_an_input_of_any_rank_that_the_server_reads_takes_any_batch() -> None:
    assert model_shapes([], [OPEN], OpenVinoOptions(batch_size=-1)) == {}
    with pytest.raises(LoadFailed, match="no input has a first"):
        model_shapes([], [OPEN], OpenVinoOptions(batch_size=4))


@given(st.lists(st.lists(st.integers(1, 9), max_size=4), min_size=1), st.integers(-1, 64))
def test_a_batch_size_changes_first_dimensions_only(shapes: list[list[int]], batch: int) -> None:
    inputs = [InputShape(frozenset({str(i)}), tuple(s)) for i, s in enumerate(shapes)]
    if not any(shapes):
        return
    for i, shape in new_shapes(inputs, OpenVinoOptions(batch_size=batch)).items():
        assert shape == (batch, *shapes[i][1:])
