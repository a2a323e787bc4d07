"""Golden requests: a version that answers otherwise is refused, and told why."""

import asyncio
import json
import math
import os
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.app.engine_stack import GOLDEN
from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import BY_NUMPY
from ie_serving.inference import warmup
from ie_serving.inference.golden import GoldenRun, in_turn
from ie_serving.models.version.handle import Servable
from ie_serving.wire.json.golden_json import LARGEST_BYTES, read_golden
from ie_serving.wire.protobuf import messages
from ie_serving.wire.tfs.prediction_log import masked_crc32c
from tests.thinning import repeated
from tests.unit.inference.stand_ins import MODEL, Heart

FILE = "golden.json"
PATIENCE_S = 60
PIECES = (
    b"",
    b"[",
    b"]",
    b"{}",
    b"null",
    b"-1e308",
    b"NaN",
    b'"',
    b"\xff",
    b"9" * 30,
    b"true",
    b",",
)
ROWS = {"instances": [[1.0, 2.0], [3.0, 4.0]]}


async def asked(directory: Path, *entries: object, **top: object) -> str:
    """Ask a model that adds 1; give what is said of a version that is refused."""
    (directory / FILE).write_text(json.dumps({"requests": entries, **top}))
    heart = Heart()
    golden = GoldenRun(await heart.plane(), {FILE: read_golden})
    try:
        await golden(heart.servable, directory)
    except LoadFailed as error:
        return str(error)
    return ""


def pair(response: Any, request: Any = ROWS, **own: Any) -> dict[str, Any]:
    return {"request": request, "response": response, **own}


@pytest.mark.parametrize(
    "response",
    [
        pytest.param({"predictions": [[2.0, 3.0], [4.0, 5.0]]}, id="rows"),
        pytest.param({"predictions": [{"y": [2, 3]}, {"y": [4, 5]}]}, id="rows by name"),
        pytest.param({"outputs": [[2.0, 3.0], [4.0, 5.004]]}, id="columns that nearly agree"),
        pytest.param({"outputs": {"y": [[2.0, 3.0], [4.0, 5.0]]}}, id="columns by name"),
    ],
)
async def test_the_expected_answer_lets_a_version_serve(tmp_path: Path, response: object) -> None:
    assert await asked(tmp_path, pair(response)) == ""


@pytest.mark.parametrize(
    ("entry", "cause"),
    [
        pytest.param(
            pair({"outputs": [[2.0, 3.0], [4.0, 5.5]]}),
            'output "y" differs in 1 of 4 values: at [1, 1] it is 5.0, not 5.5, by 0.5 where'
            " 0.00551 is allowed",
            id="a value that differs",
        ),
        pytest.param(
            pair({"outputs": [[2.1, 3.0], [4.0, 9.0]]}),
            'output "y" differs in 2 of 4 values: at [1, 1] it is 5.0, not 9.0, by 4',
            id="the largest difference",
        ),
        pytest.param(
            pair({"outputs": [[2.0, 3.0]]}),
            'output "y" has shape [2, 2], not [1, 2]',
            id="another shape",
        ),
        pytest.param(
            pair({"outputs": {"z": [[1.0]]}}),
            "its response: it names z; the model gives y",
            id="another output",
        ),
        pytest.param(
            pair({"predictions": []}),
            'its response: "predictions" must be a list with an entry for each row',
            id="no predictions",
        ),
        pytest.param(
            pair({}),
            'its response: it must have the one key "predictions" or "outputs"',
            id="an empty response",
        ),
        pytest.param(
            pair({"outputs": []}, {"inputs": {"z": [1.0]}}),
            "Missing named input: x",
            id="another input",
        ),
        pytest.param(
            pair({"outputs": []}, {**ROWS, "signature_name": "other"}),
            'there is no signature "other"; the model has: ',
            id="no such signature",
        ),
        pytest.param(
            {"request": ROWS},
            "requests[0] must be an object with request and response",
            id="no response",
        ),
        pytest.param(
            pair([]),
            "requests[0].response must be an object: the body of a REST Predict",
            id="a response that is a list",
        ),
        pytest.param(
            pair({"outputs": []}, rtol=-1),
            "requests[0]: rtol must be a finite number that is not",
            id="a negative tolerance",
        ),
        pytest.param(
            pair({"outputs": []}, rtol="0.1"),
            "requests[0]: rtol must be a finite number that is not",
            id="a tolerance as text",
        ),
        pytest.param(
            pair({"predictions": [None, None]}),
            "its response: Failed to process element: 0",
            id="rows of null",
        ),
        pytest.param(
            pair({"outputs": {}}),
            "its response: it names no output; the model gives y",
            id="no outputs",
        ),
        pytest.param(
            pair({"predictions": [{}, {}]}),
            "its response: it names no output; the model gives y",
            id="rows without outputs",
        ),
        pytest.param(
            pair({"predictions": [{"y": [2, 3]}, {}]}),
            "keys must be equal to: y",
            id="a row without outputs",
        ),
        pytest.param(
            pair({"outputs": [["2.0", "3.0"]]}),
            "requests[0] of golden.json: ",
            id="texts for numbers",
        ),
        pytest.param(
            pair({"outputs": [[2.0], [4.0, 5.0]]}),
            "requests[0] of golden.json: ",
            id="rows of different lengths",
        ),
        pytest.param(
            pair({"outputs": [[2.0, 3.0]]}, {}),
            "requests[0] of golden.json: ",
            id="an empty request",
        ),
        pytest.param([], "requests[0] must be an object with request and response", id="no object"),
    ],
)
async def test_another_answer_refuses_it(tmp_path: Path, entry: object, cause: str) -> None:
    assert cause in await asked(tmp_path, entry)


