"""The layer as an engine's model: it keeps the engines' promises, and is not there unasked."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ie_serving.config.files.option_files import batching_of
from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT
from ie_serving.engines.base import CompiledModel, Engine, EngineOptions
from ie_serving.engines.layer_options import Batching
from ie_serving.engines.layers import batching
from ie_serving.engines.layers.batching import PARAMETERS, BatchedModel, BatchingEngine, rules_of
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.options import OpenVinoOptions
from tests.stand_in_engine import FILE, StandInEngine
from tests.unit.engines.contract import WAIT_S, EngineContract, copied, rows
from tests.unit.engines.layers.models import Record
from tests.unit.engines.openvino.models import add_one

ON = EngineOptions().having(Batching(max_batch_size=4))


class Batched:
    """An engine all of whose models gather requests."""

    def __init__(self, inner: Engine, **given: Any) -> None:
        self.name = "batched"
        self.record = Record()
        self._engine = BatchingEngine(inner, self.record, batching_of)
        self._batching = Batching(**{"max_batch_size": 4, **given})

    def missing(self, files: Collection[str]) -> str | None:
        return self._engine.missing(files)

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        model = self._engine.compile(directory, options.having(self._batching))
        assert isinstance(model, BatchedModel)
        return model


def write_stand_in(directory: Path) -> None:
    (directory / FILE).write_text('{"shape": [-1, 2]}')


class TestOverTheStandIn(EngineContract):
    engine: Callable[[], Engine] = lambda: Batched(StandInEngine())
    write_add_one = staticmethod(write_stand_in)

    @staticmethod
    def spoil(directory: Path) -> None:
        (directory / FILE).write_text("{")


class TestOverOpenVino(EngineContract):
    engine: Callable[[], Engine] = lambda: Batched(OpenVinoEngine())

    @staticmethod
    def write_add_one(directory: Path) -> None:
        add_one(directory)

    @staticmethod
    def spoil(directory: Path) -> None:
        (directory / "model.xml").write_text("<net")


class TestOverOpenVinoInLanes(TestOverOpenVino):
    """Every inference in a thread, so that requests wait."""

    engine: Callable[[], Engine] = lambda: Lanes(OpenVinoEngine())


class Lanes(Batched):
    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        return super().compile(directory, replace(options, execution="async"))


class Ahead(Lanes):
    """And the engine has one stream, so that it takes one batch more than it infers."""

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        stream = OpenVinoOptions(plugin_config={"NUM_STREAMS": "1"})
        return super().compile(directory, options.having(stream))


class TestOverOpenVinoAhead(TestOverOpenVino):
    """A batch is started behind the one that is inferred."""

    engine: Callable[[], Engine] = lambda: Ahead(OpenVinoEngine())


@pytest.mark.parametrize("kind", [Lanes, Ahead])
async def test_requests_at_once_share_batches(tmp_path: Path, kind: type[Batched]) -> None:
    engine = kind(OpenVinoEngine(), max_batch_size=64)
    model = await asyncio.to_thread(engine.compile, add_one(tmp_path), EngineOptions())
    signature = model.signatures[SERVING_DEFAULT]

    async def ask(value: int) -> dict[str, list[float]]:
        return await model.infer(signature, {"x": rows(value, 1 + value % 3)}, copied)

    asked = asyncio.gather(*map(ask, range(60)))
    answers = await asyncio.wait_for(asked, WAIT_S)
    assert answers == [{"y": [[i + 1.0] * 2] * (1 + i % 3)} for i in range(60)]
    assert len(engine.record.sent) < 10


def test_a_model_that_asks_for_no_batching_is_the_engines_own(tmp_path: Path) -> None:
    write_stand_in(tmp_path)
    inner = StandInEngine()
    engine = BatchingEngine(inner, Record(), batching_of)
    assert engine.compile(tmp_path, EngineOptions()) is inner.models[0]


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ('{"shape": [1, 2]}', 'the first dimension of input "x" float (1, 2) is not open'),
        ('{"shape": []}', 'the first dimension of input "x" float () is not open'),
    ],
)
def test_a_model_that_cannot_be_batched_is_served_without_and_the_log_says_why(
    written: str, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_text(written)
    inner = StandInEngine()
    record = Record()
    with caplog.at_level(logging.WARNING):
        model = BatchingEngine(inner, record, batching_of).compile(tmp_path, ON)
    signature = model.signatures[SERVING_DEFAULT]
    work = model.infer(signature, {"x": rows(1.0)}, copied)
    with pytest.raises(StopIteration):
        work.send(None)
    assert record.sent == []
    assert signature.runs_on.startswith("the stand-in, each request by itself: ")
    assert "batching refused" in caplog.text
    assert why in caplog.text.replace('\\"', '"')


def test_closing_the_layer_closes_the_model(tmp_path: Path) -> None:
    write_stand_in(tmp_path)
    inner = StandInEngine()
    BatchingEngine(inner, Record(), batching_of).compile(tmp_path, ON).close()
    assert inner.models[0].closed


class TestParametersOfAVersion:
    """`--enable_per_model_batching_parameters`."""

    options = EngineOptions().having(Batching(in_version=True, num_batch_threads=3))

    def compiled(self, directory: Path, text: str | None) -> CompiledModel:
        write_stand_in(directory)
        if text is not None:
            (directory / PARAMETERS).write_text(text)
        return BatchingEngine(StandInEngine(), Record(), batching_of).compile(
            directory, self.options
        )

    def test_without_a_file_nothing_is_gathered(self, tmp_path: Path) -> None:
        assert not isinstance(self.compiled(tmp_path, None), BatchedModel)

    def test_with_a_file_its_rules_count(self, tmp_path: Path) -> None:
        model = self.compiled(tmp_path, "max_batch_size { value: 2 }")
        assert isinstance(model, BatchedModel)

    def test_a_broken_file_fails_the_version(self, tmp_path: Path) -> None:
        with pytest.raises(LoadFailed, match=f"{PARAMETERS}: max_batch_size is 0"):
            self.compiled(tmp_path, "max_batch_size { value: 0 }")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            {"max_batch_size": 8},
            {"rows": 8, "lanes": 1, "sizes": (), "most_waiting": 800},
            id="a size",
        ),
        pytest.param(
            {"max_batch_size": 8, "allowed_batch_sizes": (2, 16)},
            {"rows": 8, "sizes": (2, 8)},
            id="a size and sizes",
        ),
        pytest.param(
            {"allowed_batch_sizes": (2, 16)}, {"rows": 16, "sizes": (2, 16)}, id="sizes alone"
        ),
        pytest.param(
            {"max_batch_size": 8, "batch_timeout_micros": 1500},
            {"timeout_s": 0.0015},
            id="a timeout",
        ),
        pytest.param({"max_batch_size": 8, "num_batch_threads": 5}, {"lanes": 5}, id="threads"),
        pytest.param(
            {"max_batch_size": 8, "max_enqueued_batches": 2},
            {"most_waiting": 16},
            id="batches that wait",
        ),
        pytest.param(
            {"max_batch_size": 8, "most": 5},
            {"rows": 5, "sizes": (), "most_waiting": 500},
            id="a model of at most 5 rows",
        ),
        pytest.param(
            {"allowed_batch_sizes": (2, 8), "most": 5},
            {"rows": 5, "sizes": (2, 5)},
            id="sizes of a model of at most 5 rows",
        ),
        pytest.param(
            {"max_batch_size": 8, "most": 20}, {"rows": 8}, id="a model of at most 20 rows"
        ),
    ],
)
def test_the_settings_become_rules_of_batches(
    given: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    most = given.get("most")
    batching = {name: value for name, value in given.items() if name != "most"}
    found = rules_of(Batching(**batching), most=most)
    assert {name: getattr(found, name) for name in expected} == expected


def test_lanes_are_by_default_as_many_as_infer_requests() -> None:
    assert rules_of(Batching(max_batch_size=8), 4).lanes == 4
    assert rules_of(Batching(max_batch_size=8, num_batch_threads=2), 4).lanes == 2


@pytest.mark.parametrize(
    ("properties", "takes"),
    [
        pytest.param({"NUM_STREAMS": "1"}, True, id="one stream"),
        pytest.param({"NUM_STREAMS": "0"}, False, id="the thread that starts it infers it"),
        pytest.param({"NUM_STREAMS": "2"}, False, id="several streams are busy by themselves"),
    ],
)
def test_an_engine_of_one_stream_takes_a_batch_ahead(
    tmp_path: Path, properties: Mapping[str, str], takes: bool
) -> None:
    options = EngineOptions().having(OpenVinoOptions(plugin_config=properties))
    model = Batched(OpenVinoEngine()).compile(add_one(tmp_path), options)
    signature = model.signatures[SERVING_DEFAULT]
    assert model.ahead(signature) is takes
    assert model.at_once(signature) == (2 if properties["NUM_STREAMS"] == "2" else 1)


def test_signatures_say_that_they_are_batched(tmp_path: Path) -> None:
    write_stand_in(tmp_path)
    model = Batched(StandInEngine()).compile(tmp_path, EngineOptions())
    runs_on = model.signatures[SERVING_DEFAULT].runs_on
    assert runs_on == "the stand-in, in batches of up to 4 rows"


def test_shapes_of_all_allowed_sizes_are_known_before_the_model_serves(tmp_path: Path) -> None:
    """A shape that is not known goes through a check in a thread, and is prepared for."""
    engine = Batched(OpenVinoEngine(), allowed_batch_sizes=(2, 6, 7), max_batch_size=7)
    model: Any = engine.compile(add_one(tmp_path), EngineOptions())
    known = model.inner.programs[SERVING_DEFAULT].admission.known
    assert {((2, 2),), ((6, 2),), ((7, 2),)} <= set(known)


def test_a_size_that_no_batch_can_be_filled_up_to_fails_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_stand_in(tmp_path)
    monkeypatch.setattr(batching.BUDGET, "limit", 1 << 30)
    engine = Batched(StandInEngine(), max_batch_size=0, allowed_batch_sizes=(1, 1_000_000_000))
    with pytest.raises(LoadFailed, match="1000000000 rows take 8000000000 bytes or more"):
        engine.compile(tmp_path, EngineOptions())
