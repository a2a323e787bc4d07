"""Requests in JSON that differ in the values of their input alone are read as if they were new."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import InvalidRequest, ServingError
from ie_serving.wire.kserve import request
from ie_serving.wire.kserve.request import InferBody, parse_at_once, parse_infer
from ie_serving.wire.tfs.predict import ANY_SIGNATURE
from tests.tables import named_by

X = '{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1,2]}]}'
TEXTS = [
    X,
    X.replace('"data":[1,2]', '"data" : [1, 2] '),
    X.replace("}]}", '}],"id":"7"}'),
    X.replace("}]}", '}],"outputs":[{"name":"y"}],"parameters":{"binary_data_output":true}}'),
    X.replace('"data":[1,2]', '"parameters":{"data":[1,2]},"data":[3,4]'),
    X.replace('"data":[1,2]', '"parameters":{"\\u0064ata":[1,2]},"data":[3,4]'),
    X.replace('"data":[1,2]', '"data":[1,2],"d\\u0061ta":[3,4]'),
    X.replace('"data":[1,2]', '"d\\u0061ta":[3,4],"data":[1,2]'),
    X.replace('"name":"x"', '"name":"\\"data\\":[1,2]"'),
    X.replace('"name":"x"', '"name":"data"'),
    X.replace('"data":[1,2]', '"parameters":{"data":[1,2]}'),
    X.replace("FP32", "BYTES").replace("[1,2]", '["a","b"]'),
    X.replace("}]}", '},{"name":"z","shape":[1],"datatype":"FP32","data":[1]}]}'),
    X.replace("[1,2]", "[[1],[2]]"),
]
VALUES = ["[3,4]", "[ 5.5 , -6e2 ]", "[1]", "[]", "[1,2", "[1,2]]", "[[1,2]]", "[NaN,1]", '["]",1]']
VALUES += [
    '["a","b"]',
    "[{},1]",
    "[null,1]",
    "[1,2],3",
    '[1,2],"data":[5,6]',
    "[01,2]",
    "[true,false]",
]


def told(read: InferBody | None) -> tuple[object, ...]:
    assert read is not None
    arrays, form = read.decode(ANY_SIGNATURE)
    found = {name: (each.dtype, each.shape, each.tolist()) for name, each in arrays.items()}
    return read.id, read.outputs, read.wanted, form, repr(found)


def outcome(text: bytes, *, remembers: bool) -> tuple[object, ...]:
    try:
        return told(parse_at_once(text, None) if remembers else parse_infer(text, None))
    except ServingError as error:
        return type(error), str(error)


@pytest.mark.parametrize("text", TEXTS, ids=str)
def test_other_values_are_read_as_in_a_new_request(text: str) -> None:
    outcome(text.encode(), remembers=True)
    for values in VALUES:
        for known in ("[1,2]", "[3,4]"):
            changed = text.replace(known, values).encode()
            assert outcome(changed, remembers=True) == outcome(changed, remembers=False), changed


@given(st.data())
def test_any_change_is_noticed(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS)).encode()
    outcome(text, remembers=True)
    at = data.draw(st.integers(0, len(text) - 1))
    new = data.draw(st.sampled_from([b"", b"[", b"]", b'"', b",", b"1", b"\\", b"{", b"}", b" "]))
    changed = text[:at] + new + text[at + data.draw(st.integers(0, 2)) :]
    assert outcome(changed, remembers=True) == outcome(changed, remembers=False)


NUMBERS = st.one_of(
    st.floats().map(repr),  # nan and inf among them, as Python writes them
    st.integers(-(2**65), 2**65).map(str),
    st.sampled_from(["NaN", "1e400", "-1e400", "-0", "-0.0", "1E2", "01", "1.", "+1", "0.1e-400"]),
)
VALUE = st.one_of(
    NUMBERS,
    st.sampled_from(
        ["null", "true", "{}", '{"data":[1]}', '"]"', '"[1]"', '"\\u005d"', '"a"', '"é"']
    ),
)
SPACE = st.sampled_from(["", " ", "\n\t"])


@st.composite
def lists(draw: st.DrawFn, most: int = 2) -> str:
    """Data in JSON: lists of the tests' shape, and others."""
    inner = st.one_of(VALUE, lists(most - 1)) if most else VALUE
    kind = draw(st.sampled_from([VALUE, NUMBERS, inner]))
    parts = draw(st.lists(kind, max_size=3))
    return f"[{draw(SPACE)}{(draw(SPACE) + ',' + draw(SPACE)).join(parts)}{draw(SPACE)}]"


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str]:
    """The text before the data, and the text behind it."""
    datatype = draw(st.sampled_from(["FP32", "FP16", "INT8", "INT64", "UINT64", "BOOL", "BYTES"]))
    shape = draw(st.sampled_from(["[2]", "[2,1]", "[1,2]", "[1]", "[0]"]))
    members = [f'"name":"{draw(NAMES)}"', f'"shape":{shape}', f'"datatype":"{datatype}"']
    members += draw(st.lists(st.sampled_from(MEMBERS), max_size=2))
    cut = draw(st.integers(0, len(members)))
    gap = draw(SPACE)
    before = ",".join([*members[:cut], f'"data"{gap}:{gap}'])
    more = draw(st.lists(st.sampled_from(MORE), max_size=2))
    first = draw(st.sampled_from(["", *(f"{each}," for each in MORE[:3])]))
    behind = "".join([*(f",{each}" for each in members[cut:]), draw(st.sampled_from(ENDS))])
    return f'{{{first}"inputs":[{{{before}', "".join([behind, *(f",{each}" for each in more), "}"])