@pytest.mark.parametrize("odd", [math.nan, math.inf])
async def test_no_tolerance_is_told_of_what_is_no_number(tmp_path: Path, odd: float) -> None:
    said = await asked(tmp_path, pair({"outputs": [[2.0, 3.0], [4.0, odd]]}))
    assert f"at [1, 1] it is 5.0, not {odd}; export" in said


async def test_tolerances_are_those_of_the_file_or_of_one_request(tmp_path: Path) -> None:
    near = {"outputs": [[2.0, 3.0], [4.0, 5.5]]}
    assert await asked(tmp_path, pair(near), rtol=0.2) == ""
    assert await asked(tmp_path, pair(near, atol=0.6), rtol=0) == ""
    assert "requests[1]" in await asked(tmp_path, pair(near), pair(near, rtol=0.01), rtol=0.2)


async def refusal(directory: Path) -> str:
    """Give what is said of a version with the files of a directory; empty where it serves."""
    heart = Heart()
    golden = GoldenRun(await heart.plane(), GOLDEN)
    try:
        await asyncio.wait_for(golden(heart.servable, directory), PATIENCE_S)
    except LoadFailed as error:
        return str(error)
    return ""


ENTRY = b'{"request": {"instances": [[1.0]]}, "response": {"predictions": [[2.0]]}}'


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "The document is empty"),
        (b"{", "JSON Parse error: Missing a name for object member"),
        (b"[]", "the file must be an object with requests"),
        (b'{"requests": {}}', '"requests" must be a list'),
        (b'{"requests": []}', "it has no requests: add some, or remove the file"),
        (b'{"requests": [%s], "rtol": NaN}' % ENTRY, "rtol must be a finite number"),
        (b'{"requests": [%s], "atol": Infinity}' % ENTRY, "atol must be a finite number"),
        (b'{"requests": [%s], "atol": 1%s}' % (ENTRY, b"0" * 400), "Number too big"),
        (b'{"requests": [%s], "atoll": 1}' % ENTRY, "of other keys only atol, rtol"),
        (b'{"requests": [], "requests": [%s]}' % ENTRY, 'an object has "requests" twice'),
        (b'{"requests": [%s]} {"requests": []}' % ENTRY, "and something follows it. at offset: 90"),
        (b'{"requests": [{"a": [{"b": 1, "b": 1}]}]}', 'an object has "b" twice'),
        (b'{"requests": ' + b"[" * 1_000_000, "JSON Parse error"),
        (b'{"requests": [%s]}' % b",".join([ENTRY] * 101), "more than 100 requests"),
        (ENTRY + b" " * LARGEST_BYTES, "it is larger than 64 MB: write golden.tfrecord instead"),
    ],
    ids=range(15),
)
async def test_a_file_that_cannot_be_used(
    tmp_path: Path, content: bytes, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warmup, "MOST_REQUESTS", 100)
    (tmp_path / FILE).write_bytes(content)
    said = await refusal(tmp_path)
    assert said.startswith("golden.json cannot be used: ")
    assert cause in said


