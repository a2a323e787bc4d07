"""The sum of all workers does not fall when one of them dies, and counts no worker twice."""

from ie_serving.core.runtime.handover import Handover
from ie_serving.server.workers.crew import CounterStore, Crew


def test_a_dead_worker_stays_counted_before_and_after_its_replacement() -> None:
    crew = Crew(2, Handover)
    first, second = CounterStore(crew, 0), CounterStore(crew, 1)
    first.store({"a": 3})
    second.store({"a": 5})
    assert first.of_the_gone({0: first.before, 1: second.before}) == {}
    assert first.of_the_gone({0: first.before}) == {"a": 5}
    replacement = CounterStore(crew, 1)
    assert first.of_the_gone({0: first.before, 1: replacement.before}) == {"a": 5}
    replacement.store({"a": 1, "b": 2})
    assert first.of_the_gone({0: first.before}) == {"a": 6, "b": 2}


def test_any_worker_may_be_asked_next() -> None:
    crew = Crew(2, Handover)
    CounterStore(crew, 0).store({"a": 3})
    other = CounterStore(crew, 1)
    assert other.of_the_gone({1: other.before}) == {"a": 3}


def test_a_page_that_comes_after_that_of_the_replacement_counts_no_worker_twice() -> None:
    """Two are read at once: one has heard the worker that died, the other one its replacement."""
    crew = Crew(1, Handover)
    dying = CounterStore(crew, 0)
    dying.store({"a": 5})
    replacement = CounterStore(crew, 0)
    replacement.store({"a": 1})
    assert dying.of_the_gone({0: dying.before}) == {}, "its own 5 are on its page"
    assert replacement.of_the_gone({0: replacement.before}) == {"a": 5}


def test_however_many_have_died() -> None:
    crew = Crew(1, Handover)
    for dead in range(12):
        worker = CounterStore(crew, 0)
        assert worker.of_the_gone({0: worker.before}).get("a", 0) == dead
        worker.store({"a": 1})
