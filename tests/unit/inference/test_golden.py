"""Golden requests: a version that answers otherwise is refused, and told why."""

import json
from pathlib import Path
from typing import Any

import pytest

from ie_serving.core.errors import LoadFailed
from ie_serving.inference.golden import Golden, in_turn
from ie_serving.models.version.handle import Servable
from ie_serving.wire.json.golden import read_golden
from tests.unit.inference.stand_ins import Heart

FILE = "golden.json"
ROWS = {"instances": [[1.0, 2.0], [3.0, 4.0]]}


async def asked(directory: Path, *entries: object, **top: object) -> str:
    """Ask a model that adds 1; give what is said of a version that is refused."""
    (directory / FILE).write_text(json.dumps({"requests": entries, **top}))
    heart = Heart()
    golden = Golden(await heart.plane(), {FILE: read_golden})
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
        {"predictions": [[2.0, 3.0], [4.0, 5.0]]},
        {"predictions": [{"y": [2, 3]}, {"y": [4, 5]}]},
        {"outputs": [[2.0, 3.0], [4.0, 5.004]]},
        {"outputs": {"y": [[2.0, 3.0], [4.0, 5.0]]}},
    ],
)
async def test_the_expected_answer_lets_a_version_serve(tmp_path: Path, response: object) -> None:
    assert await asked(tmp_path, pair(response)) == ""


@pytest.mark.parametrize(
    ("entry", "cause"),
    [
        (
            pair({"outputs": [[2.0, 3.0], [4.0, 5.5]]}),
            'output "y" differs in 1 of 4 values: at [1, 1] it is 5.0, not 5.5, by 0.5 where'
            " 0.00551 is allowed",
        ),
        (
            pair({"outputs": [[2.1, 3.0], [4.0, 9.0]]}),
            'output "y" differs in 2 of 4 values: at [1, 1] it is 5.0, not 9.0, by 4',
        ),
        (pair({"outputs": [[2.0, 3.0]]}), 'output "y" has shape [2, 2], not [1, 2]'),
        (pair({"outputs": {"z": [[1.0]]}}), "its response names z; the model gives y"),
        (pair({"predictions": []}), 'its "predictions" must be a list with an entry for each row'),
        (pair({}), 'its response must have the one key "predictions" or "outputs"'),
        (pair({"outputs": []}, {"inputs": {"z": [1.0]}}), "Missing named input: x"),
        (
            pair({"outputs": []}, {**ROWS, "signature_name": "other"}),
            'there is no signature "other"; the model has: ',
        ),
        ({"request": ROWS}, "requests[0] must be an object with request and response"),
        (pair([]), "requests[0].response must be an object: the body of a REST Predict"),
        (pair({"outputs": []}, rtol=-1), "requests[0]: rtol must be a number that is not negative"),
    ],
)
async def test_another_answer_refuses_it(tmp_path: Path, entry: object, cause: str) -> None:
    assert cause in await asked(tmp_path, entry)


async def test_tolerances_of_the_file_and_of_one_request(tmp_path: Path) -> None:
    near = {"outputs": [[2.0, 3.0], [4.0, 5.5]]}
    assert await asked(tmp_path, pair(near), rtol=0.2) == ""
    assert await asked(tmp_path, pair(near, atol=0.6), rtol=0) == ""
    assert "requests[1]" in await asked(tmp_path, pair(near), pair(near, rtol=0.01), rtol=0.2)


async def test_a_file_that_is_no_json(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    heart = Heart()
    with pytest.raises(LoadFailed, match=r"golden\.json cannot be used: "):
        await Golden(await heart.plane(), {FILE: read_golden})(heart.servable, tmp_path)


async def test_steps_are_done_in_turn_until_one_refuses(tmp_path: Path) -> None:
    seen: list[int] = []

    async def first(servable: Servable, directory: Path) -> None:
        seen.append(1)

    async def refuse(servable: Servable, directory: Path) -> None:
        raise LoadFailed("no")

    with pytest.raises(LoadFailed):
        await in_turn(first, refuse, first)(Heart().servable, tmp_path)
    assert seen == [1]