@pytest.mark.parametrize("name", GOLDEN)
async def test_a_path_that_is_no_file_is_not_passed_over(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.mkdir()
    assert (
        await refusal(tmp_path)
        == f"{name} cannot be used: it is no regular file: replace it by one"
    )
    path.rmdir()
    path.symlink_to(tmp_path / "none")
    assert "No such file" in await refusal(tmp_path)
    path.unlink()
    os.mkfifo(path)
    assert (
        await refusal(tmp_path)
        == f"{name} cannot be used: it is no regular file: replace it by one"
    )


def recorded(**outputs: Any) -> bytes:
    """Make a record of a request with two rows, and of what is to come of it."""
    log = messages.PredictionLog()
    log.predict_log.request.model_spec.name = MODEL
    log.predict_log.request.inputs["x"].CopyFrom(tensor(ROWS["instances"]))
    for name, value in outputs.items():
        log.predict_log.response.outputs[name].CopyFrom(tensor(value))
    return framed(log.SerializeToString())


def tensor(value: Any) -> Any:
    array = np.array(value, None if np.array(value).dtype.kind != "f" else np.float32)
    proto = messages.TensorProto(dtype=BY_NUMPY[array.dtype].number, tensor_content=array.tobytes())
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    return proto


def framed(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    sums = [struct.pack("<I", masked_crc32c(part)) for part in (length, data)]
    return length + sums[0] + data + sums[1]


RIGHT = recorded(y=[[2.0, 3.0], [4.0, 5.0]])


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (RIGHT, ""),
        (b"", "golden.tfrecord cannot be used: it has no requests"),
        (recorded(), "record 0 must be a predict_log with a request and its response"),
        (RIGHT + framed(b""), "record 1 must be a predict_log with a request and its response"),
        (
            recorded(y=[[2, 3], [4, 5]]),
            'its response has "y" as DT_INT64; the model gives DT_FLOAT',
        ),
        (recorded(z=[[2.0]]), "the model gives y, not z"),
        (recorded(y=[[2.0, 3.0], [4.0, math.nan]]), "at [1, 1] it is 5.0, not nan"),
        (recorded(y=[[2.0, 3.0], [math.inf, 5.0]]), "at [1, 0] it is 4.0, not inf"),
        (RIGHT[:-1], "end in the middle of one"),
        (RIGHT[:-1] + b"\0", "does not match its checksum"),
        (framed(b"\xff" * 9), "golden.tfrecord cannot be used: Failed to parse"),
        (struct.pack("<QI", 1 << 62, masked_crc32c(struct.pack("<Q", 1 << 62))), "too large"),
    ],
    ids=range(12),
)
async def test_records_are_read_or_refused_with_their_cause(
    tmp_path: Path, content: bytes, cause: str
) -> None:
    (tmp_path / "golden.tfrecord").write_bytes(content)
    said = await refusal(tmp_path)
    assert bool(said) == bool(cause)
    assert cause in said


@repeated(250, 1000)
async def test_any_change_of_bytes_is_answered_by_a_text(tmp_path: Path, rounds: int) -> None:
    """Never by another error, and never without an end."""
    chance = random.Random(13)
    good = json.dumps({"requests": [pair({"predictions": [[2.0, 3.0], [4.0, 5.0]]})]}).encode()
    for _ in range(rounds):
        content = bytearray(good)
        for _ in range(chance.randint(1, 6)):
            place = chance.randrange(len(content))
            content[place : place + chance.randrange(3)] = chance.choice(PIECES)
        (tmp_path / FILE).write_bytes(content)
        await refusal(tmp_path)


async def test_other_work_has_its_turn_between_any_two(tmp_path: Path) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    (tmp_path / "golden.tfrecord").write_bytes(RIGHT * 100)
    beside = asyncio.create_task(others())
    assert await refusal(tmp_path) == ""
    beside.cancel()
    assert turns > 100


async def test_steps_are_done_in_turn_until_one_refuses(tmp_path: Path) -> None:
    seen: list[int] = []

    async def first(servable: Servable, directory: Path) -> None:
        seen.append(1)

    async def refuse(servable: Servable, directory: Path) -> None:
        raise LoadFailed("no")

    with pytest.raises(LoadFailed):
        await in_turn(first, refuse, first)(Heart().servable, tmp_path)
    assert seen == [1]
