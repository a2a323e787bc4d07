"""A lower precision is taken where recorded requests show that it costs little and wins time."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.requests import GoldenRequest, InferRequest, ModelSpec, SampleRequest
from ie_serving.core.values.tensors import Array, DataType, Signature, TensorSpec
from ie_serving.engines.base import REHEARSED, EngineOptions
from ie_serving.engines.layers import precision_trial
from ie_serving.engines.layers.precision import (
    PrecisionEngine,
    PrecisionFacts,
    choose,
    choose_untried,
)
from ie_serving.engines.layers.precision_trial import ROWS, Trial, zeros_for
from ie_serving.engines.openvino.options import OpenVinoOptions
from tests.unit.engines.layers.models import REFUSED, Model

AUTO = OpenVinoOptions(inference_precision="auto")
DEVIATION = {"bf16": 0.004, "f16": 0.0005}
SECONDS = {"f32": 0.03, "bf16": 0.01, "f16": 0.02}


class Engine:
    """Compiles models that add 1, less exactly in lower precisions, in a time of their own.

    Attributes:
        seconds: of an inference by precision.
        refused: precision that cannot be compiled.
        tells: its models tell the precision that they compute in, as OpenVINO's do.
        models: by precision, those that were compiled.
        now: of the clock that inferences advance.
        rehearsed: values of `REHEARSED` during inferences.
    """

    name = "engine"

    def __init__(self) -> None:
        self.seconds = dict(SECONDS)
        self.refused = "none"
        self.tells = True
        self.models: dict[str, Model] = {}
        self.now = 0.0
        self.rehearsed: set[bool] = set()

    def missing(self, files: Any) -> str | None:
        return None

    def compile(self, directory: Path, options: EngineOptions) -> Model:
        precision = options.of(OpenVinoOptions).inference_precision
        if precision == self.refused:
            raise LoadFailed("no")

        def body(x: Array) -> Array:
            self.now += self.seconds.get(precision, 0.0)
            self.rehearsed.add(REHEARSED.get())
            if (x == -1).all() and precision != "f32":
                raise InvalidTensor("it is negative")
            return np.asarray((x + 1) * np.float32(1 + DEVIATION.get(precision, 0)))

        model = self.models[precision] = Model(body)
        (name, signature), *_ = model.signatures.items()
        model.signatures = {name: replace(signature, precision=precision if self.tells else "")}
        return self.models[precision]

    @property
    def open(self) -> set[str]:
        """Precisions of the models that were not closed."""
        return {name for name, model in self.models.items() if not model.closed}


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    made = Engine()
    monkeypatch.setattr(precision_trial, "now", lambda: made.now)
    yield made


def asked(value: float, expected: float | None = None, signature: str = "") -> SampleRequest:
    def decode(_: object) -> tuple[Mapping[str, Array], None]:
        return {"x": np.full((1, 2), value, np.float32)}, None

    request = InferRequest(ModelSpec(""), signature, decode, 0)
    outputs = {"y": np.full((1, 2), expected, np.float32)}
    golden = None if expected is None else GoldenRequest("here", request, lambda _: outputs)
    return SampleRequest("here", request, golden)


def chosen(
    engine: Engine,
    *samples: SampleRequest,
    own: OpenVinoOptions = AUTO,
    lower: tuple[str, ...] = ("bf16", "f16"),
) -> str:
    """Give the precision of the model that is left."""
    chooses = PrecisionEngine(engine, lambda _: lower, lambda _: samples)
    model = chooses.compile(Path("somewhere"), EngineOptions(own=(own,)))
    (left,) = engine.open
    assert engine.models[left] is model
    return left


@pytest.mark.parametrize("named", ["f32", "bf16"])
def test_a_precision_that_is_named_is_compiled_once(engine: Engine, named: str) -> None:
    assert chosen(engine, asked(1.0), own=OpenVinoOptions(inference_precision=named)) == named
    assert engine.models.keys() == {named}
    assert engine.now == 0.0


def test_the_fastest_within_the_tolerance_is_taken(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert chosen(engine, asked(1.0), asked(2.0)) == "bf16"
    assert "precision=bf16 requests=6 deviation=0.004 tolerance=0.01" in caplog.text
    assert "precision chosen" in caplog.text


def test_requests_of_a_trial_do_not_count_as_those_of_clients(engine: Engine) -> None:
    chosen(engine, asked(1.0))
    assert engine.rehearsed == {True}
    assert not REHEARSED.get()


def test_a_trial_ends_with_the_first_answer_that_deviates_too_much(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """A start waits for it: a net of ResNet-50's shape was ready a second later."""
    caplog.set_level(logging.INFO)
    own = OpenVinoOptions(inference_precision="auto", precision_tolerance=0.001)
    assert chosen(engine, asked(1.0), asked(2.0), own=own, lower=("bf16",)) == "f32"
    assert "precision=bf16 requests=1 deviation=0.004" in caplog.text
    assert engine.now == pytest.approx(3 * 0.03 + 0.01), "nothing is timed, as it decides nothing"


