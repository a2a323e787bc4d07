"""The data plane over loaded models, on the stand-in engine: no files, loader or sockets."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ie_serving.core.values.signatures import EXAMPLES
from ie_serving.core.values.tensors import (
    OUTPUTS,
    SCORES,
    SERVING_DEFAULT,
    DataType,
    ExampleBinding,
    Method,
    Signature,
    TensorSpec,
)
from ie_serving.core.values.versions import State, VersionStatus
from ie_serving.engines.base import EngineOptions
from ie_serving.inference.examples import ExampleCodec
from ie_serving.inference.plane import DataPlane
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.served_models import ServedModel, ServedModels
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.metrics.tensorflow_families import REQUEST_COUNT, REQUEST_LATENCY
from ie_serving.wire.tfs.classify_regress import parse_examples, serialize_examples
from tests.stand_in_engine import StandInEngine, StandInModel

MODEL = "m"
ODD = "tensorflow/serving/other"
"""A method that nothing calls."""


class Loaded:
    """A stream whose versions serve, and do not change."""

    def __init__(self, name: str, servables: Sequence[Servable], labels: Mapping[str, int]) -> None:
        self.name = name
        self.labels = labels
        self.available = {servable.version: servable for servable in servables}
        self.default = self.unsplit_default = self.available[max(self.available)]
        self.unnamed_version = self.default.version
        self.split = None
        self.trouble = None
        self.lacking = self.why_none = self.unfit_traffic = ""
        self.is_admitted = True

    @property
    def reachable_versions(self) -> Collection[int]:
        return self.available.keys()

    def loads_for(self, version: int | None) -> bool:
        """Load nothing on demand."""
        return False

    def statuses(self) -> list[VersionStatus]:
        return [VersionStatus(number, State.AVAILABLE, "") for number in self.available]


class Heart:
    """Model `m`, version 3 and label `stable` for it: `y` is `x + 1`, both of shape (-1, -1).

    Beside `serving_default` it has the signatures `classify` and `regress`, which take the feature
    `f`, and `odd`, whose method nothing calls.

    Attributes:
        engine: whose `before_infer` a test may replace.
        servable: version 3.
        metrics: what was counted.
    """

    def __init__(self) -> None:
        self.engine = StandInEngine()
        self.metrics = Metrics()
        self.servable = servable(self.engine)

    def models(self) -> ServedModels:
        models = ServedModels()
        stream: Any = Loaded(MODEL, [self.servable], {"stable": self.servable.version})
        models.entries = {MODEL: ServedModel(ModelConfig(name=MODEL, base_path="/nowhere"), stream)}
        return models

    async def plane(self, *, method_name_check: bool = False) -> DataPlane:
        self.metrics.keep([MODEL])
        return DataPlane(
            self.models(),
            self.metrics,
            ExampleCodec(parse_examples, serialize_examples),
            method_name_check=method_name_check,
        )

    def counted(self) -> list[str]:
        """Each sample of the request counter, without the metric's name."""
        return [line.removeprefix(REQUEST_COUNT) for line in self._lines(f"{REQUEST_COUNT}{{")]

    def timed(self) -> list[str]:
        """Each number of latencies, without the metric's name."""
        name = f"{REQUEST_LATENCY}_count"
        return [line.removeprefix(name) for line in self._lines(name)]

    def _lines(self, start: str) -> list[str]:
        return [line for line in self.metrics.text().splitlines() if line.startswith(start)]


def servable(engine: StandInEngine, version: int = 3) -> Servable:
    model = StandInModel(engine, Path("/nowhere"), {"shape": [-1, -1]}, EngineOptions())
    base = model.signatures[SERVING_DEFAULT]
    signatures = {
        SERVING_DEFAULT: base,
        "classify": _examples(base, Method.CLASSIFY, SCORES),
        "regress": _examples(base, Method.REGRESS, OUTPUTS),
        "odd": replace(base, name="odd", method=ODD),
    }
    return Servable(MODEL, version, OneProgram(model, base), signatures)


class OneProgram:
    """Runs every signature as the one that the stand-in has."""

    def __init__(self, model: StandInModel, signature: Signature) -> None:
        self._model = model
        self._signature = signature
        self.signatures = model.signatures

    def infer(self, signature: Signature, inputs: Any, read: Any) -> Any:
        return self._model.infer(self._signature, inputs, read)

    def close(self) -> None:
        self._model.close()


def _examples(base: Signature, method: Method, role: str) -> Signature:
    return Signature(
        method.word,
        {EXAMPLES: TensorSpec(EXAMPLES, DataType.STRING, (-1,), "examples:0")},
        {role: TensorSpec(role, DataType.FP32, (-1, -1), "y:0")},
        method.value,
        ExampleBinding(base, {"x": "f"}, {role: "y"}),
    )