NAMES = st.sampled_from(["x", "data", "]", "[1]", '\\"data\\":[', "é"])
MEMBERS = [
    '"parameters":{"binary_data_size":8}',
    '"parameters":{"data":[1,2]}',
    '"parameters":{"shared_memory_region":null}',
    '"parameters":{"content_type":"base64"}',
    '"data":[5,6]',
    '"d\\u0061ta":[5,6]',
]
MORE = [
    '"id":"7"',
    '"id":"8]"',
    '"parameters":{"sequence_id":3,"sequence_start":true}',
    '"parameters":{"binary_data_output":true}',
    '"parameters":{"data":[7]}',
    '"outputs":[{"name":"y","parameters":{"classification":2}}]',
    '"inputs":[{"name":"z","shape":[2],"datatype":"FP32","data":[8,9]}]',
]
ENDS = ["}]", '},{"name":"z","shape":[1],"datatype":"INT32","data":[1]}]', "}],", "]}"]


@given(st.data())
def test_it_is_read_as_by_the_whole_parser(data: st.DataObject) -> None:
    """Requests with the text around the values, and parts of the values, of others before them."""
    texts = [data.draw(requests()) for _ in range(2)]
    values = [data.draw(lists()) for _ in range(3)]
    request.KNOWN.clear()
    for _ in range(6):
        before, behind = data.draw(st.sampled_from(texts))
        given_values = data.draw(st.sampled_from(values))
        # A remembered text may end within nested lists, or within a string.
        end = data.draw(st.sampled_from([None, None, given_values.find("]") + 1]))
        other = data.draw(st.sampled_from(values))
        tail = (
            "" if end is None else data.draw(st.sampled_from([other, other[other.find("]") + 1 :]]))
        )
        text = f"{before}{given_values[:end]}{tail}{behind}".encode()
        assert outcome(text, remembers=True) == outcome(text, remembers=False), text


@named_by(
    "known",
    ("known", "asked"),
    [
        ('[["1"],["2"]]', '["3"],["2"]]'),
        ("[[1],[2]]", "[3],[2]]"),
        ('["]","2"]', '["3"]","2"]'),
        ('["a]b","2"]', '[]b","2"]'),
    ],
)
def test_a_text_that_is_cut_within_the_values_is_not_remembered(known: str, asked: str) -> None:
    """Else the rest of these values would be taken for text behind the values of the next."""
    for datatype in ("FP32", "BYTES"):
        text = X.replace("FP32", datatype)
        outcome(text.replace("[1,2]", known).encode(), remembers=True)
        changed = text.replace("[1,2]", asked).encode()
        told = outcome(changed, remembers=True)
        assert told == outcome(changed, remembers=False)
        assert told[0] is InvalidRequest


def test_a_request_that_came_before_is_not_parsed_but_for_its_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcome(X.encode(), remembers=True)
    monkeypatch.setattr(request, "tensors_of", None)
    assert "[3.0, 4.0]" in str(outcome(X.replace("[1,2]", "[3,4]").encode(), remembers=True))


def test_few_requests_are_remembered_and_none_with_an_id() -> None:
    request.KNOWN.clear()
    outcome(X.replace("}]}", '}],"id":"7"}').encode(), remembers=True)
    assert not request.KNOWN
    for number in range(1000):
        outcome(X.replace('"x"', f'"x{number}"').encode(), remembers=True)
    assert 0 < len(request.KNOWN) <= request.MOST
