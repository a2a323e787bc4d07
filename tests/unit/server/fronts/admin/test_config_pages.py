"""A reload that a client asks for: how long it is waited for, and who may ask."""

import asyncio

import pytest

from ie_serving.core.errors import DeadlineExceeded, Forbidden
from ie_serving.server.fronts.admin.config_pages import ConfigPages


async def test_a_reload_that_takes_too_long_is_not_waited_for() -> None:
    async def for_ever() -> bool:
        await asyncio.Event().wait()
        return True

    pages = ConfigPages(dict, for_ever, reload_allowed=True, limit_s=0.01)
    with pytest.raises(DeadlineExceeded, match="GET /v1/config shows how far it is"):
        await pages.reload()


async def test_where_it_is_closed_nothing_is_reloaded() -> None:
    async def never() -> bool:
        raise AssertionError("reloaded")

    pages = ConfigPages(dict, never, reload_allowed=False, limit_s=1)
    with pytest.raises(Forbidden, match="switched off"):
        await pages.reload()
    assert pages.status() == b"{}\n"
