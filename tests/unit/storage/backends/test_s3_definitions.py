"""The definitions of AWS's services: what botocore reads, and without holding the interpreter."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import botocore
import pytest
from botocore.loaders import JSONFileLoader

from ie_serving.storage.backends.s3_definitions import SteppedFileLoader

DATA = Path(botocore.__file__).parent / "data"
LARGEST = "s3/2006-03-01/service-2"


def turns(work: Callable[[], object]) -> int:
    """Count the calls of functions in Python: at each, a thread that waits has its turn."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def dictionaries(value: object) -> int:
    """Count the dictionaries in what JSON gives."""
    if isinstance(value, dict):
        return 1 + sum(map(dictionaries, value.values()))
    return sum(map(dictionaries, value)) if isinstance(value, list) else 0


@pytest.mark.parametrize(
    "name", [LARGEST, "s3/2006-03-01/endpoint-rule-set-1", "endpoints", "partitions"]
)
def test_it_is_what_botocore_reads(name: str) -> None:
    found = SteppedFileLoader().load_file(str(DATA / name))
    assert found
    assert found == JSONFileLoader().load_file(str(DATA / name))


def test_a_file_that_is_not_there_is_none() -> None:
    assert SteppedFileLoader().load_file(str(DATA / "s3" / "nothing")) is None


def test_other_threads_have_a_turn_before_each_dictionary_of_the_largest() -> None:
    """Counted, not timed: the scanner itself, one call in C, makes thousands of them in a row."""
    path = str(DATA / LARGEST)
    wanted = dictionaries(JSONFileLoader().load_file(path))
    assert wanted > 1000
    assert turns(lambda: SteppedFileLoader().load_file(path)) >= wanted
    assert turns(lambda: JSONFileLoader().load_file(path)) < wanted / 10