def test_an_inference_of_microseconds_is_not_tried_in_a_lower_precision(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    engine.seconds = {"f32": 20e-6, "bf16": 1e-6}
    assert chosen(engine, asked(1.0), lower=("bf16",)) == "f32"
    assert engine.models.keys() == {"f32"}, "a second compilation is half of such a model's load"
    assert "precision chosen" in caplog.text
    assert "too short" in caplog.text


@pytest.fixture
def measured(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have the engine's models tell what their loads have measured."""

    def tell(**took: float | None) -> None:
        made = engine.compile

        def compiled(directory: Path, options: EngineOptions) -> Model:
            model = made(directory, options)
            (name, signature), *_ = model.signatures.items()
            specs = {"x": replace(signature.inputs["x"], shape=(-1, 4))}
            model.signatures = {name: replace(signature, inputs=specs, **took)}
            return model

        monkeypatch.setattr(engine, "compile", compiled)

    return tell


@pytest.mark.parametrize(
    ("batch_s", "batches"),
    [
        pytest.param(20e-6, 0, id="short"),
        pytest.param(60e-6, 1 + 20, id="of more rows than a batch that is short"),
        pytest.param(None, 1 + 20, id="not measured"),
    ],
)
def test_a_short_model_that_its_load_has_measured_is_not_measured_again(
    engine: Engine, measured: Callable[..., None], batch_s: float | None, batches: int
) -> None:
    """Beside other loads, one in four small models was compiled a second time."""
    engine.seconds = {"f32": 20e-6, "bf16": 1e-6}
    measured(row_s=10e-6, batch_s=batch_s)
    assert chosen(engine, lower=("bf16",)) == "f32"
    assert engine.models.keys() == {"f32"}
    assert engine.models["f32"].batches == batches * [ROWS]


def test_a_long_model_is_asked_in_f32_no_more_often_than_is_needed(
    engine: Engine, measured: Callable[..., None]
) -> None:
    """A batch of zeros through a net of ResNet-50's shape takes a second."""
    measured(row_s=0.03)
    own = OpenVinoOptions(inference_precision="auto", precision_tolerance=0.001)
    assert chosen(engine, own=own, lower=("bf16",)) == "f32"
    assert len(engine.models["f32"].batches) == 1
    assert ROWS not in engine.models["f32"].batches


def test_zeros_say_nothing_of_a_model_of_open_sizes() -> None:
    """An image of one pixel takes microseconds where one of a client's takes milliseconds."""
    sized, open_sizes = (
        Signature("s", {"x": TensorSpec("x", DataType.FP32, shape, "x")}, {})
        for shape in ((-1, 3, 8, 8), (-1, 3, -1, -1))
    )
    model: Any = SimpleNamespace(signatures={"s": sized})
    (zeros,) = zeros_for(model)
    assert zeros.inputs["x"].shape == (ROWS, 3, 8, 8)
    model.signatures["t"] = open_sizes
    assert zeros_for(model) == []


FIT = Trial("f16", 1, 0.001, 0.7)


@pytest.mark.parametrize(
    ("trials", "choice"),
    [
        pytest.param([FIT, Trial("bf16", 1, 0.01, 0.5)], "bf16: the fastest", id="fastest"),
        pytest.param([FIT, Trial("bf16", 1, 0.02, 0.5)], "f16: the fastest", id="deviates"),
        pytest.param([FIT, Trial("bf16", fault="no")], "f16: the fastest", id="has a fault"),
        pytest.param(
            [Trial("bf16", 1, 0, 0.93)], "f32: bf16: it takes 0.93 of", id="hardly faster"
        ),
        pytest.param(
            [Trial("bf16", fault="no"), Trial("f16")], "f32: bf16: no; f16: no req", id="none"
        ),
    ],
)
def test_the_fastest_precision_that_is_close_enough_is_taken(
    trials: list[Trial], choice: str
) -> None:
    precision, cause = choose(trials, 0.01)
    assert f"{precision}: {cause}".startswith(choice)


ASKED = PrecisionFacts(is_default=False, is_in_full=True)
DEFAULT = replace(ASKED, is_default=True)


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        pytest.param(ASKED, None, id="nothing against a trial"),
        pytest.param(DEFAULT, None, id="nothing against a trial by default"),
        pytest.param(replace(DEFAULT, is_in_full=False), "", id="of no known precision"),
        pytest.param(replace(ASKED, is_in_full=False), None, id="asked for all the same"),
        pytest.param(replace(DEFAULT, has_lower=False), "", id="none lower, by default"),
        pytest.param(replace(ASKED, has_lower=False), "the device has no lower", id="none lower"),
        pytest.param(replace(DEFAULT, is_short=True), "an inference in f32 is too", id="short"),
        pytest.param(
            replace(ASKED, has_requests=False), "the model takes neither", id="no request"
        ),
        pytest.param(
            replace(ASKED, is_short=True, has_requests=False), "an inference", id="short first"
        ),
    ],
)
def test_a_precision_is_chosen_without_trials_only_where_none_can_show_a_gain(
    facts: PrecisionFacts, cause: str | None
) -> None:
    choice = choose_untried(facts)
    if cause is None or choice is None:
        assert cause is choice
        return
    assert choice.precision == "f32"
    assert choice.cause.startswith(cause)
    assert bool(choice.cause) == bool(cause)


