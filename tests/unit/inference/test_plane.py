"""The data plane alone: an interface of its own, requests that are decoded already."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pytest

from ie_serving.core.runtime.budget import BUDGET, SMALL
from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import (
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    QueueFull,
    ServingError,
)
from ie_serving.core.values.requests import ExamplesRequest, InferRequest, ModelSpec, Task
from ie_serving.core.values.tensors import Array, Method, Signature
from ie_serving.inference.interface import (
    LARGE,
    LONG_TEXT,
    SHORT_TEXT,
    Api,
    Encode,
    Interface,
    UnencodedOutputs,
    unencoded,
)
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.metrics.text import SETTLED_AT
from tests.unit.inference.stand_ins import MODEL, Heart

PATIENCE_S = 10
X = np.array([[1.0, 2.0]], np.float32)


class Words:
    """An interface whose replies are lists; writes down what was bound, and where it encodes."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, ...]] = []
        self.threads: list[int] = []

    def encoders(
        self, servable: Servable, signature: Signature, outputs: Sequence[str]
    ) -> Mapping[object, Encode[Any]]:
        self.bound.append(tuple(outputs))
        return {"plain": self._encode, "rounded": lambda o: self._encode(o, round)}

    def _encode(
        self, outputs: Mapping[str, Array], change: Callable[[float], float] = float
    ) -> dict[str, list[float]]:
        self.threads.append(threading.get_ident())
        return {alias: [change(value) for value in array.flat] for alias, array in outputs.items()}

    def interface(self, **fields: Any) -> Interface[Any]:
        return Interface(
            entrypoint="TEST",
            labels={api: api.name.lower() for api in Api},
            encoders=self.encoders,
            unknown_signature=lambda servable, name: InvalidRequest(f"{servable.name}: no {name}"),
            **fields,
        )


def asked(x: Array = X, form: str = "plain", size: int = 0, **fields: Any) -> InferRequest:
    model = ModelSpec(MODEL)
    return InferRequest(model, "", lambda signature: ({"x": x}, form), size, **fields)


def examples(*rows: list[float], signature: str = "") -> ExamplesRequest:
    return ExamplesRequest(ModelSpec(MODEL), signature, lambda: [{"f": row} for row in rows], 0)


def now() -> float:
    return time.perf_counter()


async def test_the_reply_takes_the_form_that_decoding_found() -> None:
    words = Words()
    plane, interface = await Heart().plane(), words.interface()
    x = np.array([[0.75]], np.float32)
    assert await plane.predict(asked(x), interface, now()) == {"y": [1.75]}
    assert await plane.predict(asked(x, "rounded"), interface, now()) == {"y": [2]}


async def test_encoders_are_bound_once_for_a_version_and_an_interface() -> None:
    heart, words, others = Heart(), Words(), Words()
    plane, interface, other = await heart.plane(), words.interface(), others.interface()
    for _ in range(3):
        await plane.predict(asked(), interface, now())
        await plane.predict(asked(), other, now())
    assert words.bound == others.bound == [("y",)]


async def test_an_output_filter_is_bound_once() -> None:
    words = Words()
    plane, interface = await Heart().plane(), words.interface()
    for _ in range(2):
        await plane.predict(asked(output_filter=("y",)), interface, now())
    assert words.bound == [("y",), ("y",)]  # all outputs, and those of the filter


@pytest.mark.parametrize(
    ("dtype", "size", "at_once", "apart"),
    [
        pytest.param(np.float32, LARGE - 1, "never", False, id="small"),
        pytest.param(np.float32, LARGE, "never", True, id="large"),
        pytest.param(np.float32, LARGE, "not this one", True, id="large, and slow"),
        pytest.param(np.float32, LARGE, "yes", False, id="large, but quick"),
        pytest.param(np.float64, LARGE, "yes", True, id="large, to be cast"),
    ],
)
async def test_large_requests_are_decoded_and_cast_in_a_thread(
    dtype: type, size: int, at_once: str, apart: bool
) -> None:
    threads: list[int] = []

    def decode(signature: Signature) -> tuple[Mapping[str, Array], object]:
        threads.append(threading.get_ident())
        return {"x": X.astype(dtype)}, "plain"

    quick = {"never": None, "not this one": lambda _: None, "yes": decode}[at_once]
    request = InferRequest(ModelSpec(MODEL), "", decode, size, quick)
    plane = await Heart().plane()
    assert await plane.predict(request, Words().interface(), now()) == {"y": [2, 3]}
    assert (threads[-1] != threading.get_ident()) is apart


