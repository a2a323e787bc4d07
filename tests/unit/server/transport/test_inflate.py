"""What is inflated is bounded while it grows: by its limit, and by the budget."""

import gzip
import os
import tracemalloc
import zlib
from collections.abc import Iterator

import pytest

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import QueueFull
from ie_serving.server.transport.inflate import DEFLATE, GZIP, DataTooLong, MalformedData, inflate

LIMIT = 1 << 28
MEGABYTE = 1 << 20
NOISE = os.urandom(3 * MEGABYTE)


@pytest.fixture
def few() -> Iterator[int]:
    """The budget has room for some megabytes."""
    before, BUDGET.limit = BUDGET.limit, 4 * MEGABYTE
    yield BUDGET.limit
    BUDGET.limit = before


@pytest.mark.thinned
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"x" * 65_536, id="small"),
        pytest.param(b"x" * 65_537, id="counted"),
        pytest.param(bytes(range(256)) * 4096, id="a megabyte"),
        pytest.param(NOISE, id="what does not shrink"),
        pytest.param(bytes(40 * MEGABYTE), id="what shrinks a thousandfold"),
        pytest.param(bytes(MEGABYTE) + NOISE + bytes(MEGABYTE), id="both"),
    ],
)
@pytest.mark.parametrize("form", ["gzip", "deflate"])
def test_compressed_content_comes_out(content: bytes, form: str) -> None:
    compress, bits = {"gzip": (gzip.compress, GZIP), "deflate": (zlib.compress, DEFLATE)}[form]
    held = BUDGET.held
    found = inflate(compress(content, 1), bits, len(content))
    assert BUDGET.held - held == (len(content) if len(content) > 65_536 else 0)
    assert bytes(found) == content
    del found
    assert BUDGET.held == held


@pytest.mark.parametrize("size", [100, 65_537, 5 * MEGABYTE])
def test_one_byte_more_than_the_limit(size: int) -> None:
    held = BUDGET.held
    with pytest.raises(DataTooLong):
        inflate(gzip.compress(bytes(size)), GZIP, size - 1)
    assert BUDGET.held == held


def test_a_bomb_takes_no_more_than_the_budget(few: int) -> None:
    """A few KB that would become 64 MB."""
    bomb = gzip.compress(bytes(64 * MEGABYTE), 1)
    held = BUDGET.held
    tracemalloc.start()
    try:
        with pytest.raises(QueueFull):
            inflate(bomb, GZIP, 1 << 30)
        assert tracemalloc.get_traced_memory()[1] < 4 * MEGABYTE
    finally:
        tracemalloc.stop()
    assert BUDGET.held == held


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "ends too early"),
        (gzip.compress(NOISE)[:-1], "ends too early"),
        (gzip.compress(b"a") + b"x", "something follows"),
        (gzip.compress(NOISE) + gzip.compress(b""), "something follows"),
        (gzip.compress(NOISE[:16_361], 0), "something follows"),
        (b"no gzip at all", "incorrect header"),
    ],
    ids=["nothing", "cut short", "a byte behind", "a member behind", "a piece's end", "no gzip"],
)
def test_data_that_are_no_such_stream_are_refused(data: bytes, fault: str) -> None:
    if len(data) % (1 << 14) == 0 and data:
        data += b"x"  # behind an end that lies where a piece of the input ends
    with pytest.raises(MalformedData, match=fault):
        inflate(data, GZIP, LIMIT)
