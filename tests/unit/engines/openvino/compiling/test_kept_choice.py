"""The choice of threads is remembered beside the compiled models of a version."""

from pathlib import Path
from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest

from ie_serving.core.values.tensors import SERVING_DEFAULT, DataType
from ie_serving.engines.openvino.compiling import threads_choice
from ie_serving.engines.openvino.compiling.threads_choice import (
    ALIKE,
    ALIKE_MODELS,
    MOST_SHARED,
    KeptChoice,
)
from ie_serving.engines.run import latency_model
from tests.unit.engines.openvino.models import add_one, load, run, unary


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the threads of each compile, of models that do not look tiny."""
    seen: list[str] = []
    compile_cached = threads_choice.compile_cached

    def counted(model: Any, device: str, config: Any) -> Any:
        seen.append("one" if config[threads_choice.STREAMS] == "0" else "several")
        return compile_cached(model, device, config)

    monkeypatch.setattr(threads_choice, "properties", _with_streams)
    monkeypatch.setattr(threads_choice, "compile_cached", counted)
    monkeypatch.setattr(threads_choice, "looks_tiny", lambda model: False)
    return seen


def _with_streams(*given: Any) -> dict[str, str]:
    return {threads_choice.STREAMS: "1"}


async def test_loads_after_two_that_chose_alike_compile_once(
    tmp_path: Path, compiles: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads_choice, "keeps_pace", lambda *given: True)
    add_one(tmp_path / "model")
    for expected in (["several", "one"], ["several", "one"], ["one"], ["one"]):
        compiles.clear()
        model = load(tmp_path / "model", cache_dir=tmp_path / "cache")
        assert compiles == expected
    answer = await run(model, {"x": np.ones((1, 2), np.float32)})
    assert answer["y"].tolist() == [[2.0, 2.0]]


def test_models_of_one_structure_share_a_choice(
    tmp_path: Path, compiles: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the models of a fleet; the fifth of them compiles once, with a cache or without."""
    monkeypatch.setattr(threads_choice, "keeps_pace", lambda *given: True)
    for name, expected in zip("abcdef", (2, 2, 2, 2, 1, 1), strict=True):
        compiles.clear()
        load(add_one(tmp_path / name), cache_dir=None if name == "f" else tmp_path / name / "cache")
        assert len(compiles) == expected
    compiles.clear()
    load(add_one(tmp_path / "wider", [-1, 3]))
    assert len(compiles) == 2


def test_models_of_one_structure_share_what_a_large_batch_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the choice of precision would measure it anew for each of a thousand tiny models."""
    monkeypatch.setattr(latency_model, "latency", lambda *_: 1e-5)
    for name in "abcde":
        model = load(add_one(tmp_path / name))
        assert model.signatures[SERVING_DEFAULT].batch_s == 1e-5


def test_a_process_does_not_remember_structures_without_end() -> None:
    for number in range(MOST_SHARED + 1):
        for _ in range(ALIKE_MODELS):
            KeptChoice(None, number).keep(one=True)
    assert KeptChoice(None, MOST_SHARED).one_thread() is True
    assert KeptChoice(None, 0).one_thread() is None


def test_a_choice_counts_once_two_in_a_row_are_alike(tmp_path: Path) -> None:
    kept = KeptChoice(tmp_path / "new", "graph")
    for one, known in [(True, None), (False, None), (False, False), (True, None), (True, True)]:
        kept.keep(one=one)
        assert KeptChoice(tmp_path / "new", "graph").one_thread() is known
    assert KeptChoice(tmp_path / "new", "another graph").one_thread() is None


async def test_other_weights_at_the_same_place_are_measured_anew(
    tmp_path: Path, compiles: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads_choice, "keeps_pace", lambda *given: True)

    def write(hidden: int) -> None:
        wide = op.constant(np.ones((2, hidden), np.float32))
        unary(
            tmp_path / "model",
            [-1, 2],
            DataType.FP32,
            lambda x: op.matmul(op.matmul(x, wide, False, False), wide, False, True),
        )

    for hidden, expected in ((16, 2), (16, 2), (16, 1), (32, 2)):
        write(hidden)
        compiles.clear()
        load(tmp_path / "model", cache_dir=tmp_path / "cache")
        assert len(compiles) == expected


def test_of_what_two_workers_have_left_the_lesser_counts(tmp_path: Path) -> None:
    kept = KeptChoice(tmp_path, "graph")
    kept.keep(one=True)
    (file,) = tmp_path.iterdir()
    (tmp_path / f"{file.name[:-1]}2").write_text("one")
    assert kept.one_thread() is None
    kept.keep(one=True)
    assert kept.one_thread() is True
    assert len(list(tmp_path.iterdir())) == 1


def test_a_choice_that_another_worker_has_made_meanwhile_still_counts(tmp_path: Path) -> None:
    kept = KeptChoice(tmp_path, "graph")
    for _ in range(ALIKE + 1):
        kept.keep(one=True)
    assert kept.one_thread() is True
    assert len(list(tmp_path.iterdir())) == 1


def test_a_directory_that_cannot_be_written_stops_no_load(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    KeptChoice(tmp_path / "file" / "folder", "graph").keep(one=True)
