"""What a client sees of batching, with a model that the test holds."""

import asyncio
import gc
import re
import weakref
from collections.abc import Iterable

import numpy as np
import pytest

from ie_serving.core.runtime.budget import BUDGET, SMALL
from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, QueueFull
from ie_serving.engines.layers.gathering import BatchRules
from ie_serving.engines.layers.queue import Queue
from ie_serving.telemetry.log import logs
from tests.unit.engines.layers.models import REFUSED, Asked, Model, signature

WAIT_S = 20.0


async def answers(tasks: "Iterable[asyncio.Task[list[float]]]") -> list[object]:
    return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), WAIT_S)


async def turns(number: int = 3) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def held(**rules: object) -> Asked:
    """Give a queue whose one lane is taken by a first request, which the model holds."""
    model = Model()
    model.open.clear()
    asked = Asked(model, **rules)
    asked.ask(0.0)
    await asyncio.wait_for(model.begun.wait(), WAIT_S)
    await turns()
    return asked


async def released(asked: Asked, tasks: "Iterable[asyncio.Task[list[float]]]") -> list[object]:
    """Let the model go on once these requests wait, and give their answers."""
    await turns()
    asked.model.open.set()
    return await answers(tasks)


async def test_a_lone_request_is_inferred_without_a_turn_of_the_loop() -> None:
    asked = Asked(Model())
    work = asked.queue.infer({"x": np.ones((2, 1), np.float32)}, lambda o: o["y"].tolist())
    with pytest.raises(StopIteration) as ended:
        work.send(None)
    assert ended.value.value == [[2.0], [2.0]]
    assert asked.record.sent == [("alone", 2)]


async def test_requests_gather_while_the_lane_is_busy_and_each_gets_its_rows() -> None:
    asked = await held()
    tasks = [asked.ask(1.0), asked.ask(2.0, 3.0), asked.ask(4.0)]
    await turns()
    assert asked.model.batches == [1]
    asked.model.open.set()
    assert await answers(tasks) == [[2.0], [3.0, 4.0], [5.0]]
    assert asked.model.batches == [1, 4]
    assert asked.record.sent[1:] == [("lane_free", 4)]


@pytest.mark.parametrize("gathered", [False, True])
async def test_the_engine_is_told_which_inferences_are_of_several_requests(gathered: bool) -> None:
    asked = await held()
    tasks = [asked.ask(1.0), asked.ask(2.0)] if gathered else [asked.ask(1.0, 2.0)]
    await released(asked, tasks)
    assert asked.model.batches == [1, 2]
    assert asked.model.gathered == [False, gathered]


async def test_a_batch_is_given_to_an_engine_that_takes_it_while_it_infers() -> None:
    asked = await held(ahead=True)
    tasks = [asked.ask(1.0), asked.ask(2.0)]
    await turns()
    assert asked.model.batches == [1, 2]
    assert asked.record.sent[1:] == [("ahead", 2)]
    asked.model.open.set()
    assert await answers(tasks) == [[2.0], [3.0]]


async def test_those_that_are_read_together_go_together() -> None:
    asked = Asked(Model(), rows=100)
    tasks = [asked.ask(float(i)) for i in range(10)]
    assert await answers(tasks) == [[i + 1.0] for i in range(10)]
    assert asked.model.batches == [1, 9]
    tasks = [asked.ask(float(i)) for i in range(10)]
    assert await answers(tasks) == [[i + 1.0] for i in range(10)]
    assert asked.model.batches == [1, 9, 10]


async def test_a_full_batch_is_sent_in_two() -> None:
    asked = await held(rows=4)
    tasks = [asked.ask(float(i)) for i in range(6)]
    assert await released(asked, tasks) == [[i + 1.0] for i in range(6)]
    assert asked.record.sent[1:] == [("full", 4), ("lane_free", 2)]


async def test_a_large_request_is_split_and_its_answer_joined() -> None:
    asked = Asked(Model(), rows=4)
    assert await answers([asked.ask(*map(float, range(10)))]) == [[i + 1.0 for i in range(10)]]
    assert asked.model.batches == [4, 4, 2]


async def test_a_request_beyond_its_own_limit_is_refused() -> None:
    asked = Asked(Model(), rows=4, most_rows=8)
    (refused,) = await answers([asked.ask(*[0.0] * 9)])
    assert isinstance(refused, InvalidRequest)
    assert "Task size 9 is larger than maximum input batch size 8" in str(refused)
    assert await answers([asked.ask(*[0.0] * 8)]) == [[1.0] * 8]


