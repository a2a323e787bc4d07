"""A reload that a client asks for: how long it is waited for, and who may ask."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from ie_serving.core.values.errors import DeadlineExceeded, Forbidden, InvalidRequest
from ie_serving.server.fronts.admin.config_pages import ConfigPages, changes_of
from ie_serving.wire.tfs.statuses import StatusEncoder

NEVER: Any = None


async def test_a_reload_that_takes_too_long_is_not_waited_for() -> None:
    async def for_ever() -> bool:
        await asyncio.Event().wait()
        return True

    pages = ConfigPages(dict, for_ever, NEVER, NEVER, reload_allowed=True, limit_s=0.01)
    with pytest.raises(DeadlineExceeded, match="GET /v1/config shows how far it is"):
        await pages.reload()


async def test_where_it_is_closed_nothing_is_reloaded() -> None:
    async def never() -> bool:
        raise AssertionError("reloaded")

    pages = ConfigPages(dict, never, NEVER, StatusEncoder(), reload_allowed=False, limit_s=1)
    with pytest.raises(Forbidden, match="switched off"):
        await pages.reload()
    assert pages.status() == b"{}\n"


class Stuck:
    """Labels whose change waits for another one that does not end."""

    async def change(self, name: str, changes: Mapping[str, int | None]) -> None:
        await asyncio.Event().wait()


async def test_labels_wait_no_longer_than_a_reload_does() -> None:
    stuck: Any = Stuck()
    pages = ConfigPages(dict, NEVER, stuck, NEVER, reload_allowed=True, limit_s=0.01)
    with pytest.raises(DeadlineExceeded, match="no label has changed"):
        await pages.relabel("m", b'{"labels": {"stable": 1}}')


async def test_where_it_is_closed_no_label_is_set() -> None:
    pages = ConfigPages(dict, NEVER, NEVER, StatusEncoder(), reload_allowed=False, limit_s=1)
    with pytest.raises(Forbidden, match="labels by request are switched off"):
        await pages.relabel("m", b'{"labels": {"stable": 1}}')


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"{}", b'{"labels": {}}', b'{"labels": [1]}', b"[" * 100_000),
        *(b'{"labels": {"s": 1}, "model": "m"}', b'{"labels": {"": 1}}', b'{"labels": {"s": -1}}'),
        *(b'{"labels": {"s": true}}', b'{"labels": {"s": "1"}}', b'{"labels": {"s": 1.0}}'),
        *(b'{"labels": {"s": 9223372036854775808}}', b'{"labels": {"\\ud800": 1}}'),
    ],
)
def test_a_body_that_sets_no_labels_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r'expected \{"labels"'):
        changes_of(body)


def test_a_label_has_a_name_of_some_length() -> None:
    label = 255 * "l"
    assert changes_of(f'{{"labels": {{"{label}": 3}}}}'.encode()) == {label: 3}
    with pytest.raises(InvalidRequest, match="has 256 characters; expected 255 at most"):
        changes_of(f'{{"labels": {{"{label}l": 3}}}}'.encode())


def test_labels_are_given_a_version_or_null() -> None:
    assert changes_of(b'{"labels": {"s": 3, "old": null}}') == {"s": 3, "old": None}
