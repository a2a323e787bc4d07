"""The policy of batching: events in, batches out; no clock, no event loop."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import QueueFull
from ie_serving.engines.layers.gathering import (
    CROWDED_TURNS,
    WATCHED_EVERY,
    Batch,
    BatchRules,
    Gatherer,
    Reason,
    WaitingRows,
)

NO_SIZES: tuple[int, ...] = ()


def part(number: int, rows: int = 1, form: str = "a", since: float = 0.0) -> WaitingRows[int]:
    return WaitingRows(number, rows, form, since)


def gatherer(*waiting: WaitingRows[int], busy: int = 0, **rules: object) -> Gatherer[int]:
    """Give a policy with `busy` lanes and these parts, in a turn that is over."""
    made: Gatherer[int] = Gatherer(BatchRules(**{"rows": 8, **rules}))  # type: ignore[arg-type]
    for _ in range(busy):
        assert made.arrive()
        made.end_turn()
    for each in waiting:
        made.arrive(whole=False)
        made.add([each])
    made.end_turn()
    return made


def taken(made: Gatherer[int], now: float = 0.0) -> tuple[list[int], Reason] | None:
    batch = made.take(now)
    return ([each.content for each in batch.parts], batch.reason) if batch else None


def test_a_lone_request_goes_at_once() -> None:
    made = gatherer()
    for _ in range(3):
        assert made.arrive()
        made.free_lane()
        made.end_turn()


def test_as_many_rows_as_the_last_batch_had_go_ahead_of_their_lane() -> None:
    made = gatherer(*(part(number) for number in range(3)), busy=1, ahead=True)
    assert taken(made) == ([0, 1, 2], Reason.AHEAD)
    for number in range(3, 5):
        made.arrive(whole=False)
        made.add([part(number)])
    made.end_turn()
    made.free_lane()
    assert taken(made) is None, "fewer rows than the batch that runs"
    made.arrive(whole=False)
    assert taken(made) is None, "their turn is open"
    made.add([part(5)])
    made.end_turn()
    assert taken(made) == ([3, 4, 5], Reason.AHEAD)


def test_one_batch_alone_goes_ahead() -> None:
    made = gatherer(part(0), busy=1, ahead=True)
    assert taken(made) == ([0], Reason.AHEAD)
    made.arrive(whole=False)
    made.add([part(1), part(2)])
    made.end_turn()
    assert taken(made) is None


def test_none_goes_ahead_of_rows_of_another_form_that_came_before() -> None:
    made = gatherer(*(part(number) for number in range(3)), busy=1, ahead=True)
    assert taken(made) == ([0, 1, 2], Reason.AHEAD)
    made.free_lane()
    for each in (part(3, form="b", since=1.0), part(4, rows=3, since=2.0)):
        made.arrive(whole=False)
        made.add([each])
    made.end_turn()
    assert taken(made) is None
    made.free_lane()
    assert taken(made) == ([3], Reason.OTHER_SHAPE)
    assert taken(made) == ([4], Reason.AHEAD)


def test_others_of_the_same_turn_go_together_at_its_end() -> None:
    made = gatherer()
    assert made.arrive()
    made.free_lane()  # inferred on the event loop
    for number in range(3):
        assert not made.arrive()
        made.add([part(number)])
    assert made.take(0.0) is None
    made.end_turn()
    assert taken(made) == ([0, 1, 2], Reason.LANE_FREE)


def test_after_a_turn_of_several_the_first_waits_for_the_end_of_its_turn() -> None:
    made = gatherer(part(0), part(1))
    made.take(0.0)
    made.free_lane()
    assert not made.arrive()
    made.add([part(2)])
    made.end_turn()
    assert taken(made) == ([2], Reason.LANE_FREE)
    made.free_lane()
    for number in range(CROWDED_TURNS - 1):
        assert not made.arrive()
        made.add([part(number)])
        made.end_turn()
        made.take(0.0)
        made.free_lane()
    assert made.arrive()


def test_a_brief_inference_starts_at_once_whatever_else_comes() -> None:
    made = gatherer(part(0), part(1))
    made.take(0.0)
    assert not made.arrive(brief=True)
    made.free_lane()
    made.end_turn()
    for _ in range(3 * WATCHED_EVERY):
        assert made.arrive(brief=True)
        made.free_lane()


def test_turns_of_those_that_go_at_once_are_watched_now_and_then() -> None:
    made = gatherer()
    watched = []
    for _ in range(2 * WATCHED_EVERY + 1):
        made.arrive()
        made.free_lane()
        watched.append(made.in_turn > 0)
        made.end_turn()
    assert [number for number, each in enumerate(watched) if each] == [
        0,
        WATCHED_EVERY,
        2 * WATCHED_EVERY,
    ]


def test_requests_gather_while_the_lane_is_busy() -> None:
    made = gatherer(part(0), part(1), busy=1)
    assert made.take(9.0) is None
    made.free_lane()
    assert taken(made, 9.0) == ([0, 1], Reason.LANE_FREE)


def test_a_full_batch_does_not_wait_for_the_end_of_the_turn() -> None:
    made = gatherer(rows=2)
    for number in range(3):
        made.arrive(whole=False)
        made.add([part(number)])
    assert taken(made) == ([0, 1], Reason.FULL)


def test_rows_are_counted_not_requests() -> None:
    made = gatherer(part(0, rows=5), part(1, rows=4), part(2, rows=3))
    assert taken(made) == ([0], Reason.FULL)
    made.free_lane()
    assert taken(made) == ([1, 2], Reason.LANE_FREE)


def test_without_a_time_limit_every_free_lane_takes_what_there_is() -> None:
    made = gatherer(part(0), busy=1, lanes=2)
    assert taken(made) == ([0], Reason.LANE_FREE)


def test_with_a_time_limit_a_second_lane_waits_for_more() -> None:
    made = gatherer(part(0, since=1.0), part(1, since=2.0), busy=1, lanes=2, timeout_s=5.0)
    assert made.take(5.9) is None
    assert made.due_at() == 6.0
    assert taken(made, 6.0) == ([0, 1], Reason.TIMEOUT)


def test_an_idle_model_waits_for_no_further_request_whatever_the_time_limit() -> None:
    made = gatherer(part(0), timeout_s=5.0)
    assert taken(made, 0.0) == ([0], Reason.LANE_FREE)


def test_a_lone_request_beside_a_busy_lane_waits_for_more_within_the_limit() -> None:
    assert not gatherer(busy=1, lanes=2, timeout_s=5.0).arrive()
    assert gatherer(busy=1, lanes=2).arrive()


def test_other_forms_never_share_a_batch_and_the_oldest_goes_first() -> None:
    made = gatherer(part(0, form="b", since=1.0), part(1, since=2.0), part(2, form="b", since=3.0))
    assert taken(made) == ([0, 2], Reason.OTHER_SHAPE)
    made.free_lane()
    assert taken(made) == ([1], Reason.LANE_FREE)


def test_rows_of_other_forms_count_for_what_waits_no_longer() -> None:
    waiting = [part(i, form=str(i % 4), since=float(i)) for i in range(8)]
    made = gatherer(*waiting, busy=1, lanes=2, timeout_s=100.0)
    assert taken(made, 8.0) == ([0, 4], Reason.OTHER_SHAPE)


def test_a_batch_is_cut_to_an_allowed_size_and_the_rest_waits() -> None:
    made = gatherer(*(part(i) for i in range(5)), sizes=(2, 4, 8))
    assert taken(made) == ([0, 1, 2, 3], Reason.ALLOWED_SIZE)
    made.free_lane()
    assert taken(made) == ([4], Reason.LANE_FREE)


def test_fewer_rows_than_the_smallest_size_go_all_the_same() -> None:
    made = gatherer(part(0), sizes=(4, 8))
    assert taken(made) == ([0], Reason.LANE_FREE)
    assert made.rules.size_for(1) == 4


def test_a_request_that_is_no_allowed_size_is_not_cut() -> None:
    made = gatherer(part(0, rows=3), part(1, rows=3), sizes=(1, 4, 8))
    assert taken(made) == ([0], Reason.ALLOWED_SIZE)


def test_parts_that_were_removed_are_in_no_batch() -> None:
    made = gatherer()
    parts = [part(i) for i in range(3)]
    made.arrive(whole=False)
    made.add(parts)
    made.end_turn()
    made.remove(parts[1])
    made.remove(parts[1])
    assert made.waiting == 2
    assert taken(made) == ([0, 2], Reason.LANE_FREE)
    made.remove(parts[0])
    assert made.waiting == 0


def test_beyond_the_limit_a_request_is_refused_and_changes_nothing() -> None:
    made = gatherer(part(0, rows=3), busy=1, most_waiting=4)
    with pytest.raises(QueueFull, match="3 rows wait, 4 may"):
        made.add([part(1, rows=2)])
    assert made.waiting == 3
    made.add([part(3)])
    made.free_lane()
    assert taken(made) == ([0, 3], Reason.LANE_FREE)


def test_a_request_of_more_rows_than_may_wait_is_taken_where_none_waits() -> None:
    made = gatherer(busy=1, most_waiting=4)
    made.add([part(0, rows=8), part(1, rows=8)])
    assert made.waiting == 16


def test_a_request_of_many_rows_leaves_room_for_small_ones() -> None:
    made = gatherer(busy=1, most_waiting=4)
    made.add([part(0, rows=8), part(1, rows=8)])
    made.add([part(2, rows=4)])
    with pytest.raises(QueueFull, match="4 rows wait, 4 may"):
        made.add([part(3)])
    with pytest.raises(QueueFull, match="16 rows wait, 4 may"):
        made.add([part(4), part(5)])
    sent = []
    while made.waiting:
        made.free_lane()
        sent.append(taken(made))
    assert sent == [([0], Reason.FULL), ([1], Reason.FULL), ([2], Reason.LANE_FREE)]
    assert made.pieces == 0


# -- any history ---------------------------------------------------------------------------------

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(1, 12), st.sampled_from("aab")),
        st.tuples(st.just("end_turn"), st.just(0), st.just("")),
        st.tuples(st.just("free_lane"), st.just(0), st.just("")),
        st.tuples(st.just("leave"), st.integers(0, 30), st.just("")),
        st.tuples(st.just("wait"), st.integers(1, 4), st.just("")),
    ),
    max_size=60,
)
RULES = st.builds(
    BatchRules,
    rows=st.just(8),
    lanes=st.integers(1, 3),
    timeout_s=st.sampled_from([0.0, 2.0]),
    sizes=st.sampled_from([NO_SIZES, (2, 8), (1, 3, 8)]),
    most_waiting=st.sampled_from([16, 1000]),
)


@dataclass
class History:
    """What happened, as a caller of the policy keeps it."""

    policy: Gatherer[int]
    now: float = 0.0
    waiting: list[WaitingRows[int]] = field(default_factory=list)
    sent: list[Batch[int]] = field(default_factory=list)
    running: int = 0
    number: int = 0

    def apply(self, event: str, amount: int, form: str) -> None:
        if event == "arrive":
            self._arrive(amount, form)
        elif event == "free_lane" and self.running:
            self.running -= 1
            self.policy.free_lane()
        elif event == "leave" and self.waiting:
            self.policy.remove(self.waiting.pop(amount % len(self.waiting)))
        elif event == "wait":
            self.now += amount
        elif event == "end_turn":
            self.policy.end_turn()
        self._send()

    def _arrive(self, rows: int, form: str) -> None:
        whole = rows <= 8 and self.policy.rules.size_for(rows) == rows
        if self.policy.arrive(whole=whole):
            assert whole
            assert not self.waiting
            self.running += 1
            return
        counts = [8] * (rows // 8) + [rows % 8] * (rows % 8 > 0)
        parts = [WaitingRows(self.number + i, n, form, self.now) for i, n in enumerate(counts)]
        before = self.policy.waiting
        try:
            self.policy.add(parts)
        except QueueFull:
            assert self.policy.waiting == before > 0
            return
        self.number += len(parts)
        self.waiting += parts

    def _send(self) -> None:
        while (batch := self.policy.take(self.now)) is not None:
            self.running += 1
            self.sent.append(batch)
            for each in batch.parts:
                self.waiting.remove(each)

    def check(self) -> None:
        policy, rules = self.policy, self.policy.rules
        assert policy.busy == self.running <= rules.lanes
        assert policy.waiting == sum(each.rows for each in self.waiting)
        assert policy.pieces == sum(each.rows for each in self.waiting if each.is_piece)
        if policy.in_turn or not self.waiting:
            return
        assert self.running, "an idle model waits for no further request"
        if self.running < rules.lanes:
            assert rules.timeout_s
            oldest = min(each.since for each in self.waiting)
            assert policy.due_at() == oldest + rules.timeout_s > self.now


@given(RULES, EVENTS)
def test_every_part_is_sent_once_in_order_within_the_limits(
    rules: BatchRules, events: list[tuple[str, int, str]]
) -> None:
    """Every part is sent once, in order, with its like, within the limits, or left before."""
    history = History(Gatherer(rules))
    for event in events:
        history.apply(*event)
        history.check()
    for batch in history.sent:
        assert 0 < batch.rows == sum(each.rows for each in batch.parts) <= rules.rows
        assert len({each.form for each in batch.parts}) == 1
    for form in "ab":
        order = [p.content for b in history.sent for p in b.parts if p.form == form]
        assert order == sorted(set(order))


@given(RULES, EVENTS)
def test_everything_is_sent_in_the_end(
    rules: BatchRules, events: list[tuple[str, int, str]]
) -> None:
    history = History(Gatherer(rules))
    for event in events:
        history.apply(*event)
    history.apply("end_turn", 0, "")
    while history.running:
        history.apply("free_lane", 0, "")
    assert not history.waiting
    assert history.policy.waiting == 0


@given(RULES, EVENTS)
def test_a_batch_that_is_due_is_taken_then(
    rules: BatchRules, events: list[tuple[str, int, str]]
) -> None:
    history = History(Gatherer(rules))
    for event in events:
        history.apply(*event)
    due = history.policy.due_at()
    if due is not None:
        assert history.policy.take(due) is not None
