"""kibernetika's driver `tensorflow`: a SavedModel's directory, and a frozen graph."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import tensorflow.compat.v1 as v1

from ie_serving.core.values.errors import LoadFailed
from tests.unit.compat.kibernetika.hooks.hooked import chained
from tests.unit.engines.asking import answer
from tests.unit.engines.savedmodel.exports import first_generation, signature

ROWS = np.float32([[1, 2], [3, 4]])


def graph() -> dict[str, object]:
    x = v1.placeholder(v1.float32, [None, 2], name="x")
    y, z = v1.multiply(x, 2.0, name="y"), v1.add(x, 1.0, name="z")
    return {
        "serving_default": signature({"x": x}, {"twice": y}),
        "more": signature({"x": x}, {"one_more": z}),
    }


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("frozen") / "graph.pb"
    with v1.Graph().as_default() as made:
        graph()
        file.write_bytes(made.as_graph_def().SerializeToString())
    return file


@pytest.mark.parametrize(
    ("options", "name", "expected"),
    [({}, "twice", ROWS * 2), ({"model_signature": "more"}, "one_more", ROWS + 1)],
)
async def test_a_signature_is_chosen(
    tmp_path: Path, options: dict[str, str], name: str, expected: np.ndarray
) -> None:
    first_generation(tmp_path / "model", graph)
    with closing(
        chained(tmp_path, "", ("tensorflow", tmp_path / "model"), options=options)
    ) as made:
        found = await answer(made, x=ROWS)
        assert list(found) == [name] and np.array_equal(found[name], expected)


async def test_outputs_of_a_frozen_graph_are_chosen(tmp_path: Path, frozen: Path) -> None:
    with closing(chained(tmp_path, "", ("tensorflow", frozen), options={"outputs": "y:0"})) as made:
        found = await answer(made, x=ROWS)
        assert list(found) == ["y"] and np.array_equal(found["y"], ROWS * 2)
    with pytest.raises(LoadFailed, match="has no output nothing; it has"):
        chained(tmp_path, "", ("tensorflow", frozen), options={"outputs": "nothing"})


def test_a_signature_that_is_not_there_is_refused(tmp_path: Path) -> None:
    first_generation(tmp_path / "model", graph)
    with pytest.raises(LoadFailed, match=r'no signature "other"; it has more, serving_default'):
        chained(
            tmp_path,
            "",
            ("tensorflow", tmp_path / "model"),
            options={"model_signature": "other"},
        )