@pytest.mark.parametrize(
    ("samples", "lower", "cause"),
    [
        pytest.param((asked(1.0),), (), "the device has no lower precision", id="no precision"),
        pytest.param((asked(-1.0),), ("bf16",), "here fails: it is negative", id="refused in it"),
        pytest.param((asked(1.0, 2.0),), ("bf16",), "golden request here: output", id="golden"),
    ],
)
def test_all_else_computes_in_f32_and_the_log_says_why(
    engine: Engine,
    samples: tuple[SampleRequest, ...],
    lower: tuple[str, ...],
    cause: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    assert chosen(engine, *samples, lower=lower) == "f32"
    (line,) = [each for each in caplog.messages if "precision chosen" in each]
    assert "precision=f32" in line
    assert cause in line


def test_a_golden_request_that_fails_in_f32_too_says_nothing_of_the_precision(
    engine: Engine,
) -> None:
    assert chosen(engine, asked(1.0, 7.0)) == "bf16"


def test_a_precision_that_cannot_be_compiled_is_passed_over(engine: Engine) -> None:
    engine.refused = "bf16"
    assert chosen(engine, asked(1.0)) == "f16"


@pytest.mark.parametrize("sample", [asked(1.0, signature="other"), asked(REFUSED)])
def test_a_recorded_request_that_is_not_taken_is_passed_over(
    engine: Engine, sample: SampleRequest
) -> None:
    assert chosen(engine, sample, lower=("bf16",)) == "bf16"


def test_a_model_that_takes_no_request_computes_in_f32(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(precision_trial, "MOST_GUESSES", 0)
    assert chosen(engine, lower=("bf16",)) == "f32"
    assert "takes neither a recorded request nor a generated one" in caplog.text


def test_a_cpu_computes_in_a_lower_precision_only_where_requests_show_that_it_may(
    engine: Engine,
) -> None:
    """By itself it computed in bf16 wherever it had it: 12 of 80 published models were wrong."""
    assert chosen(engine, own=OpenVinoOptions()) == "bf16"
    assert chosen(engine, own=OpenVinoOptions(precision_tolerance=0.001)) == "f16"
    assert chosen(engine, own=OpenVinoOptions(precision_tolerance=0.0)) == "f32"
    engine.models.clear()
    assert chosen(engine, own=OpenVinoOptions(), lower=()) == "f32"
    assert engine.models.keys() == {"f32"}


@pytest.mark.parametrize(
    "own",
    [
        OpenVinoOptions(target_device="GPU"),
        OpenVinoOptions(plugin_config={"INFERENCE_PRECISION_HINT": "bf16"}),
    ],
)
def test_other_devices_and_plugin_config_choose_as_before(
    engine: Engine, own: OpenVinoOptions
) -> None:
    assert chosen(engine, own=own) == ""


def test_a_model_that_openvino_does_not_compute_is_compiled_once(engine: Engine) -> None:
    engine.tells = False
    assert chosen(engine, own=OpenVinoOptions()) == "f32"
    assert engine.models.keys() == {"f32"}


def test_a_trial_ends_after_its_time_whatever_is_recorded(engine: Engine) -> None:
    engine.seconds = {"f32": 3.0, "bf16": 1.0}
    assert chosen(engine, *[asked(1.0)] * 50, lower=("bf16",)) == "bf16"
    assert engine.now < 3 * precision_trial.LONGEST_S


def test_nothing_is_left_open_when_a_trial_breaks(engine: Engine) -> None:
    def broken(_: Path) -> Iterator[SampleRequest]:
        yield asked(1.0)
        raise ValueError("a defect")

    chooses = PrecisionEngine(engine, lambda _: ("bf16",), broken)
    with pytest.raises(ValueError, match="a defect"):
        chooses.compile(Path("somewhere"), EngineOptions(own=(AUTO,)))
    assert engine.open == set()