async def test_batches_are_filled_up_to_an_allowed_size() -> None:
    asked = Asked(Model(), sizes=(2, 8))
    assert await answers([asked.ask(0.0)]) == [[1.0]]
    assert await answers([asked.ask(0.0, 1.0)]) == [[1.0, 2.0]]
    assert await answers([asked.ask(0.0, 1.0, 2.0)]) == [[1.0, 2.0, 3.0]]
    assert asked.model.batches == [2, 2, 8]


@pytest.mark.parametrize("bad", [0, 3, 4])
async def test_a_bad_request_fails_alone(bad: int) -> None:
    asked = await held()
    values = [float(i) for i in range(5)]
    values[bad] = REFUSED
    tasks = [asked.ask(each) for each in values]
    found = await released(asked, tasks)
    assert isinstance(found.pop(bad), InvalidTensor)
    assert found == [[value + 1.0] for value in values if value != REFUSED]
    assert asked.record.failed > 0


async def test_bad_requests_alone_each_get_their_error() -> None:
    asked = await held()
    tasks = [asked.ask(REFUSED) for _ in range(3)]
    assert all(isinstance(each, InvalidTensor) for each in await released(asked, tasks))
    assert asked.model.batches == [1, 3, 1, 2, 1, 1]
    assert await answers([asked.ask(1.0)]) == [[2.0]]


async def test_a_bad_piece_fails_its_request_and_no_other() -> None:
    asked = await held(rows=2)
    tasks = [asked.ask(1.0, 2.0, REFUSED, REFUSED, REFUSED), asked.ask(3.0)]
    refused, fine = await released(asked, tasks)
    assert isinstance(refused, InvalidTensor)
    assert fine == [4.0]


async def test_other_shapes_never_share_a_batch() -> None:
    asked = await held()
    tasks = [asked.ask(float(i), width=1 + i % 2) for i in range(6)]
    assert await released(asked, tasks) == [[i + 1.0] for i in range(6)]
    assert asked.record.sent[1:] == [("other_shape", 3), ("lane_free", 3)]


async def test_a_full_queue_refuses_and_serves_on() -> None:
    asked = await held(most_waiting=3)
    tasks = [asked.ask(float(i)) for i in range(5)]
    found = await released(asked, tasks)
    assert found[:3] == [[1.0], [2.0], [3.0]]
    assert all(isinstance(each, QueueFull) for each in found[3:])


async def test_a_request_that_is_cancelled_while_it_waits_costs_no_inference() -> None:
    asked = await held()
    tasks = [asked.ask(float(i)) for i in range(4)]
    await turns()
    tasks[1].cancel()
    tasks[2].cancel()
    found = await released(asked, tasks)
    assert [found[0], found[3]] == [[1.0], [4.0]]
    assert asked.model.batches == [1, 2]


async def test_a_request_that_is_cancelled_as_its_batch_is_sent_costs_no_inference() -> None:
    asked = Asked(Model())
    tasks = [asked.ask(float(i)) for i in range(4)]
    await turns(2)  # the batch has been made, and its task has not begun
    for each in tasks[1:3]:
        each.cancel()
    found = await answers(tasks)
    assert [found[0], found[3]] == [[1.0], [4.0]]
    assert asked.model.batches == [1, 1]


async def test_a_batch_whose_clients_have_left_is_cancelled() -> None:
    model = Model()
    asked = Asked(model, lanes=2)
    tasks = [asked.ask(float(i)) for i in range(3)]
    model.open.clear()
    await turns(6)
    for each in tasks:
        each.cancel()
    await answers(tasks)
    await turns()
    assert model.cancelled == 2  # the first, which went alone, and the batch
    model.open.set()
    assert await answers([asked.ask(1.0)]) == [[2.0]]


async def test_cancelled_pieces_leave_the_queue() -> None:
    asked = await held(rows=2)
    task = asked.ask(*[0.0] * 6)
    await turns()
    task.cancel()
    await answers([task])
    asked.model.open.set()
    assert await answers([asked.ask(5.0)]) == [[6.0]]
    assert sum(asked.model.batches) == 2


@pytest.mark.parametrize("count", [0, 1, 2, 5])
async def test_any_moment_of_cancelling_leaves_the_queue_serving(count: int) -> None:
    asked = Asked(Model(), rows=3)
    for ticks in range(8):
        tasks = [asked.ask(float(i)) for i in range(count + 3)]
        await turns(ticks)
        for each in tasks[: count + 1]:
            each.cancel()
        found = await answers(tasks)
        assert found[count + 1 :] == [[i + 1.0] for i in range(count + 1, count + 3)]


