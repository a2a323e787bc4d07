"""A fingerprint identifies content, whatever the order it is listed in."""

from dataclasses import replace

import pytest

from ie_serving.storage.base import Entry, fingerprint_of

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
