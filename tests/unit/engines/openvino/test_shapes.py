"""The shape setting, in every form that 2020 and OpenVINO Model Server documented."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.openvino.options import ShapeOption, shape

SIZES = st.integers(min_value=1, max_value=2**31 - 1)
RANGES = st.tuples(SIZES, SIZES).map(sorted).filter(lambda pair: pair[0] < pair[1]).map(tuple)
DIMENSIONS = st.lists(st.just(-1) | SIZES | RANGES, max_size=6).map(tuple)


def written(dimensions: tuple[object, ...]) -> list[object]:
    return [f"{d[0]}:{d[1]}" if isinstance(d, tuple) else d for d in dimensions]


@given(DIMENSIONS)
def test_text_and_list_give_the_same_dimensions(dimensions: tuple[object, ...]) -> None:
    items = written(dimensions)
    text = f"({', '.join(map(str, items))})"
    assert shape(text, "p") == shape(items, "p") == dimensions


@given(st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_/:.]{0,8}", fullmatch=True), DIMENSIONS))
def test_objects_read_back_as_json_and_as_the_text_of_2020(
    inputs: dict[str, tuple[object, ...]],
) -> None:
    if not inputs:
        return
    items = {name: written(dimensions) for name, dimensions in inputs.items()}
    parenthesised = {name: f"({','.join(map(str, item))})" for name, item in items.items()}
    unquoted = "{" + ",".join(f"{name}:{item}" for name, item in parenthesised.items()) + "}"
    forms = (items, json.dumps(items), parenthesised, json.dumps(parenthesised), unquoted)
    assert [shape(form, "p") for form in forms] == [inputs] * len(forms)


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        pytest.param("auto", "auto", id="auto"),
        pytest.param(" AUTO ", "auto", id="auto in capitals"),
        pytest.param("(1,3,224,224)", (1, 3, 224, 224), id="parentheses"),
        pytest.param("[1,3]", (1, 3), id="brackets"),
        pytest.param("(10,)", (10,), id="one dimension as Python writes it"),
        pytest.param("()", (), id="scalar"),
        pytest.param("(-1, 200:500)", (-1, (200, 500)), id="any and a range"),
        pytest.param("(5:5)", (5,), id="a range of one is a size"),
        pytest.param({"a": [1, "2:3"]}, {"a": (1, (2, 3))}, id="list by input"),
        pytest.param({"a": "auto"}, {"a": "auto"}, id="auto for one input"),
        pytest.param("{a:auto,b:(1,2)}", {"a": "auto", "b": (1, 2)}, id="auto in 2020's text"),
        pytest.param('{"a": "Auto"}', {"a": "auto"}, id="auto in JSON text"),
        pytest.param("{'a': (1,2), \"b:0\": [3]}", {"a": (1, 2), "b:0": (3,)}, id="mixed quotes"),
    ],
)
def test_a_shape_is_read_in_every_documented_form(value: object, meant: ShapeOption) -> None:
    assert shape(value, "p") == meant


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        pytest.param("1,3", "p: '1,3' given", id="no brackets"),
        pytest.param("(1,3]", "p: '(1,3]' given", id="brackets that do not match"),
        pytest.param("(1,x)", "p[1]: 'x' given", id="a word for a size"),
        pytest.param("(2.7)", "p[0]", id="fraction, which 2020 cut off"),
        pytest.param([1, 0], "p[1]: 0 given", id="zero"),
        pytest.param([1, -2], "p[1]: -2 given", id="less than -1"),
        pytest.param([1, True], "p[1]: True given", id="boolean"),
        pytest.param("(5:3)", "p[0]: '5:3' given", id="range upside down"),
        pytest.param({}, "p: {} given", id="no input"),
        pytest.param({"a": "any"}, "p.a: 'any' given", id="another word for one input"),
        pytest.param({"a": [0], "b": ["y"]}, "p.b[0]: 'y' given", id="fault of every input"),
        pytest.param("{a:(1), a:(2)}", "not JSON", id="input twice"),
        pytest.param("{", "not JSON", id="unfinished"),
        pytest.param(7, "p: 7 given", id="number"),
        pytest.param(None, "p: None given", id="null"),
    ],
)
def test_a_value_that_is_no_shape_is_refused_not_ignored(value: object, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        shape(value, "p")
    assert fault in str(caught.value)
