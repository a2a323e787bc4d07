"""What is computed before a model, in OpenVINO Model Server's words."""

from typing import Any

import pytest

from ie_serving.core.settings.faults import Parser
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.tensors import BY_OPENVINO
from ie_serving.engines import preprocessing
from ie_serving.engines.preprocessing import (
    PropertyPair,
    color_format,
    layout,
    mean,
    precision,
    scale,
)


@pytest.mark.parametrize(
    ("parse", "value", "meant"),
    [
        pytest.param(layout, "nhwc:nchw", PropertyPair("NHWC", "NCHW"), id="transposed"),
        pytest.param(layout, "CN", PropertyPair("CN"), id="said only"),
        pytest.param(layout, "N...C", PropertyPair("N...C"), id="of any rank"),
        pytest.param(layout, "N?C", PropertyPair("N?C"), id="a dimension without a name"),
        pytest.param(
            layout,
            '{"a":"NC:CN","b":"N..."}',
            BY_NAME := {"a": PropertyPair("NC", "CN"), "b": PropertyPair("N...")},
            id="text by name",
        ),
        pytest.param(layout, {"a": "NC:CN", "b": "N..."}, BY_NAME, id="object by name"),
        pytest.param(mean, "127.5", (127.5,), id="one number"),
        pytest.param(mean, "[123.675, 116.28,103.53]", (123.675, 116.28, 103.53), id="a list"),
        pytest.param(mean, "(1,2)", (1.0, 2.0), id="parentheses"),
        pytest.param(mean, [0, -1], (0.0, -1.0), id="JSON"),
        pytest.param(scale, 2, (2.0,), id="JSON number"),
        pytest.param(color_format, "bgr:RGB", PropertyPair("BGR", "RGB"), id="colours"),
        pytest.param(color_format, "RGB", PropertyPair("RGB", "RGB"), id="colours of both"),
        pytest.param(precision, "uint8:fp32", PropertyPair("u8", "f32"), id="types"),
        pytest.param(precision, "FP16", PropertyPair("f16"), id="the client's type"),
        pytest.param(precision, "i64", PropertyPair("i64"), id="OpenVINO's own word"),
    ],
)
def test_a_value_is_read_in_the_words_of_openvino_model_server(
    parse: Parser[Any], value: object, meant: object
) -> None:
    assert parse(value, "p") == meant


@pytest.mark.parametrize(
    ("parse", "value", "fault"),
    [
        pytest.param(layout, "", "a layout such as NCHW", id="nothing"),
        pytest.param(layout, "NN", "a layout", id="a dimension twice"),
        pytest.param(layout, "N$", "a layout", id="no letter"),
        pytest.param(layout, "NHWC:NCH", "of the same dimensions", id="others"),
        pytest.param(layout, "A:B:C", "a layout", id="three sides"),
        pytest.param(layout, {"a": 5}, "p.a: 5 given", id="by name"),
        pytest.param(layout, {}, "an object", id="no name"),
        pytest.param(mean, "1,2", "one number", id="no brackets"),
        pytest.param(mean, "nan", "one number", id="not a number"),
        pytest.param(scale, "half", "one number", id="a word"),
        pytest.param(mean, [], "one number", id="no number"),
        pytest.param(mean, [True], "one number", id="a boolean"),
        pytest.param(mean, "[1e999]", "one number", id="infinite"),
        pytest.param(scale, [1, 0], "none of them 0", id="divided by zero"),
        pytest.param(scale, 1e-50, "none of them 0", id="by what float32 holds as zero"),
        pytest.param(color_format, "NV12:RGB", "of RGB and BGR", id="planes"),
        pytest.param(color_format, 5, "of RGB and BGR", id="a number"),
        pytest.param(precision, "uint8:", "CLIENT:MODEL", id="half of it"),
        pytest.param(precision, "string", "CLIENT:MODEL", id="no number"),
    ],
)
def test_a_value_that_cannot_be_is_refused(parse: Parser[Any], value: object, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(value, "p")
    assert fault in str(caught.value)


def test_every_type_is_one_that_tensors_may_have() -> None:
    assert set(preprocessing.TYPES.values()) <= set(BY_OPENVINO)
