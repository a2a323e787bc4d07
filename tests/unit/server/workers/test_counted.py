"""The sum of all workers does not fall when one of them dies, and counts nobody twice."""

from collections.abc import Mapping

from ie_serving.server.process.handover import Handover
from ie_serving.server.workers.counted import KEPT, Counted, Counts
from ie_serving.server.workers.crew import Crew


def told(born: int, a: float, when: int = 0) -> Counts:
    return Counts(born, when, {"a": a})


def total(found: Mapping[int, Counts], gone: Mapping[str, float]) -> float:
    """What the page shows."""
    return sum(each.numbers["a"] for each in found.values()) + gone.get("a", 0)


async def test_a_dead_worker_stays_counted_before_and_after_its_replacement() -> None:
    counted = Counted(Crew(2, Handover), int)
    assert await counted.of_the_gone({0: told(10, 3), 1: told(11, 5)}) == {}
    assert await counted.of_the_gone({0: told(10, 4)}) == {"a": 5}
    assert await counted.of_the_gone({0: told(10, 4), 1: told(12, 1)}) == {"a": 5}
    assert await counted.of_the_gone({0: Counts(13, 0, {}), 1: told(12, 2)}) == {"a": 9}


async def test_any_worker_may_be_asked_next() -> None:
    crew = Crew(2, Handover)
    await Counted(crew, int).of_the_gone({0: told(10, 3)})
    assert await Counted(crew, int).of_the_gone({0: Counts(11, 0, {"b": 1})}) == {"a": 3}
    assert await Counted(crew, int).of_the_gone({0: Counts(12, 0, {})}) == {"a": 3, "b": 1}


async def test_a_page_that_comes_after_that_of_the_replacement_counts_nobody_twice() -> None:
    """Two read at once: one has heard the worker that died, the other one its replacement."""
    counted = Counted(Crew(1, Handover), int)
    slow, quick = {0: told(10, 5)}, {0: told(12, 1)}
    await counted.of_the_gone({0: told(10, 4)})
    assert total(quick, await counted.of_the_gone(quick)) == 4 + 1
    assert total(slow, await counted.of_the_gone(slow)) == 5 + 1
    assert total(quick, await counted.of_the_gone(quick)) == 5 + 1


async def test_a_page_that_comes_late_takes_nothing_back() -> None:
    counted = Counted(Crew(2, Handover), int)
    await counted.of_the_gone({0: told(10, 7, when=2)})
    await counted.of_the_gone({0: told(10, 6, when=1)})
    assert await counted.of_the_gone({1: told(11, 0)}) == {"a": 7}


async def test_however_many_have_died() -> None:
    counted = Counted(Crew(1, Handover), int)
    for born in range(3 * KEPT):
        gone = await counted.of_the_gone({0: told(born, 1)})
    assert gone == {"a": 3 * KEPT - 1}
