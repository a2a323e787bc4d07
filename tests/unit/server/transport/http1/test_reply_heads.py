"""Heads of replies as bytes."""

import pytest

from ie_serving.server.transport.http1.reply_heads import date, head, plain


def test_a_head_says_status_and_headers_and_what_they_mean_for_the_connection() -> None:
    found = head(404, ((b"content-length", b"7"), (b"connection", b"Close")))
    assert found.text == b"HTTP/1.1 404 Not Found\r\ncontent-length: 7\r\nconnection: Close\r\n"
    assert (found.length, found.closes) == (7, True)


def test_an_unknown_status_has_no_phrase() -> None:
    assert head(499, ()).text == b"HTTP/1.1 499 \r\n"


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param((b"", b"x"), id="no name"),
        pytest.param((b"a b", b"x"), id="a blank in a name"),
        pytest.param((b"a:", b"x"), id="a colon in a name"),
        pytest.param((b"a", b"x\ny"), id="a line feed"),
        pytest.param((b"a", b"x\ry"), id="a carriage return"),
        pytest.param((b"a", b"\0"), id="a zero"),
        pytest.param((b"transfer-encoding", b"chunked"), id="another coding"),
        pytest.param((b"content-length", b"many"), id="a length that is no number"),
    ],
)
def test_a_pair_that_would_break_the_framing_is_refused(pair: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError):
        head(200, (pair,))


def test_a_refusal_is_plain_text_of_its_length_and_ends_the_connection() -> None:
    top, _, body = plain(400, "Say it in ASCII, é.").partition(b"\r\n\r\n")
    assert b"content-length: %d\r\n" % len(body) in top
    assert b"\r\nconnection: close" in top
    assert body.decode() == "Say it in ASCII, é.\n"


def test_the_date_is_written_as_http_wants_it() -> None:
    """The example of RFC 9110 section 5.6.7."""
    assert date(784111777) == b"date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
