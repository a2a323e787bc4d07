"""Clients that share batches: some are wrong, some leave, some have no time; others do not notice.

`make fuzz` runs it for as long as FUZZ_SECONDS says. A failure names the seed that finds it again.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from ie_serving.core.values.tensors import Array
from tests.functional.asking import predict_request
from tests.functional.batching_models import WORDS, lengths, words
from tests.functional.fuzzing import SECONDS, marks
from tests.functional.servers import Server
from tests.functional.storage.serving import several
from tests.process import PATIENCE_S

pytestmark = marks

BUDGET = 256 << 20
"""Several times what one round holds: bytes that are never given back are missed after seconds."""
AT_ONCE = 40
WIDTHS = [1, 3, 20_000]
"""Numbers in a row; batches of the widest are counted in the budget."""
OK = grpc.StatusCode.OK
INVALID = grpc.StatusCode.INVALID_ARGUMENT
LATE = grpc.StatusCode.DEADLINE_EXCEEDED
LEFT = grpc.StatusCode.CANCELLED


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base = tmp_path_factory.mktemp("models")
    own: dict[str, Any] = {"max_batch_size": 16, "execution": "async", "inference_precision": "f32"}
    for name, write in {"words": words, "lengths": lengths}.items():
        write(base / name / "1")
    models = several(
        base / "c.json",
        {
            "words": {"base_path": str(base / "words"), **own},
            "lengths": {"base_path": str(base / "lengths"), **own, "allowed_batch_sizes": [4, 16]},
        },
    )
    with Server("ie_serving", *models, f"--memory_budget_bytes={BUDGET}") as server:
        yield server.ready()


def request(model: str, **inputs: Array) -> predict_pb2.PredictRequest:
    made = predict_request(model, **inputs)
    return made


def of_words(chance: random.Random) -> tuple[Any, dict[str, Array]]:
    x = np.array([[chance.randrange(WORDS)] * 2 for _ in range(chance.randint(1, 20))], np.int32)
    return request("words", x=x), {"y": x.astype(np.float32) * 10}


def of_lengths(chance: random.Random) -> tuple[Any, dict[str, Array]]:
    shape = (chance.randint(1, 4), chance.choice(WIDTHS))
    # The same number all over: sums of it are exact.
    x = np.full(shape, float(chance.randrange(100)), np.float32)
    return request("lengths", x=x), {"largest": x[:, 0], "total": x.sum(1)}


def wrong(chance: random.Random) -> Any:
    """Make a request that is refused: by its names, dtype or shape, or by the model."""
    good = np.ones((chance.randint(1, 3), 2), np.int32)
    return chance.choice(
        [
            request("words", x=good * WORDS),
            request("words", x=good.astype(np.float64) + 0.5),
            request("words", x=good[:, :1]),
            request("words", x=good[0, 0]),
            request("words", z=good),
            request("words"),
        ]
    )


Expected = dict[str, Array] | None


def send(
    server: Server, chance: random.Random, leaving: list[Any]
) -> tuple[Any, Expected, set[grpc.StatusCode]]:
    """Give a call, its outputs if it has some, and the codes that it may end with.

    Calls whose clients leave are added to `leaving`.
    """
    kind = chance.random()
    predict = server.prediction.Predict.future
    if kind < 0.2:
        return predict(wrong(chance), PATIENCE_S), None, {INVALID}
    made, expected = chance.choice([of_words, of_lengths])(chance)
    if kind < 0.4:
        return predict(made, chance.uniform(0.001, 0.05)), expected, {OK, LATE}
    call = predict(made, PATIENCE_S)
    if kind < 0.6:
        leaving.append(call)
        return call, expected, {OK, LEFT}
    return call, expected, {OK}


def check(call: Any, expected: Expected, codes: set[grpc.StatusCode], told: str) -> str:
    code = call.code()  # waits for the end, which the deadline bounds
    assert code in codes, f"{told} {code} {call.details()}"
    if code is OK and expected is not None:
        found = {name: tf.make_ndarray(each) for name, each in call.result().outputs.items()}
        assert found.keys() == expected.keys(), told
        assert all(np.array_equal(found[name], expected[name]) for name in expected), told
    return str(code.name)


def test_requests_that_share_batches_get_their_own_rows_or_faults(server: Server) -> None:
    """Each gets its own rows or its own fault; the queue goes on and no bytes are lost."""
    seed = int(os.environ.get("FUZZ_SEED") or random.randrange(1 << 32))
    chance, begun, counted = random.Random(seed), time.monotonic(), Counter[str]()
    pids = server.pids()
    while time.monotonic() - begun < SECONDS:
        told = f"seed={seed} after {dict(counted)}"
        leaving: list[Any] = []
        sent = []
        for _ in range(AT_ONCE):
            sent.append(send(server, chance, leaving))
            if leaving and chance.random() < 0.3:  # others have been sent in between
                leaving.pop(0).cancel()
        for call in leaving:
            call.cancel()
        counted.update(check(*each, told) for each in sent)
    print(f"seed={seed} {dict(counted)}")
    made, expected = of_words(chance)
    assert check(server.prediction.Predict.future(made, PATIENCE_S), expected, {OK}, "") == "OK"
    assert server.pids() == pids
    assert "Traceback" not in server.log
