"""Keys of a bucket become paths that stay where they belong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.storage.base import Location, is_plain, shown

UNSAFE = ["../x", "a/../../x", "/etc/passwd", "a//b", "./a", "a\0b", "", "a/.."]


@pytest.mark.parametrize(
    ("url", "bucket", "prefix"),
    [
        ("s3://b", "b", ""),
        ("s3://b/", "b", ""),
        ("s3://b/m", "b", "m/"),
        ("s3://b/a/m/", "b", "a/m/"),
        ("s3://b/a//m", "b", "a//m/"),
        ("s3://b/a//", "b", "a//"),
        ("s3://b/a b/é", "b", "a b/é/"),
    ],
)
def test_a_url_is_a_bucket_and_a_prefix_as_written(url: str, bucket: str, prefix: str) -> None:
    location = Location.parse(url, url.removeprefix("s3://"))
    assert (location.bucket, location.prefix) == (bucket, prefix)


@pytest.mark.parametrize("path", UNSAFE)
def test_keys_that_would_leave_their_directory_are_left_out(path: str) -> None:
    assert Location("s3://b/m", "b", "m/").path_of(f"m/{path}") is None


@given(st.text(min_size=1))
def test_a_plain_path_has_one_spelling(path: str) -> None:
    parts = path.split("/")
    bad = any(part in ("", ".", "..") for part in parts) or "\0" in path
    assert is_plain(path) != bad


def test_a_doubled_slash_below_the_base_is_pointed_out(caplog: pytest.LogCaptureFixture) -> None:
    location = Location("s3://b/m", "b", "m/")
    assert location.directories(["m//", "m/1/"], has_objects=False) == ["1"]
    assert 'keys begin with "//"' in caplog.text


def test_user_info_in_a_url_is_hidden() -> None:
    assert shown("http://me:pw@host:1/x@y") == "http://***@host:1/x@y"
