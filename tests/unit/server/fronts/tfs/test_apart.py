"""Requests whose parsing takes long by what they hold do not hold the event loop: a task waits."""

import asyncio
from typing import Any

import pytest

from ie_serving.inference.plane import LARGE_EXAMPLES
from ie_serving.server.fronts.admin.health import Health
from ie_serving.server.fronts.tfs import rest
from ie_serving.server.fronts.tfs.prediction_service import (
    LARGE_MESSAGE,
    PredictionService,
    grpc_interface,
)
from ie_serving.server.fronts.tfs.rest import RestApi, rest_interface
from ie_serving.server.transport.eager import begin
from ie_serving.server.transport.http1.messages import Request, RequestHead
from ie_serving.telemetry.metrics import Metrics
from ie_serving.wire.protobuf import messages
from ie_serving.wire.tfs.predict import LARGE
from tests.unit.inference.stand_ins import Heart

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
        pytest.param("predict", b"[NaN,", rest.LARGE_UNSTRICT - 9, False, id="small, not strict"),
        pytest.param("predict", b"[NaN,", rest.LARGE_UNSTRICT + 1, True, id="not strict"),
        pytest.param("predict", b'{"a":', rest.LARGE_UNSTRICT + 1, True, id="cut short"),
        pytest.param("classify", b" ", rest.LARGE_EXAMPLES - 1, False, id="small Examples"),
        pytest.param("classify", b" ", rest.LARGE_EXAMPLES, True, id="Examples"),
    ],
)
async def test_rest_bodies(verb: str, unit: bytes, size: int, apart: bool) -> None:
    begun = b'{"instances": '
    body = (begun + unit * (size // len(unit) + 1))[:size]
    path = f"/v1/models/m:{verb}".encode()
    head = RequestHead("POST", path, b"", "1.1", (), {}, size, True, False)
    api = RestApi(
        await Heart().plane(),
        rest_interface(limit_s=1),
        Metrics(),
        Health(),
        max_body_bytes=1 << 20,
        enable_cors=False,
        metrics_path="",
    )
    assert await waits(api.answer(Request(head, body))) is apart


@pytest.mark.parametrize(
    ("method", "kind", "size", "apart"),
    [
        ("Classify", messages.ClassificationRequest, LARGE_MESSAGE - 100, False),
        ("Classify", messages.ClassificationRequest, LARGE_MESSAGE, True),
        ("Regress", messages.RegressionRequest, LARGE_MESSAGE, True),
        ("MultiInference", messages.MultiInferenceRequest, LARGE_MESSAGE, True),
        ("Predict", messages.PredictRequest, LARGE, True),
    ],
)
async def test_grpc_messages(method: str, kind: Any, size: int, apart: bool) -> None:
    """Of fields that nobody knows: too many for the walk of a Predict."""
    assert LARGE_EXAMPLES <= LARGE_MESSAGE
    service = PredictionService(
        await Heart().plane(), grpc_interface(tensor_content=True, limit_s=None)
    )
    payload = b"\xf8\x01\x00" * (size // 3 + 1)
    assert await waits(service.answers()[method](payload, None)) is apart
