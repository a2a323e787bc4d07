"""The allow-list of a suite: written and read, and compared with a run."""

import random

from tests.suites import known
from tests.suites.judging import Kind, Outcome
from tests.suites.modes import MODES, Place, places

EVERYWHERE = [place for mode in MODES for place in places(mode)]
HERE = Place("fixed", "f32", "openvino", "rest")
REFUSED, WRONG, CRASH = (Outcome(each, "why") for each in (Kind.REFUSED, Kind.WRONG, Kind.CRASH))
RIGHT, NOT_CARRIED = Outcome(Kind.RIGHT), Outcome(Kind.NOT_CARRIED)


def test_places_that_are_the_same_for_each_word_of_an_axis_are_one_line() -> None:
    fixed = [place for place in EVERYWHERE if place.sizes == "fixed"]
    assert list(known.patterns(EVERYWHERE)) == [("*", "*", "*", "*")]
    assert list(known.patterns(fixed)) == [("fixed", "*", "*", "*")]
    assert list(known.patterns([HERE])) == [HERE]


def test_a_list_is_read_as_it_was_written() -> None:
    seeded = random.Random(0)
    kinds = (REFUSED, WRONG, CRASH)
    entries = {
        (name, place): seeded.choice(kinds)
        for name in ("a", "b")
        for place in seeded.sample(EVERYWHERE, 17)
    }
    assert known.read(known.written(entries)) == entries


def test_a_line_names_the_test_the_places_the_kind_and_the_cause() -> None:
    entries = {("abs", HERE): Outcome(Kind.WRONG, "y:\n1 of 2")}
    assert known.written(entries) == "abs fixed f32 openvino rest wrong: y: 1 of 2\n"


def test_results_worse_than_the_list_are_found() -> None:
    listed = {("a", HERE): REFUSED, ("b", HERE): WRONG, ("c", HERE): REFUSED}
    measured = {
        ("a", HERE): WRONG,
        ("b", HERE): REFUSED,
        ("c", HERE): REFUSED,
        ("d", HERE): CRASH,
        ("e", HERE): NOT_CARRIED,
    }
    assert known.worse(measured, listed) == {("a", HERE): WRONG, ("d", HERE): CRASH}


def test_results_better_than_the_list_leave_it() -> None:
    listed = {("a", HERE): WRONG, ("b", HERE): WRONG, ("c", HERE): REFUSED, ("d", HERE): REFUSED}
    measured = {("a", HERE): RIGHT, ("b", HERE): REFUSED, ("c", HERE): CRASH}
    assert known.better(measured, listed) == {("a", HERE): WRONG, ("b", HERE): WRONG}
    shrunk = {("b", HERE): REFUSED, ("c", HERE): REFUSED, ("d", HERE): REFUSED}
    assert known.shrunk(measured, listed) == shrunk