@pytest.mark.parametrize(("elements", "apart"), [(3, False), (4, True)])
async def test_large_replies_are_encoded_in_a_thread(elements: int, apart: bool) -> None:
    words = Words()
    plane, x = await Heart().plane(), np.zeros((1, elements), np.float32)
    reply = await plane.predict(asked(x), words.interface(large_reply=4), now())
    assert reply == {"y": [1.0] * elements}
    assert (words.threads != [threading.get_ident()]) is apart


async def test_outputs_that_wait_to_be_encoded_are_counted_with_their_text() -> None:
    heart = Heart()
    plane, interface = await heart.plane(), Words().interface(large_reply=4)
    x = np.zeros((1, SMALL), np.float32)
    held = BUDGET.held
    reply = await plane.replay_predict(heart.servable, asked(x), interface)
    assert isinstance(reply, UnencodedOutputs)
    assert BUDGET.held - held == x.nbytes + x.size * SHORT_TEXT
    del reply
    assert BUDGET.held == held


@pytest.mark.parametrize(
    ("longest", "text"),
    [
        pytest.param(np.float32(-1.1754944e-38), SHORT_TEXT, id="float32"),
        pytest.param(np.int32(-(2**31)), SHORT_TEXT, id="int32"),
        pytest.param(np.float64(-2.2250738585072014e-308), LONG_TEXT, id="float64"),
        pytest.param(np.int64(-(2**63)), LONG_TEXT, id="int64"),
    ],
)
def test_the_bytes_that_are_counted_for_text_are_enough(longest: np.generic, text: int) -> None:
    written = orjson.dumps(np.array([longest]), option=orjson.OPT_SERIALIZE_NUMPY)
    assert len(written[1:-1] + b",") <= text
    held, values = BUDGET.held, np.full(SMALL, longest)
    reply = unencoded(lambda outputs: None, {"y": values})
    assert BUDGET.held - held == values.nbytes + values.size * text
    del reply


async def test_outputs_that_are_too_many_to_wait_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = Words()
    plane, x = await Heart().plane(), np.zeros((1, SMALL), np.float32)
    others = BUDGET.lease(x.size)
    monkeypatch.setattr(BUDGET, "limit", BUDGET.held + x.nbytes + x.size * SHORT_TEXT - 1)
    with pytest.raises(QueueFull):
        await plane.predict(asked(x), words.interface(large_reply=4), now())
    assert words.threads == []
    others.release()


async def test_a_large_reply_that_cannot_be_is_refused_while_its_inference_can_fail() -> None:
    """Before a sequence would move on: what is encoded in a thread is too late for that."""
    heart, words = Heart(), Words()
    plane = await heart.plane()
    seen: list[object] = []

    def refuse(form: object, outputs: Mapping[str, Array]) -> None:
        seen.append((form, list(outputs)))
        raise InvalidRequest("no rows")

    interface = words.interface(large_reply=2, check_large=refuse)
    with pytest.raises(InvalidRequest, match="no rows"):
        await plane.predict(asked(np.zeros((1, 2), np.float32)), interface, now())
    await plane.predict(asked(np.zeros((1, 1), np.float32)), interface, now())
    assert seen == [("plain", ["y"])]


async def test_a_version_is_held_until_its_reply_is_there() -> None:
    heart = Heart()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        begun.set()
        await go_on.wait()

    heart.engine.before_infer = wait
    plane = await heart.plane()
    task = asyncio.create_task(plane.predict(asked(), Words().interface(), now()))
    await asyncio.wait_for(begun.wait(), PATIENCE_S)
    assert heart.servable.holders == 1
    drained = asyncio.create_task(heart.servable.drained(PATIENCE_S))
    await asyncio.sleep(0)
    assert not drained.done()
    go_on.set()
    assert await asyncio.wait_for(drained, PATIENCE_S)
    await task


@pytest.mark.parametrize("error", [ServingError("no"), ZeroDivisionError(), asyncio.CancelledError])
async def test_a_version_is_given_back_whatever_happens(error: Any) -> None:
    heart = Heart()

    async def fail() -> None:
        raise error

    heart.engine.before_infer = fail
    plane = await heart.plane()
    with pytest.raises(error if isinstance(error, type) else type(error)):
        await plane.predict(asked(), Words().interface(), now())
    assert heart.servable.holders == 0


async def test_the_limit_covers_each_kind_of_inference() -> None:
    heart = Heart()
    heart.engine.before_infer = lambda: asyncio.Event().wait()  # type: ignore[assignment]
    plane, interface = await heart.plane(), Words().interface(limit_s=0)
    task = Task(ModelSpec(MODEL, signature="classify"), Method.CLASSIFY.value)
    for work in (
        plane.predict(asked(), interface, now()),
        plane.classify(examples([1.0], signature="classify"), interface, now(), id),
        plane.regress(examples([1.0], signature="regress"), interface, now(), id),
        plane.multi_inference(examples([1.0]), [task], interface, now(), id),
    ):
        with pytest.raises(DeadlineExceeded, match="longer than the limit of 0 s"):
            await asyncio.wait_for(work, PATIENCE_S)
    assert heart.counted() == ['{model_name="m",status="DEADLINE_EXCEEDED"} 4']


