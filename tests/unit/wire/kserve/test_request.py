"""REST bodies of inferences: whichever reader takes them, what they say is the same."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, ServingError
from ie_serving.core.values.tensors import Array, DataType, Signature, TensorSpec, sent_in, strings
from ie_serving.wire.json.document import object_of, parse_object
from ie_serving.wire.json.rapidjson.document import parse_document
from ie_serving.wire.kserve import request
from ie_serving.wire.kserve.datatypes import NAME_OF
from ie_serving.wire.kserve.raw import encode_raw
from ie_serving.wire.kserve.raw_request import RawBody
from ie_serving.wire.kserve.regions import OFF
from ie_serving.wire.kserve.reply import ReplyEncoder
from ie_serving.wire.kserve.request import (
    InferBody,
    SlicedInferBody,
    parse_at_once,
    parse_infer,
)
from ie_serving.wire.kserve.request_members import OutputForm
from tests.tables import named_by

NUMBERS = [each for each in DataType if each.numpy.kind in "fiub"]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
ANY = Signature("serving_default", {}, {}, is_open=True)


def body(*inputs: object, **more: object) -> bytes:
    return json.dumps({"inputs": list(inputs), **more}).encode()


def x(data: object, shape: object, datatype: str = "FP32", name: str = "x") -> dict[str, object]:
    return {"name": name, "shape": shape, "datatype": datatype, "data": data}


def arrays(found: InferBody | RawBody) -> Any:
    return found.decode(ANY)[0]


def slowly(text: bytes) -> InferBody:
    """Read by the reader of what is no strict JSON, and of errors."""
    return request.infer_body(text, object_of(parse_document(text), text), None, OFF)


@st.composite
def tensors(draw: st.DrawFn) -> tuple[DataType, Array]:
    dtype = draw(st.sampled_from(NUMBERS))
    # JSON has no NaN that keeps its bits, and BF16 is half of a float32.
    plain = hnp.from_dtype(dtype.numpy, allow_nan=False, allow_infinity=False)
    array: Array = draw(hnp.arrays(dtype.numpy, draw(SHAPES), elements=plain))
    if dtype is DataType.BF16:
        array = (array.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return dtype, array


@given(st.lists(tensors(), max_size=3), st.booleans(), st.booleans())
def test_numbers_come_as_they_were_sent(
    sent: list[tuple[DataType, Array]], is_flat: bool, has_outputs: bool
) -> None:
    inputs = [
        x((each.reshape(-1) if is_flat else each).tolist(), each.shape, NAME_OF[dtype], f"x{at}")
        for at, (dtype, each) in enumerate(sent)
    ]
    text = body(*inputs, **({"outputs": [{"name": "y"}]} if has_outputs else {}))
    quick = parse_at_once(text, None)
    assert quick is not None
    for found in (arrays(quick), arrays(parse_infer(text, None)), arrays(slowly(text))):
        for at, (dtype, each) in enumerate(sent):
            assert found[f"x{at}"].dtype == dtype.numpy
            assert found[f"x{at}"].shape == each.shape
            assert np.array_equal(found[f"x{at}"], each.astype(dtype.numpy))


@given(st.lists(st.tuples(tensors(), st.booleans()), max_size=3))
def test_raw_tensors_may_stand_beside_others(
    sent: list[tuple[tuple[DataType, Array], bool]],
) -> None:
    inputs, tail = [], b""
    for at, ((dtype, each), is_raw) in enumerate(sent):
        given = x(each.tolist(), each.shape, NAME_OF[dtype], f"x{at}")
        if is_raw:
            raw = bytes(encode_raw(each, dtype))
            del given["data"]
            given["parameters"] = {"binary_data_size": len(raw)}
            tail += raw
        inputs.append(given)
    text = body(*inputs)
    found = arrays(parse_infer(text + tail, len(text)))
    for at, ((_, each), _) in enumerate(sent):
        assert np.array_equal(found[f"x{at}"], each)


@given(st.lists(st.text(max_size=5), max_size=5))
def test_texts_are_their_bytes_in_utf8(texts: list[str]) -> None:
    found = arrays(parse_infer(body(x(texts, [len(texts)], "BYTES")), None))
    assert found["x"].tolist() == [each.encode() for each in texts]


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 66), 1 << 66), st.floats(), st.text(max_size=3)
)
KEYS = ["name", "shape", "datatype", "data", "parameters", "binary_data_size", "id", "inputs"]
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)
INPUTS = st.fixed_dictionaries(
    {"name": st.one_of(st.just("x"), TREES)},
    optional={
        "shape": st.one_of(st.lists(st.integers(-1, 3), max_size=3), TREES),
        "datatype": st.one_of(st.sampled_from(["FP32", "INT8", "BOOL", "BYTES"]), TREES),
        "data": st.one_of(st.lists(st.integers(-1, 1), max_size=6), TREES),
        "parameters": st.one_of(
            st.fixed_dictionaries({"binary_data_size": st.one_of(st.integers(-1, 9), TREES)}), TREES
        ),
    },
)


@given(
    st.one_of(st.lists(INPUTS, max_size=3), TREES),
    st.dictionaries(st.sampled_from(["id", "parameters", "outputs"]), TREES),
    st.binary(max_size=12),
    st.booleans(),
)
def test_whatever_comes_is_read_or_refused(
    inputs: object, more: dict[str, object], tail: bytes, has_length: bool
) -> None:
    text = json.dumps({"inputs": inputs, **more}).encode()
    content, length = (text + tail, len(text)) if has_length else (text, None)
    try:
        for name, array in arrays(parse_infer(content, length)).items():
            assert isinstance(name, str)
            assert isinstance(array, np.ndarray)
    except ServingError as error:
        assert str(error)


@given(st.lists(tensors(), max_size=2))
def test_a_tensor_read_at_once_is_the_one_read_slowly(sent: list[tuple[DataType, Array]]) -> None:
    inputs = [
        x(each.tolist(), each.shape, NAME_OF[dtype], f"x{at}")
        for at, (dtype, each) in enumerate(sent)
    ]
    parsed = parse_infer(body(*inputs), None)
    at_once = parsed.decode_at_once(ANY)
    if at_once is not None:
        found = arrays(parse_infer(body(*inputs), None))
        assert {name: each.tolist() for name, each in at_once[0].items()} == {
            name: each.tolist() for name, each in found.items()
        }


@pytest.mark.parametrize(
    ("shape", "datatype", "said"),
    [
        pytest.param(
            [[1], 2], "FP32", r"has shape \[\[\.\.\.\], 2\]: each dimension", id="a list of lists"
        ),
        pytest.param(
            [{}, None, "a"],
            "FP32",
            r'has shape \[\[\.\.\.\], null, "a"\]: each dimension',
            id="an object, null and a text",
        ),
        pytest.param([1], [], r"has datatype \[\.\.\.\]; expected one of", id="a list as datatype"),
        pytest.param([1], None, r"has datatype null; expected one of", id="null as datatype"),
    ],
)
@pytest.mark.parametrize("read", [lambda text: parse_infer(text, None), slowly])
def test_a_wrong_field_is_told_as_it_was_sent(
    read: Callable[[bytes], InferBody], shape: object, datatype: Any, said: str
) -> None:
    """Whatever the parser has made of it: an object of its own has no name for a client."""
    with pytest.raises(InvalidTensor, match=said):
        arrays(read(body(x([1], shape, datatype))))


def test_an_output_is_asked_for_once() -> None:
    text = body(x([1], [1]), outputs=[{"name": "y"}, {"name": "y"}])
    with pytest.raises(InvalidRequest, match='output "y" is there more than once'):
        parse_infer(text, None)


def test_a_request_may_be_decoded_again() -> None:
    """The data plane does so for a sequence that another version has."""
    parsed = parse_infer(body(x([1, 2], [1, 2])), None)
    assert arrays(parsed)["x"].tolist() == arrays(parsed)["x"].tolist() == [[1, 2]]


@pytest.mark.parametrize(
    "text",
    [
        body(*[x([1], [1], name=f"x{at}") for at in range(1000)]),
        body(x([1], [1]), **{f"k{at}": "a" * 100 for at in range(1000)}),
        body(x([1], [1]), parameters={f"k{at}": "a" * 100 for at in range(1000)}),
        body(x([1], [1] * 20_000)),
        b"%b " % body(x([float("nan")] * 10_000, [10_000])),
        body(x([1] * (1 << 19), [1 << 19])),
    ],
    ids=["inputs", "members", "parameters", "dimensions", "unstrict", "large"],
)
def test_a_body_that_takes_long_is_left_to_a_thread(text: bytes) -> None:
    assert parse_at_once(text, None) is None


@pytest.mark.thinned
@pytest.mark.parametrize("is_flat", [True, False])
@pytest.mark.parametrize("spaces", [True, False])
@pytest.mark.parametrize(
    "more", [{}, {"outputs": [{"name": "y"}], "id": "7"}, {"parameters": {"a": "]"}}], ids=str
)
def test_a_large_body_is_read_in_slices(
    is_flat: bool, spaces: bool, more: dict[str, object]
) -> None:
    sent = np.arange(1 << 18, dtype=np.float32).reshape(1 << 10, 1 << 8)
    given = x((sent.reshape(-1) if is_flat else sent).tolist(), sent.shape)
    separators = (", ", ": ") if spaces else (",", ":")
    text = json.dumps({"inputs": [given], **more}, separators=separators).encode()
    found = parse_infer(text, None)
    assert isinstance(found, SlicedInferBody)
    assert np.array_equal(arrays(found)["x"], sent)
    assert np.array_equal(arrays(found)["x"], sent)  # for another version
    assert found.outputs == (("y",) if "outputs" in more else ())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b"[0,", b"[true,", id="another type"),
        pytest.param(b"[0,", b"[[0],", id="a list"),
        pytest.param(b"[0,", b"[,", id="a comma too many"),
        pytest.param(b"0]", b'0],"data":[1]', id="data twice"),
        pytest.param(b"0]}", b"0]},{}", id="an input that is none"),
        pytest.param(b"0]}", b'0],"a":[]}', id="a list behind the data"),
        pytest.param(b"0]}", b"0]]}", id="a bracket too many"),
        pytest.param(b"0]}]}", b"0]}]", id="an end too early"),
        pytest.param(b"0]}", b"NaN]}", id="no number"),
    ],
)
def test_an_unusual_large_body_is_read_as_a_whole(old: bytes, new: bytes) -> None:
    """With the same error, or the same values, whichever reader has the word."""
    size = 1 << 16
    given = json.dumps(x([0] * size, [size]), separators=(",", ":")).encode()
    text = (b'{"inputs":[%b]}' % given)[::-1].replace(old[::-1], new[::-1], 1)[::-1]
    if old.endswith(b","):
        text = (b'{"inputs":[%b]}' % given).replace(old, new, 1)
    told = [read(text) for read in (_told, _told_whole)]
    assert told[0] == told[1]


def _told(text: bytes) -> object:
    try:
        return {name: each.tobytes() for name, each in arrays(parse_infer(text, None)).items()}
    except ServingError as error:
        return str(error)


def _told_whole(text: bytes) -> object:
    try:
        whole = request.infer_body(text, parse_object(text), None, OFF)
        return {name: each.tobytes() for name, each in arrays(whole).items()}
    except ServingError as error:
        return str(error)


def test_many_numbers_are_read_at_once() -> None:
    text = body(x([1.5] * 100_000, [100_000]))
    parsed = parse_at_once(text, None)
    assert parsed is not None
    assert parsed.decode_at_once(ANY) is not None


def test_of_equal_names_the_first_one_counts() -> None:
    text = (
        b'{"inputs":[{"name":"x","name":"y","shape":[1],"datatype":"INT8","data":[1],"data":[2]}]}'
    )
    for found in (arrays(parse_infer(text, None)), arrays(slowly(text))):
        assert {name: each.tolist() for name, each in found.items()} == {"x": [1]}


def test_an_id_that_is_no_text_is_refused() -> None:
    text = body(x([1], [1]), id="?").replace(b"?", b"\xff")
    with pytest.raises(InvalidRequest, match="UTF-8"):
        parse_infer(text, None)


@named_by(
    "shape",
    ("shape", "size", "found"),
    [((-1, 2), 16, (2, 2)), ((2, 2), 16, (2, 2)), (None, 16, (4,)), ((-1,), 0, (0,)), ((), 4, ())],
)
def test_the_shape_of_a_request_without_json_follows_from_its_bytes(
    shape: Any, size: int, found: object
) -> None:
    spec = TensorSpec("x", DataType.FP32, shape, "x:0")
    signature = Signature("serving_default", {"x": spec}, {})
    inputs, form = RawBody(b"\0" * size).decode(signature)
    assert inputs["x"].shape == found
    assert form is OutputForm.BINARY


@pytest.mark.parametrize(
    ("shapes", "size"),
    [
        pytest.param([(-1, -1)], 16, id="two open dimensions"),
        pytest.param([(-1, 2)], 12, id="half a row"),
        pytest.param([(2, 2)], 12, id="too few bytes"),
        pytest.param([(0, -1)], 0, id="no rows"),
        pytest.param([(1,), (1,)], 8, id="two inputs"),
        pytest.param([], 0, id="no inputs"),
    ],
)
def test_no_shape_follows_from_the_bytes(shapes: list[tuple[int, ...]], size: int) -> None:
    specs = {f"x{at}": TensorSpec(f"x{at}", DataType.FP32, s, "") for at, s in enumerate(shapes)}
    with pytest.raises(InvalidRequest, match="JSON"):
        RawBody(b"\0" * size).decode(Signature("serving_default", specs, {}))


def test_text_without_json_is_one_element() -> None:
    spec = TensorSpec("x", DataType.STRING, (-1, 1), "x:0")
    inputs, _ = RawBody(b"abc").decode(Signature("serving_default", {"x": spec}, {}))
    assert inputs["x"].tolist() == [[b"abc"]]


@given(tensors(), st.booleans(), st.one_of(st.none(), st.text(max_size=3)))
def test_a_reply_is_read_as_a_request(
    sent: tuple[DataType, Array], is_raw: bool, id: str | None
) -> None:
    dtype, array = sent
    spec = TensorSpec("x", dtype, None, "x:0")
    encoder = ReplyEncoder('m"', 3, {"x": spec})
    reply = (encoder.binary if is_raw else encoder.json)({"x": array})
    content, length = reply.body(None if id is None else json.dumps(id).encode())
    told = json.loads(content[:length])
    assert (told["model_name"], told["model_version"], told.get("id")) == ('m"', "3", id)
    again = json.dumps({"inputs": told["outputs"]}).encode()
    found = arrays(parse_infer(again + content[length:], len(again) if is_raw else None))
    assert found["x"].shape == array.shape
    assert np.array_equal(found["x"], array)


def test_texts_of_a_reply_can_be_sent_again() -> None:
    spec = TensorSpec("x", DataType.STRING, None, "x:0")
    encoder = ReplyEncoder("m", 1, {"x": spec})
    for elements in ([b"a", "ä".encode()], [b"a", b"\xff"], []):
        content, _ = encoder.json({"x": strings(elements)}).body(None)
        (told,) = json.loads(content)["outputs"]
        again = json.dumps({"inputs": [told]}).encode()
        assert arrays(parse_infer(again, None))["x"].tolist() == elements


CUSTOM = {"name": "x", "shape": [2], "datatype": "mine", "parameters": {"binary_data_size": 3}}


@pytest.mark.parametrize("spec", [TensorSpec("x", dtype, (-1,), "x:0") for dtype in DataType])
def test_only_untyped_inputs_take_other_datatypes(spec: TensorSpec) -> None:
    text = body(CUSTOM)
    for signature in (ANY, Signature("serving_default", {"x": spec}, {})):
        with pytest.raises(InvalidTensor, match='has datatype "mine"; expected one of'):
            parse_infer(text + b"abc", len(text)).decode(signature)
    with pytest.raises(InvalidTensor, match='has datatype "mine"; expected one of'):
        parse_infer(body({**x([1], [1], "mine")}), None)
    untyped = replace(spec, dtype=DataType.STRING, shape=None, untyped=True)
    inputs, _ = parse_infer(text + b"abc", len(text)).decode(
        Signature("serving_default", {"x": untyped}, {})
    )
    sent = sent_in(inputs["x"])
    assert sent is not None
    assert (bytes(sent), sent.datatype, sent.shape) == (b"abc", "mine", (2,))
