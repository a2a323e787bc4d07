"""Forms are cut as RFC 7578 has it; what is unclear is refused."""

import httpx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.wire.form import MOST_PARTS, is_form, parts_of
from tests.tables import named_by

TYPE = b"multipart/form-data; boundary=b"
Field = tuple[str, bool, bytes]


def written(*fields: Field, boundary: bytes = b"b") -> bytes:
    pieces = []
    for name, is_file, data in fields:
        disposition = f'form-data; name="{name}"' + ('; filename="f.jpg"' if is_file else "")
        head = f"Content-Disposition: {disposition}\r\n\r\n".encode()
        pieces += [b"--", boundary, b"\r\n", head, data, b"\r\n"]
    return b"".join([*pieces, b"--", boundary, b"--\r\n"])


def read(body: bytes, kind: bytes = TYPE) -> list[Field]:
    return [(part.name, part.is_file, bytes(part.data)) for part in parts_of(body, kind)]


names = st.text(
    st.characters(codec="utf-8", exclude_characters='"\\\r\n', exclude_categories=["Cc"]),
    min_size=1,
)
fields = st.lists(st.tuples(names, st.booleans(), st.binary()))


@given(fields, st.sampled_from([b"b", b"----WebKitFormBoundaryx1", b"a.b+c"]))
def test_a_form_that_is_written_is_read(sent: list[Field], boundary: bytes) -> None:
    assume(all(b"--" + boundary not in data for _, _, data in sent))
    body = written(*sent, boundary=boundary)
    for quoted in (boundary, b'"' + boundary + b'"'):
        assert read(body, b"multipart/form-data; charset=utf-8; boundary=" + quoted) == sent


@given(st.dictionaries(names, st.binary(), min_size=1))
def test_a_form_that_a_client_writes_is_read(files: dict[str, bytes]) -> None:
    request = httpx.Request("POST", "http://x/", files={n: ("f.png", d) for n, d in files.items()})
    found = parts_of(request.read(), request.headers["content-type"].encode())
    assert [(part.is_file, bytes(part.data)) for part in found] == [
        (True, data) for data in files.values()
    ]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    for data in (body, b"--b\r\n" + body, written(("x", True, body))[:-5]):
        try:
            read(data)
        except InvalidRequest as error:
            assert "multipart/form-data as curl -F does" in str(error)


def test_empty_files_lines_and_dashes_are_data() -> None:
    sent = [
        ("x", True, b""),
        ("x", True, b"\r\n"),
        ("x", False, b"--\r\n--a\r\n-"),
        ("y", True, b"--"),
    ]
    assert read(written(*sent)) == sent


def test_bytes_before_and_behind_the_parts_are_not_looked_at() -> None:
    body = written(("x", True, b"1"))
    assert read(b"preamble\r\n" + body + b"epilogue") == [("x", True, b"1")]


@named_by(
    "disposition",
    ("disposition", "name", "is_file"),
    [
        ("form-data; name=x", "x", False),
        ("FORM-DATA; NAME=x; FILENAME=a.jpg", "x", True),
        ('form-data; name="a\\"b"', 'a"b', False),
        ("form-data; name=\"x\"; filename*=UTF-8''a.jpg", "x", True),
        ('form-data; filename="name=y; .jpg"; name="x"', "x", True),
        ('form-data; name="ä"', "ä", False),
    ],
)
def test_names(disposition: str, name: str, is_file: bool) -> None:
    head = f"Content-Type: image/jpeg\r\ncontent-DISPOSITION:{disposition}\r\nX: y"
    assert read(f"--b\r\n{head}\r\n\r\n1\r\n--b--".encode()) == [(name, is_file, b"1")]


@pytest.mark.parametrize(
    ("body", "phrase"),
    [
        pytest.param(b"", "no part begins with the boundary", id="nothing"),
        pytest.param(b"--c\r\n", "no part begins with the boundary", id="another boundary"),
        pytest.param(b"--b", "something stands behind a boundary", id="a boundary that is cut"),
        pytest.param(
            b"--bc\r\n\r\n--b--", "something stands behind a boundary", id="a longer boundary"
        ),
        pytest.param(b"--b\r\n", "a part does not end", id="an empty part"),
        pytest.param(
            b"--b\r\nContent-Disposition: form-data; name=x\r\n\r\n1",
            "a part does not end",
            id="a part that is cut",
        ),
        pytest.param(
            b"--b\r\nContent-Disposition: form-data; name=x\r\n--b--",
            "headers of a part do not end",
            id="headers that are cut",
        ),
        pytest.param(b"--b\r\n\r\n1\r\n--b--", "no name", id="no name"),
        pytest.param(
            b'--b\r\nContent-Disposition: form-data; name=""\r\n\r\n1\r\n--b--',
            "no name",
            id="an empty name",
        ),
        pytest.param(
            b"--b\r\nX: " + b"y" * 5000 + b"\r\n\r\n1\r\n--b--",
            "within 4096 bytes",
            id="a long head",
        ),
        pytest.param(
            written(*[("x", True, b"")] * (MOST_PARTS + 1)),
            "more than 1000 parts",
            id="too many parts",
        ),
    ],
)
def test_a_body_that_is_no_form_is_refused(body: bytes, phrase: str) -> None:
    with pytest.raises(InvalidRequest, match=phrase):
        read(body)


def test_as_many_parts_as_are_allowed_are_read() -> None:
    assert len(read(written(*[("x", True, b"")] * MOST_PARTS))) == MOST_PARTS


def test_a_type_without_a_boundary_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="names no boundary"):
        read(b"--b--", b"multipart/form-data")


@named_by(
    "kind",
    ("kind", "expected"),
    [
        (TYPE, True),
        (b"Multipart/Form-Data;boundary=x", True),
        (b"multipart/mixed; boundary=x", False),
        (b"application/json", False),
        (b"", False),
    ],
)
def test_forms_are_told_by_their_type(kind: bytes, expected: bool) -> None:
    assert is_form(kind) is expected