@pytest.mark.parametrize(
    ("said", "status"),
    [
        pytest.param((), "CANCELLED", id="its client has left"),
        pytest.param((Code.DEADLINE_EXCEEDED,), "DEADLINE_EXCEEDED", id="at its client's deadline"),
    ],
)
async def test_a_cancelled_request_is_counted_by_the_cause_of_its_canceller(
    said: tuple[Code, ...], status: str
) -> None:
    heart = Heart()
    heart.engine.before_infer = lambda: asyncio.Event().wait()  # type: ignore[assignment]
    plane, interface = await heart.plane(), Words().interface(limit_s=PATIENCE_S)
    for work in (
        plane.predict(asked(), interface, now()),
        plane.classify(examples([1.0], signature="classify"), interface, now(), id),
    ):
        task = asyncio.create_task(work)
        await asyncio.sleep(0)
        task.cancel(*said)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE_S)
    assert heart.counted() == [f'{{model_name="m",status="{status}"}} 2']


async def test_everything_that_is_asked_is_counted_and_timed() -> None:
    heart = Heart()
    plane, interface = await heart.plane(), Words().interface()
    task = Task(ModelSpec(MODEL, signature="classify"), Method.CLASSIFY.value)
    await plane.predict(asked(), interface, now())
    await plane.classify(examples([1.0], signature="classify"), interface, now(), id)
    await plane.regress(examples([1.0], signature="regress"), interface, now(), id)
    await plane.multi_inference(examples([1.0]), [task], interface, now(), id)
    await plane.metadata(ModelSpec(MODEL), interface, now(), id)
    plane.status(ModelSpec(MODEL, label="stable"), interface, now(), id)
    assert heart.counted() == ['{model_name="m",status="OK"} 6']
    assert heart.timed() == [
        f'{{model_name="m",API="{api}",entrypoint="TEST"}} 1'
        for api in ("predict", "classify", "regress", "multi_inference", "metadata", "status")
    ]


async def test_a_failure_is_counted_by_its_code_and_is_not_timed() -> None:
    heart = Heart()
    plane, interface = await heart.plane(), Words().interface()
    with pytest.raises(NotFound):
        await plane.metadata(ModelSpec(MODEL, version=9), interface, now(), id)
    with pytest.raises(NotFound):
        plane.status(ModelSpec("made up"), interface, now(), id)
    with pytest.raises(InvalidRequest):
        await plane.classify(examples([1.0], signature="none"), interface, now(), id)
    assert heart.counted() == [
        '{model_name="m",status="NOT_FOUND"} 1',
        '{model_name="m",status="INVALID_ARGUMENT"} 1',
        '{model_name="made up",status="NOT_FOUND"} 1',
    ]
    assert heart.timed() == []


async def test_a_request_is_accepted_before_its_model_answers_or_fails() -> None:
    """As in OpenVINO Model Server: the metric of a graph's requests."""
    heart, begun = Heart(), []

    async def fail() -> None:
        (served,) = heart.metrics.of(MODEL).requests.served.values()
        begun.append(served.begun)
        raise ServingError("no")

    heart.engine.before_infer = fail
    plane, interface = await heart.plane(), Words().interface()
    for _ in range(SETTLED_AT + 1):
        with pytest.raises(ServingError):
            await plane.predict(asked(), interface, now())
    assert begun == list(range(1, SETTLED_AT + 2))
    (served,) = heart.metrics.of(MODEL).requests.served.values()
    assert len(served.decoded) <= SETTLED_AT  # what fails for ever takes no memory


async def test_a_replay_counts_nothing_and_binds_what_requests_will_use() -> None:
    heart, words = Heart(), Words()
    plane, interface = await heart.plane(), words.interface()
    await plane.replay_predict(heart.servable, asked(), interface)
    task = Task(ModelSpec("", signature="classify"), Method.CLASSIFY.value)
    await plane.replay_examples(heart.servable, examples([1.0]), [task])
    assert heart.counted() == heart.timed() == []
    await plane.predict(asked(), interface, now())
    assert words.bound == [("y",)]
    assert heart.counted() == ['{model_name="m",status="OK"} 1']
    (served,) = heart.metrics.of(MODEL).requests.served.values()
    assert [len(each) for _, each in served.stages] == [1, 1]
