"""Which models answer bytes by bytes."""

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest, ServingError
from ie_serving.core.values.signatures import body_of, reply_of
from ie_serving.core.values.tensors import DataType, Signature, TensorSpec


def spec(name: str, dtype: str = "STRING", *shape: int, json: bool = False) -> TensorSpec:
    return TensorSpec(name, DataType[dtype], shape, f"{name}:0", json=json)


def signature(inputs: list[TensorSpec], outputs: list[TensorSpec]) -> Signature:
    named = ({each.name: each for each in specs} for specs in (inputs, outputs))
    return Signature("serving_default", *named)


def one(text: bytes) -> "np.ndarray[tuple[int, ...], np.dtype[np.object_]]":
    return np.array(text, np.object_)


@pytest.mark.parametrize("shape", [(), (-1,), (1,), (1, -1)], ids=str)
def test_a_body_is_one_string(shape: tuple[int, ...]) -> None:
    array = body_of(signature([spec("a", "STRING", *shape)], [spec("b")]), b"\0x")["a"]
    assert (array.shape, array.item()) == ((1,) * len(shape), b"\0x")


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        pytest.param([spec("a", "FP32")], [spec("b")], id="an input of numbers"),
        pytest.param([spec("a")], [spec("b", "FP32")], id="an output of numbers"),
        pytest.param([spec("a"), spec("c")], [spec("b")], id="two inputs"),
        pytest.param([spec("a")], [spec("b"), spec("c")], id="two outputs"),
        pytest.param([spec("a", "STRING", 2)], [spec("b")], id="two rows"),
        pytest.param([spec("a")], [spec("content_type")], id="another output"),
    ],
)
def test_a_signature_that_takes_no_bytes_refuses_them(
    inputs: list[TensorSpec], outputs: list[TensorSpec]
) -> None:
    with pytest.raises(InvalidRequest, match=r'it takes no bytes: .*it has "a" .*: ask :predict'):
        body_of(signature(inputs, outputs), b"")


def test_the_reply_tells_what_it_is() -> None:
    plain = signature([spec("a")], [spec("b")])
    assert reply_of(plain, {"b": one(b"\xff")}) == ("application/octet-stream", b"\xff")
    of_json = signature([spec("a")], [spec("b", json=True)])
    assert reply_of(of_json, {"b": one(b"{}")}) == ("application/json", b"{}")
    said = signature([spec("a")], [spec("b"), spec("content_type")])
    given = {"b": one(b"x"), "content_type": one(b"text/plain; charset=utf-8")}
    assert reply_of(said, given) == ("text/plain; charset=utf-8", b"x")


@pytest.mark.parametrize("content_type", [b"", b"text", b"text/plain\r\nx: y", b"a/b ", b"a/\xff"])
def test_a_content_type_that_is_none_is_the_models_fault(content_type: bytes) -> None:
    said = signature([spec("a")], [spec("b"), spec("content_type")])
    with pytest.raises(ServingError, match="as content_type; expected one such as text/plain"):
        reply_of(said, {"b": one(b"x"), "content_type": one(content_type)})


def test_several_strings_are_no_reply() -> None:
    rows = signature([spec("a")], [spec("b", "STRING", -1)])
    with pytest.raises(ServingError, match='the model gave 2 strings as "b"; a reply is one'):
        reply_of(rows, {"b": np.array([b"x", b"y"], np.object_)})
