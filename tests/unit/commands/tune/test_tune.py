"""What `tune` prints and writes, on an engine whose speed follows its options."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.commands.tune import tune
from ie_serving.commands.tune.search import ReadSamples, SearchTools
from ie_serving.config.schema.model import with_keys
from ie_serving.config.settings import TuneSettings
from ie_serving.core.values.errors import LoadFailed, ServingError
from ie_serving.core.values.requests import InferRequest, ModelSpec, SampleRequest
from ie_serving.core.values.tensors import Signature
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.layer_options import Sequences
from ie_serving.models.configuration import ModelConfig
from ie_serving.storage.backends.local import LocalStorage
from tests.process import until
from tests.stand_in_engine import FILE, StandInEngine

SLOW_S = 0.002


class Faster(StandInEngine):
    """Takes `SLOW_S` of processor time for an inference, but with two infer requests."""

    def __init__(self) -> None:
        super().__init__()
        self.before_infer = self._spin

    async def _spin(self) -> None:
        # The models that are open are compared in turn: which one infers is not told.
        until = time.perf_counter() + SLOW_S
        while self.slow and time.perf_counter() < until:
            pass

    def compile(self, directory: Path, options: EngineOptions) -> Any:
        model = super().compile(directory, options)
        infer = model.infer

        def told(*asked: Any) -> Any:
            self.slow = options.nireq != 2
            return infer(*asked)

        model.infer = told  # type: ignore[method-assign]
        return model


def test_settings_that_win_in_every_round_are_printed_and_written(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "tuned.json"
    lines: list[str] = []

    def wins() -> bool:
        tuned(base, tools(Faster()), seconds=1.0, output=output)
        lines[:] = capsys.readouterr().out.splitlines()
        return lines[-2] == "put into the model's entry of the configuration file:"

    until(wins)  # other work of the machine may slow the faster one down in some rounds
    keys = json.loads(lines[-1])
    assert keys["nireq"] == 2
    assert json.loads(output.read_text())["keys"] == keys
    assert any("in 5 of 5 rounds" in line for line in lines)


def sample(value: float) -> SampleRequest:
    def decode(_: Signature) -> tuple[Mapping[str, Any], None]:
        return {"x": np.array([value], np.float32)}, None

    return SampleRequest("here", InferRequest(ModelSpec(""), "", decode, 0))


def tools(
    engine: StandInEngine, of_version: ReadSamples = lambda _: [], of_file: ReadSamples = list
) -> SearchTools:
    return SearchTools(
        engine=engine,
        with_keys=with_keys,
        lower=lambda _: ["bf16"],
        of_file=of_file,
        of_version=of_version,
    )


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "m" / "3" / FILE
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    return tmp_path / "m"


def tuned(base: Path, made: SearchTools, **asked: Any) -> None:
    model = ModelConfig(name="m", base_path=str(base), engine=EngineOptions())
    settings = TuneSettings(**{"seconds": 0.3, "concurrency": 2, **asked})
    tune(model, settings, LocalStorage(base), made)


def test_where_nothing_wins_the_configuration_is_kept(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = StandInEngine()
    tuned(base, tools(engine), latency_ms=1e-6, seconds=1.6)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "model m, version 3"
    assert lines[1].startswith("requests: random numbers; give recorded ones by ")
    assert lines[1].endswith("; 2 callers at a time")
    assert lines[3].startswith("the configuration as it is  ")
    assert any("nireq=2" in line for line in lines)
    assert "is above the 1e-06 ms that are wanted" in lines[-1]
    assert all(model.closed for model in engine.models)


def test_the_requests_of_the_version_are_asked_and_those_of_a_file_before_them(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = tools(StandInEngine(), of_version=lambda _: [sample(1.0), sample(2.0)])
    tuned(base, recorded)
    assert "requests: 2 that the version brings along; 2 callers" in capsys.readouterr().out
    given = tools(StandInEngine(), of_file=lambda _: [sample(1.0)])
    tuned(base, given, requests=Path("recorded.tfrecord"))
    assert "requests: 1 of recorded.tfrecord; 2 callers" in capsys.readouterr().out


def test_keys_and_measurements_are_written(base: Path, tmp_path: Path) -> None:
    output = tmp_path / "tuned.json"
    tuned(base, tools(StandInEngine()), output=output)
    found = json.loads(output.read_text())
    assert found.keys() == {"keys", "tried"}
    assert found["tried"][0].keys() == {"keys", "requests_s", "p50_ms", "p99_ms"}
    assert found["tried"][0]["keys"] == {}


def broken(_: Path) -> list[SampleRequest]:
    raise OSError("no such file")


@pytest.mark.parametrize(
    ("of_file", "cause"), [(lambda _: [], "none of its"), (broken, "cannot be used")]
)
def test_a_file_that_gives_nothing_to_ask_is_named(
    base: Path, of_file: ReadSamples, cause: str
) -> None:
    with pytest.raises(LoadFailed, match=f"f.*{cause}"):
        tuned(base, tools(StandInEngine(), of_file=of_file), requests=Path("f"))


def test_a_model_that_does_not_load_is_no_model_to_tune(base: Path, tmp_path: Path) -> None:
    (base / "3" / FILE).write_text('{"fail": "no such operation"}')
    with pytest.raises(ServingError, match="no such operation"):
        tuned(base, tools(StandInEngine()))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ServingError, match="has no directory that is named by a number"):
        tuned(tmp_path / "empty", tools(StandInEngine()))


def test_a_stateful_model_is_not_measured(base: Path) -> None:
    options = EngineOptions().having(Sequences(stateful=True))
    model = ModelConfig(name="m", base_path=str(base), engine=options)
    with pytest.raises(LoadFailed, match="measure it without stateful"):
        tune(model, TuneSettings(), LocalStorage(base), tools(StandInEngine()))
