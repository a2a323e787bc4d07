"""The sum of all workers does not fall when one of them dies."""

from ie_serving.server.process.handover import Handover
from ie_serving.server.workers.counted import Counted, Counts
from ie_serving.server.workers.crew import Crew


async def test_a_dead_worker_stays_counted_before_and_after_its_replacement() -> None:
    counted = Counted(Crew(2, Handover))
    assert await counted.of_the_gone({0: Counts(10, {"a": 3}), 1: Counts(11, {"a": 5})}) == {}
    assert await counted.of_the_gone({0: Counts(10, {"a": 4})}) == {"a": 5}
    assert await counted.of_the_gone({0: Counts(10, {"a": 4}), 1: Counts(12, {"a": 1})}) == {"a": 5}
    assert await counted.of_the_gone({0: Counts(13, {}), 1: Counts(12, {"a": 2})}) == {"a": 9}


async def test_any_worker_may_be_asked_next() -> None:
    crew = Crew(2, Handover)
    await Counted(crew).of_the_gone({0: Counts(10, {"a": 3})})
    assert await Counted(crew).of_the_gone({0: Counts(11, {"b": 1})}) == {"a": 3}
    assert await Counted(crew).of_the_gone({0: Counts(12, {})}) == {"a": 3, "b": 1}
