"""Shapes that a signature does not declare are answered as TensorFlow's session answers them."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.exporting import export
from tests.functional.asking import over_grpc
from tests.functional.exports import sent_shapes
from tests.functional.exports.answers import Tensors, assert_equal, over_rest
from tests.functional.servers import Server
from tests.process import until

Answered = tuple[str, Tensors, Tensors | None]

NUMBERS = range(len(sent_shapes.ASKED))


def in_words(number: int) -> str:
    name, inputs = sent_shapes.ASKED[number]
    return f"{name}-{'-'.join(str(list(value.shape)) for value in inputs.values())}"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[Answered]]]:
    root = export(sent_shapes.__file__, tmp_path_factory.mktemp("sent_shapes"))
    yield root, pickle.loads((root / "asked.pickle").read_bytes())


# One for all: refused shapes come last of each signature, which then rests before it tries others,
# and answers RESOURCE_EXHAUSTED until then.
@pytest.fixture(scope="module")
def server(asked: tuple[Path, list[Answered]]) -> Iterator[Server]:
    root, _ = asked
    with Server(
        "tensorflow_model_server", "--model_name=shapes", f"--model_base_path={root / 'shapes'}"
    ) as server:
        yield server.ready()


@pytest.mark.parametrize("number", NUMBERS, ids=in_words)
def test_a_shape_is_answered_as_by_tensorflow_or_refused(
    server: Server, asked: tuple[Path, list[Answered]], number: int
) -> None:
    name, inputs, outputs = asked[1][number]
    if outputs is not None:
        assert_equal(over_grpc(server, "shapes", name, inputs), outputs)
        assert_equal(over_rest(server, "shapes", name, inputs, outputs), outputs)
        return
    refusals: list[Any] = []

    def is_tried() -> bool:
        with pytest.raises(grpc.RpcError) as refused:
            over_grpc(server, "shapes", name, inputs)
        refusals.append(refused.value)
        return refusals[-1].code() is not grpc.StatusCode.RESOURCE_EXHAUSTED

    until(is_tried)
    assert refusals[-1].code() is grpc.StatusCode.INVALID_ARGUMENT
    assert all(" s: send the request again then" in each.details() for each in refusals[:-1])
    sizes = [str(size) for value in inputs.values() for size in value.shape]
    for refusal in refusals:
        assert "the model expects input" in refusal.details()
        assert all(size in refusal.details() for size in sizes[:1])


def test_several_rows_are_taken_in_rests_row_form_where_the_batch_is_one(server: Server) -> None:
    body = {"signature_name": "half", "instances": [1.0, 2.0, 5.0]}
    reply = server.rest.post("/v1/models/shapes:predict", json=body)
    assert reply.json() == {"predictions": [2.5, 3.0, 4.5]}
