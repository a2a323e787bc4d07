"""Requests whose parsing takes long by what they hold do not hold the event loop: a task waits."""

import asyncio
import json
from typing import Any

import pytest

from ie_serving.core.runtime.eager_start import begin
from ie_serving.core.values.requests import ExamplesRequest, ModelSpec
from ie_serving.inference.interface import MANY_EXAMPLES, decode_examples
from ie_serving.server.fronts.tfs import rest
from ie_serving.server.fronts.tfs.prediction_service import (
    LARGE_MESSAGE,
    PredictionService,
    grpc_interface,
)
from ie_serving.server.transport.http1.messages import Request, RequestHead
from ie_serving.wire.json.request import LARGE_UNSTRICT
from ie_serving.wire.protobuf import messages
from ie_serving.wire.tfs.predict import LARGE
from tests.unit.inference.stand_ins import Heart
from tests.unit.server.fronts.tfs.interfaces import Rest

PATIENCE_S = 20.0


async def waits(work: Any) -> bool:
    """Run `work`, whatever comes of it; tell whether it left the event loop."""

    async def run() -> None:
        try:
            await work
        except Exception as error:
            failed.append(error)

    failed: list[Exception] = []
    task = begin(run())
    if task:
        await asyncio.wait_for(task, PATIENCE_S)
    return task is not None


@pytest.mark.parametrize(
    ("verb", "unit", "size", "apart"),
    [
        pytest.param("predict", b"[NaN,", LARGE_UNSTRICT - 9, False, id="small, not strict"),
        pytest.param("predict", b"[NaN,", LARGE_UNSTRICT + 1, True, id="not strict"),
        pytest.param("predict", b'{"a":', LARGE_UNSTRICT + 1, True, id="cut short"),
        pytest.param("classify", b" ", rest.LARGE_EXAMPLES_BODY - 1, False, id="small Examples"),
        pytest.param("classify", b" ", rest.LARGE_EXAMPLES_BODY, True, id="Examples"),
    ],
)
async def test_rest_bodies(verb: str, unit: bytes, size: int, apart: bool) -> None:
    begun = b'{"instances": '
    body = (begun + unit * (size // len(unit) + 1))[:size]
    assert await waits_for_rest(verb, body) is apart


@pytest.mark.parametrize(
    ("body", "apart"),
    [
        pytest.param({"instances": [[0.5] * 10_000]}, False, id="numbers"),
        pytest.param({"inputs": {"x": [[0.5] * 10_000]}}, False, id="named numbers"),
        pytest.param({"instances": [[0.5]] * 10_000}, True, id="numbers in many lists"),
        pytest.param({"instances": [{"x": [0.5]}] * 5_000}, True, id="rows that are objects"),
        pytest.param({"instances": [["a" * 40_000]]}, True, id="no numbers"),
        pytest.param({str(key): key for key in range(5_000)}, True, id="many keys"),
        pytest.param({"instances": [[0.5] * 300_000]}, True, id="a megabyte of numbers"),
    ],
)
async def test_large_rest_bodies(body: Any, apart: bool) -> None:
    assert await waits_for_rest("predict", json.dumps(body).encode()) is apart


async def waits_for_rest(verb: str, body: bytes) -> bool:
    path = f"/v1/models/m:{verb}".encode()
    head = RequestHead("POST", path, b"", "1.1", (), {}, len(body), True, False)
    api = Rest(await Heart().plane(), limit_s=1).api
    return await waits(api.answer(Request(head, body)))


@pytest.mark.parametrize(
    ("method", "kind", "size", "apart"),
    [
        pytest.param(
            "Classify",
            messages.ClassificationRequest,
            LARGE_MESSAGE - 100,
            False,
            id="a small Classify",
        ),
        pytest.param(
            "Classify", messages.ClassificationRequest, LARGE_MESSAGE, True, id="a large Classify"
        ),
        pytest.param(
            "Regress", messages.RegressionRequest, LARGE_MESSAGE, True, id="a large Regress"
        ),
        pytest.param(
            "MultiInference",
            messages.MultiInferenceRequest,
            LARGE_MESSAGE,
            True,
            id="a large MultiInference",
        ),
        pytest.param("Predict", messages.PredictRequest, LARGE, True, id="a large Predict"),
    ],
)
async def test_large_grpc_messages_are_parsed_in_a_thread(
    method: str, kind: Any, size: int, apart: bool
) -> None:
    """Of unknown fields: too many for the walk of a Predict."""
    service = PredictionService(
        await Heart().plane(), grpc_interface(tensor_content=True, limit_s=None)
    )
    payload = b"\xf8\x01\x00" * (size // 3 + 1)
    assert await waits(service.handlers()[method](payload, None)) is apart


@pytest.mark.parametrize(("count", "apart"), [(MANY_EXAMPLES - 1, False), (MANY_EXAMPLES, True)])
async def test_many_examples_are_decoded_in_a_thread(count: int, apart: bool) -> None:
    """Read after their message has been parsed, which takes less time for each."""
    asked = ExamplesRequest(ModelSpec("m"), "", list, count)
    assert await waits(decode_examples(asked)) is apart
