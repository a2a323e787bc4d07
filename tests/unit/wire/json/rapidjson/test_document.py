"""The JSON dialect of TensorFlow Serving, which is RapidJSON's. Offsets are its own.

More of what is taken and refused is in `tests/functional/conformance/cases/rest_json.py`.
"""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.wire.json.rapidjson.document import KEPT_LEVELS, bytes_of, parse_document
from tests.tables import named_by


@named_by(
    "body",
    ("body", "text"),
    [
        (b"\xef\xbb\xbf", "The document is empty. at offset: 3"),
        (b'{"a"', "Missing a colon after a name of object member. at offset: 4"),
        (b'{"a":01}', "Missing a comma or '}' after an object member. at offset: 6"),
        (b'{"a":1\x00}', "Missing a comma or '}' after an object member. at offset: 6"),
        (b"[1", "Missing a comma or ']' after an array element. at offset: 2"),
        (b"[1,2,3 4,5]", "Missing a comma or ']' after an array element. at offset: 7"),
        (b'{"a":[,1]}', "Invalid value. at offset: 6"),
        (b"[1,,2]", "Invalid value. at offset: 3"),
        (b"[", "Invalid value. at offset: 1"),
        (b"[1 /*x*/]", "Missing a comma or ']' after an array element. at offset: 3"),
        (b"[nan]", "Invalid value. at offset: 2"),
        (b"[True]", "Invalid value. at offset: 1"),
        (b"[Nan]", "Invalid value. at offset: 3"),
        (b"[Infx]", "Missing a comma or ']' after an array element. at offset: 4"),
        (b"[Infinite]", "Invalid value. at offset: 8"),
        (b"[.5]", "Invalid value. at offset: 1"),
        (b"[+1]", "Invalid value. at offset: 1"),
        (b"[-]", "Invalid value. at offset: 2"),
        (b'{"a":1.5e+}', "Miss exponent in number. at offset: 10"),
        (b"[NaN,1e400,2]", "Number too big to be stored in double. at offset: 5"),
        (b"[" + b"9" * 400 + b"]", "Number too big to be stored in double. at offset: 1"),
        (b'["a\\"', "Missing a closing quotation mark in string. at offset: 5"),
        (b'["\\x"]', "Invalid escape character in string. at offset: 2"),
        (b'["ab\n"]', "Invalid escape character in string. at offset: 4"),
        (b'["\\u12g4"]', "Incorrect hex digit after \\u escape in string. at offset: 2"),
        (b'["\\ud800"]', "The surrogate pair in string is invalid. at offset: 2"),
        (b'["\\ud800\\u0041"]', "The surrogate pair in string is invalid. at offset: 2"),
        (b'["\\udc00"]', "The surrogate pair in string is invalid. at offset: 2"),
    ],
)
def test_a_malformed_document_is_refused_at_its_offset(body: bytes, text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_document(body)
    assert str(caught.value) == f"JSON Parse error: {text}"


@pytest.mark.parametrize(
    ("body", "value"),
    [
        pytest.param(b"[1]]", [1], id="even a bracket"),
        pytest.param(b'["\\u0000\\ud83d\\ude00"]', ["\0\U0001f600"], id="escapes"),
        pytest.param(b"[-0,0,-0.0]", [0, 0, -0.0], id="minus zero is an integer"),
        pytest.param(b"5 6", 5, id="a bare number"),
    ],
)
def test_a_document_that_only_rapidjson_takes_is_taken(body: bytes, value: object) -> None:
    assert parse_document(body) == value


@named_by(
    "text",
    ("text", "value"),
    [
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64),
        ("-9223372036854775808", -(2**63)),
        ("-9223372036854775809", -(2.0**63)),
        ("1" * 100, float("1" * 100)),
        ("1.0", 1.0),
        ("1e2", 100.0),
        ("7", 7),
    ],
)
@pytest.mark.parametrize("frame", ["[{}]", "[{},1]", "[{},NaN,1]"])
def test_numbers_are_typed_as_by_rapidjson(text: str, value: float, frame: str) -> None:
    got = parse_document(frame.format(text).encode())[0]
    assert (type(got), got) == (type(value), value)


@pytest.mark.parametrize("count", [1, 2, 1024, 1025, 3000])
def test_many_escapes_are_read_beside_bytes_that_are_not_utf8(count: int) -> None:
    (text,) = parse_document(b'["\xff' + rb"\n\"\\\u0041" * count + rb"\n\n" * count + b'"]')
    assert bytes_of(text) == b"\xff" + b'\n"\\A' * count + b"\n\n" * count


def test_bytes_that_are_not_utf8_come_back() -> None:
    (text,) = parse_document(b'["a\xff\\n\xe9"]')
    assert bytes_of(text) == b"a\xff\n\xe9"


def test_unread_levels_are_checked_and_forgotten() -> None:
    levels = 100_000
    body = b'{"deep":' + b'{"a":[' * levels + b"]}" * levels + b',"x":[1]}'
    document = parse_document(body)
    assert document["x"] == [1]
    depth, value = 0, document["deep"]
    while value:
        depth, value = depth + 1, value["a"] if isinstance(value, dict) else value[0]
    assert depth < KEPT_LEVELS
    with pytest.raises(InvalidRequest, match="Missing a comma"):
        parse_document(b"[" * levels + b"1" + b"]" * (levels - 1) + b"}")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_strict_json_means_what_it_means_everywhere(value: object, spaced: bool) -> None:
    option = orjson.OPT_INDENT_2 if spaced else None
    body = orjson.dumps(value, option=option)
    assert json.dumps(parse_document(body)) == json.dumps(orjson.loads(body))


WORDS = b'{ } [ ] , : " \\ a u 12 - .5 e3 0 NaN Inf inity null true "a" "a":'.split()
PIECES = st.sampled_from([*WORDS, b" ", b"\n", b"\x00", b"\xff"])


@given(st.lists(PIECES, max_size=30).map(b"".join))
def test_any_bytes_are_a_document_or_a_parse_error(body: bytes) -> None:
    """And whatever a strict parser takes is taken, with the same meaning."""
    try:
        expected = orjson.loads(body)
    except orjson.JSONDecodeError:
        expected = None
    try:
        got = parse_document(body)
    except InvalidRequest as error:
        assert str(error).startswith("JSON Parse error: ")
        assert expected is None
    else:
        if expected is not None and body.count(b'"a":') < 2:
            assert got == expected
