"""A running server for each test."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.unit.server.transport.http2.peer import Served, serving


@pytest_asyncio.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as running:
        yield running
