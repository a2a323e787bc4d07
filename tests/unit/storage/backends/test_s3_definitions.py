"""The definitions of AWS's services: what botocore reads, and without holding the interpreter."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import botocore
import pytest
from botocore.loaders import JSONFileLoader

from ie_serving.storage.backends.s3_definitions import FileInSteps

DATA = Path(botocore.__file__).parent / "data"
LARGEST = "s3/2006-03-01/service-2"


def longest_call(work: Callable[[], object]) -> float:
    """Longest processor time, in seconds, between two moments at which other threads may go on.

    Such are the calls and returns of functions in Python. What the profiler sees as a call of a
    function in C is not counted, since decompressing and reading let go of the interpreter.
    """
    longest, last = 0.0, time.thread_time()

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal longest, last
        now = time.thread_time()
        if event != "c_return":
            longest = max(longest, now - last)
        last = now

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return longest


@pytest.mark.parametrize(
    "name", [LARGEST, "s3/2006-03-01/endpoint-rule-set-1", "endpoints", "partitions"]
)
def test_it_is_what_botocore_reads(name: str) -> None:
    found = FileInSteps().load_file(str(DATA / name))
    assert found
    assert found == JSONFileLoader().load_file(str(DATA / name))


def test_a_file_that_is_not_there_is_none() -> None:
    assert FileInSteps().load_file(str(DATA / "s3" / "nothing")) is None


def test_other_threads_have_their_turns_while_the_largest_is_read() -> None:
    """Beside botocore's reader in the same process: the machine may be slow, and busy."""
    path = str(DATA / LARGEST)
    in_steps = min(longest_call(lambda: FileInSteps().load_file(path)) for _ in range(3))
    at_once = min(longest_call(lambda: JSONFileLoader().load_file(path)) for _ in range(3))
    assert in_steps < at_once / 2, (in_steps, at_once)