async def test_with_a_second_lane_requests_wait_for_the_time_limit() -> None:
    asked = await held(lanes=2, timeout_s=0.01)
    tasks = [asked.ask(1.0), asked.ask(2.0)]

    async def second() -> None:
        while len(asked.model.batches) < 2:
            await asyncio.sleep(0)

    await asyncio.wait_for(second(), WAIT_S)
    assert asked.record.sent[1:] == [("timeout", 2)]
    asked.model.open.set()
    assert await answers(tasks) == [[2.0], [3.0]]


async def test_inputs_without_rows_in_common_are_the_models_to_judge() -> None:
    asked = Asked(Model())
    assert await answers([asked.ask()]) == [[]]
    assert asked.model.batches == [0]
    assert asked.record.sent == []


async def test_a_model_that_loses_rows_is_asked_one_by_one_from_then_on() -> None:
    model = Model(lambda x: x.sum(axis=0, keepdims=True))
    asked = Asked(model)
    tasks = [asked.ask(float(i)) for i in range(4)]
    assert await answers(tasks) == [[0.0], [1.0], [2.0], [3.0]]
    tasks = [asked.ask(float(i)) for i in range(4)]
    before = len(model.batches)
    assert await answers(tasks) == [[0.0], [1.0], [2.0], [3.0]]
    assert model.batches[before:] == [1, 1, 1, 1]


async def test_large_inputs_are_joined_beside_the_event_loop() -> None:
    asked = await held()
    tasks = [asked.ask(float(i), width=200_000) for i in range(3)]
    assert await released(asked, tasks) == [[1.0], [2.0], [3.0]]
    assert asked.model.batches == [1, 3]


async def test_an_exception_of_read_is_its_own_requests_error() -> None:
    asked = await held()

    def refuse(outputs: object) -> None:
        raise ValueError("refused")

    x = np.zeros((1, 1), np.float32)
    refused = asyncio.ensure_future(asked.queue.infer({"x": x}, refuse))
    fine = asked.ask(1.0)
    await turns()
    asked.model.open.set()
    assert await answers([fine]) == [[2.0]]
    with pytest.raises(ValueError, match="refused"):
        await refused


async def test_requests_for_an_idle_model_that_is_faster_than_gathering_go_at_once() -> None:
    asked = Asked(Model())
    asked.queue = Queue(
        asked.model, signature(-1, -1), BatchRules(rows=8), asked.record, brief_s=WAIT_S
    )
    tasks = [asked.ask(float(i)) for i in range(20)]
    assert await answers(tasks) == [[i + 1.0] for i in range(20)]
    assert asked.record.sent == [("alone", 1)] * 20


async def test_a_batch_beyond_the_budget_is_inferred_in_parts_that_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = await held()
    width = SMALL // 4
    tasks = [asked.ask(float(i), width=width) for i in range(4)]
    await turns()
    gc.collect()
    # Room for the inputs and outputs of two rows beside the outputs of two others, not of four.
    monkeypatch.setattr(BUDGET, "limit", BUDGET.held + 6 * SMALL)
    asked.model.open.set()
    assert await answers(tasks) == [[1.0], [2.0], [3.0], [4.0]]
    assert asked.model.batches == [1, 4, 2, 2]


@pytest.mark.parametrize("how", ["answered", "refused", "left", "left while it ran"])
async def test_nothing_of_a_request_waits_for_the_garbage_collector(how: str) -> None:
    """An error refers to the frames that it went through, and they to what the request holds."""
    asked = await held(lanes=2 if how == "left while it ran" else 1)
    inputs = [np.full((1, 1), REFUSED if how == "refused" else 1.0, np.float32) for _ in range(2)]
    gone = [weakref.ref(each) for each in inputs]
    infer = asked.queue.infer
    # Of one turn: with a second lane they are one batch, which begins.
    tasks = [asyncio.create_task(infer({"x": each}, lambda o: o["y"].tolist())) for each in inputs]
    await turns()
    inputs.clear()
    gc.disable()
    try:
        if how in ("answered", "refused"):
            asked.model.open.set()
        else:
            for each in tasks:
                each.cancel()
        await asyncio.wait(tasks, timeout=WAIT_S)
        assert all(each.done() for each in tasks)
        for each in tasks:
            assert each.cancelled() == how.startswith("left")
            assert each.cancelled() or (each.exception() is None) == (how == "answered")
        tasks.clear()
        del each
        await turns(6)
        assert [each() for each in gone] == [None, None]
    finally:
        gc.enable()
        asked.model.open.set()


async def test_the_end_of_batching_names_model_and_version(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with logs.about(model="m", version=7):
        asked = Asked(Model(lambda x: x.sum(axis=0, keepdims=True)))
    await answers(asked.ask(float(number)) for number in range(4))
    (line,) = [each for each in caplog.messages if each.startswith("batching stopped ")]
    assert re.search(r"signature=serving_default cause=.* model=m version=7$", line)
