"""Fingerprints identify content, and keys of a bucket become paths that stay where they belong."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.storage.base import Entry, Location, fingerprint_of, is_plain, shown
from ie_serving.telemetry.log.logs import Event
from tests.tables import named_by

ENTRIES = (Entry("1/model.xml", 6, "a", 1.0), Entry("1/\udcff.bin", 8, "b", 2.0))


def test_the_order_and_the_times_of_entries_do_not_count() -> None:
    again = (ENTRIES[1], replace(ENTRIES[0], modified=9.0))
    assert fingerprint_of(again) == fingerprint_of(ENTRIES)


@pytest.mark.parametrize("change", [{"path": "1/m.xml"}, {"size": 7}, {"tag": "c"}])
def test_names_sizes_and_tags_count(change: dict[str, object]) -> None:
    changed = (replace(ENTRIES[0], **change), ENTRIES[1])  # type: ignore[arg-type]
    assert fingerprint_of(changed) != fingerprint_of(ENTRIES)


def test_the_origin_counts() -> None:
    assert fingerprint_of(ENTRIES, "s3://b/m") != fingerprint_of(ENTRIES, "s3://c/m")


def test_caches_of_earlier_releases_are_found_again() -> None:
    origin = "http://store:9000 s3://b/m\x001\n"
    assert fingerprint_of(ENTRIES[:1], origin)[:40] == "25cfd03f624d365f6b7f00dcd1e4c5a11de98939"


UNSAFE = ["../x", "a/../../x", "/etc/passwd", "a//b", "./a", "a\0b", "", "a/.."]


@named_by(
    "url",
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
    for _ in range(2):
        assert location.directories(["m//", "m/1/"], has_objects=False) == ["1"]
    (record,) = caplog.records
    event = record.msg
    assert isinstance(event, Event)  # in JSON its message is constant, and the URL is a field
    assert (event.text[:20], event.facts) == ('keys begin with "//"', {"url": "s3://b/m"})


def test_user_info_in_a_url_is_hidden() -> None:
    assert shown("http://me:pw@host:1/x@y") == "http://***@host:1/x@y"
