"""The sequences of a version by their ids: who may begin, go on and end, in any history."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ie_serving.core.values.errors import (
    AlreadyExists,
    InvalidRequest,
    NotAvailable,
    NotFound,
    ServingError,
)
from ie_serving.core.values.errors import SequenceEnding as Ending
from ie_serving.engines.layers.sequence import Control, Sequence, SequenceStage
from ie_serving.engines.layers.sequence_family import Family
from ie_serving.engines.layers.sequence_table import SequenceTable
from ie_serving.telemetry.metrics.layers import SequenceMetrics

NONE, START, END = Control.NONE, Control.START, Control.END
MOST = 3


def table(most: int = MOST) -> SequenceTable:
    made = SequenceTable(most, Family("m", SequenceMetrics()))
    made.serve(1)
    return made


def scan(of: SequenceTable) -> list[int]:
    return of.drop(of.idle())


def started(of: SequenceTable, number: int = 0) -> Sequence:
    sequence = of.admit(START, number, "s")
    of.answered(START, sequence)
    return sequence


def test_a_sequence_is_there_from_its_start_to_the_answer_of_its_end() -> None:
    sequences = table()
    sequence = started(sequences, 5)
    assert sequences.admit(NONE, 5, "s") is sequence
    assert sequences.admit(END, 5, "s") is sequence
    assert 5 in sequences
    sequences.answered(END, sequence)
    assert 5 not in sequences
    assert started(sequences, 5) is not sequence


def test_ids_that_are_chosen_here_are_not_guessed_and_fit_into_a_double() -> None:
    sequences = table(200)
    numbers = [started(sequences).number for _ in range(200)]
    assert len(set(numbers)) == 200
    assert all(0 < number < 2**53 for number in numbers)
    assert max(numbers) > 2**40


@pytest.mark.parametrize(
    ("ask", "kind", "text"),
    [
        pytest.param(
            lambda t: t.admit(NONE, 9, "s"),
            NotFound,
            "Sequence with provided ID does not exist: 9",
            id="unknown",
        ),
        pytest.param(
            lambda t: t.admit(END, 9, "s"),
            NotFound,
            "Sequence with provided ID does not exist: 9",
            id="end of an unknown one",
        ),
        pytest.param(
            lambda t: t.admit(NONE, 0, "s"),
            InvalidRequest,
            "Sequence ID has not been provided in request inputs",
            id="no id",
        ),
        pytest.param(
            lambda t: t.admit(END, 0, "s"),
            InvalidRequest,
            "Sequence ID has not been provided in request inputs",
            id="end without an id",
        ),
        pytest.param(
            lambda t: t.admit(START, 5, "s"),
            AlreadyExists,
            "Sequence with provided ID already exists: 5",
            id="started twice",
        ),
        pytest.param(
            lambda t: [t.admit(START, n, "s") for n in (6, 7, 8)],
            NotAvailable,
            "Max sequence number has been reached. Could not create new sequence. This version"
            " keeps 3",
            id="the limit",
        ),
        pytest.param(
            lambda t: t.admit(NONE, 5, "other"),
            InvalidRequest,
            'sequence 5 was started with signature "s", and this request calls "other"',
            id="another signature",
        ),
        pytest.param(
            lambda t: (t.admit(END, 5, "s"), t.admit(START, 5, "s")),
            Ending,
            "Sequence last request is being processed",
            id="started while it ends",
        ),
        pytest.param(
            lambda t: (t.admit(END, 5, "s"), t.admit(NONE, 5, "s")),
            NotFound,
            "Sequence with provided ID does not exist: 5, whose SEQUENCE_END is under way",
            id="asked while it ends",
        ),
    ],
)
def test_a_request_out_of_its_sequence_is_refused(
    ask: Callable[[SequenceTable], object], kind: type[Exception], text: str
) -> None:
    sequences = table()
    started(sequences, 5)
    with pytest.raises(kind) as refusal:
        ask(sequences)
    assert type(refusal.value) is kind
    assert str(refusal.value).startswith(text)


def test_an_end_that_fails_leaves_the_sequence_and_a_start_that_fails_leaves_none() -> None:
    sequences = table()
    sequence = started(sequences, 5)
    sequences.failed(END, sequences.admit(END, 5, "s"))
    assert sequences.admit(NONE, 5, "s") is sequence
    failing = sequences.admit(START, 6, "s")
    behind, end = sequences.admit(NONE, 6, "s"), sequences.admit(END, 6, "s")
    sequences.failed(START, failing)
    assert 6 not in sequences
    for control, late in ((NONE, behind), (END, end)):
        with pytest.raises(NotFound):
            sequences.check(late)
        sequences.failed(control, late)
    again = started(sequences, 6)
    sequences.failed(END, end)  # of the one before: the new one is not touched
    assert sequences.admit(NONE, 6, "s") is again


def test_idle_means_no_request_between_two_scans_and_none_under_way() -> None:
    sequences = table()
    for number in (1, 2, 3):
        started(sequences, number)
    assert scan(sequences) == []
    sequences.admit(NONE, 1, "s")
    sequences.admit(END, 2, "s")
    assert scan(sequences) == [3]
    assert scan(sequences) == [1]
    assert 2 in sequences  # its END is under way
    started(sequences, 4)
    scan(sequences)
    found = sequences.idle()
    sequences.admit(NONE, 4, "s")
    assert (len(found), sequences.drop(found)) == (1, [])  # a request has come meanwhile
    kept = SequenceTable(3, Family("m", SequenceMetrics()), drops_idle=False)
    started(kept, 1)
    assert [scan(kept) for _ in range(3)] == [[], [], []]


@dataclass
class Pending:
    """A request that was admitted and is not answered yet."""

    control: Control
    sequence: Sequence


class Histories(RuleBasedStateMachine):
    """Requests that come, are answered in their order, or fail at any time, and scans between.

    Beside the table there is a second description: for each id a list of what is under way.
    """

    numbers = st.integers(1, 4)

    def __init__(self) -> None:
        super().__init__()
        self.table = table()
        self.live: dict[int, Sequence] = {}
        self.pending: list[Pending] = []
        self.touched: set[int] = set()

    def under_way(self, sequence: Sequence) -> list[Pending]:
        return [each for each in self.pending if each.sequence is sequence]

    def is_ending(self, number: int) -> bool:
        of = self.live.get(number)
        return of is not None and any(each.control is END for each in self.under_way(of))

    @rule(number=st.integers(0, 4))
    def start(self, number: int) -> None:
        try:
            sequence = self.table.admit(START, number, "s")
        except ServingError as error:
            taken = number in self.live
            expected = AlreadyExists if taken else NotAvailable
            assert type(error) is (Ending if self.is_ending(number) else expected)
            assert taken or len(self.live) == MOST
            return
        assert number not in self.live
        assert sequence.number == number or not number
        self.live[sequence.number] = sequence
        self.pending.append(Pending(START, sequence))
        self.touched.add(sequence.number)

    @rule(number=numbers, control=st.sampled_from([NONE, END]))
    def go_on(self, number: int, control: Control) -> None:
        there = number in self.live and not self.is_ending(number)
        try:
            sequence = self.table.admit(control, number, "s")
        except NotFound:
            assert not there
            return
        assert there
        assert sequence is self.live[number]
        self.pending.append(Pending(control, sequence))
        self.touched.add(number)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        """Answer the first request of some sequence."""
        firsts = [each for each in self.pending if self.under_way(each.sequence)[0] is each]
        request = data.draw(st.sampled_from(firsts))
        self.pending.remove(request)
        try:
            self.table.check(request.sequence)
        except NotFound:
            assert request.sequence.stage is SequenceStage.GONE
            self.table.failed(request.control, request.sequence)
            return
        self.table.answered(request.control, request.sequence)
        self.touched.add(request.sequence.number)
        if request.control is END:
            del self.live[request.sequence.number]

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        """Fail or cancel any request, in its turn or before it; a START is always in its turn."""
        request = data.draw(st.sampled_from(self.pending))
        self.pending.remove(request)
        was_live = self.live.get(request.sequence.number) is request.sequence
        self.table.failed(request.control, request.sequence)
        if request.control is START and was_live:
            del self.live[request.sequence.number]

    @rule()
    def scan(self) -> None:
        """What is under way has its turn taken in the layer; here it is marked by hand."""
        for sequence in self.live.values():
            sequence.turns.taken = bool(self.under_way(sequence))
        dropped = set(scan(self.table))
        quiet = {n for n, each in self.live.items() if not self.under_way(each)}
        assert dropped == quiet - self.touched
        for number in dropped:
            del self.live[number]
        self.touched.clear()

    @invariant()
    def the_table_holds_exactly_what_is_live(self) -> None:
        # As many as are live, and each of those: the same ids.
        assert len(self.table) == len(self.live) <= MOST
        assert all(number in self.table for number in self.live)
        for sequence in self.live.values():
            assert sequence.stage is not SequenceStage.GONE


Histories.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestHistories = Histories.TestCase
