"""A request goes to the version that has its sequence, and is counted once."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import NotFound, SequenceElsewhere
from ie_serving.core.values.requests import InferRequest, ModelSpec
from ie_serving.core.values.tensors import SERVING_DEFAULT
from ie_serving.inference.examples import ExampleCodec
from ie_serving.inference.interface import Api, Interface
from ie_serving.inference.plane import DataPlane
from ie_serving.inference.sequence_elsewhere import open_to_clients
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.served_models import ServedModel, ServedModels
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.metrics.tensorflow_families import REQUEST_COUNT
from ie_serving.wire.tfs.classify_regress import parse_examples, serialize_examples
from tests.stand_in_engine import StandInEngine
from tests.unit.inference.stand_ins import MODEL, Loaded, servable


class Elsewhere:
    """A compiled model whose sequences another version has."""

    def __init__(self, inner: Any, version: int) -> None:
        self.signatures = inner.signatures
        self.version = version
        self.served: list[int] = []

    def serve(self, version: int) -> None:
        self.served.append(version)

    async def infer(self, *_: object) -> None:
        raise SequenceElsewhere(f"version {self.version} has it", self.version)

    def close(self) -> None:
        """Hold nothing."""


class World:
    """Version 3, which has every sequence, and version 4, the default, which has none."""

    def __init__(self, *available: int) -> None:
        plain = servable(StandInEngine())
        signatures = plain.compiled.signatures
        self.newest = Servable(MODEL, 4, Elsewhere(plain.compiled, 3), signatures)  # type: ignore[arg-type]
        stream: Any = Loaded(MODEL, [plain, self.newest], {"old": 3, "new": 4})
        stream.available = {n: each for n, each in stream.available.items() if n in available}
        models = ServedModels()
        models.entries = {MODEL: ServedModel(ModelConfig(name=MODEL, base_path="/nowhere"), stream)}
        self.metrics = Metrics()
        self.metrics.keep([MODEL])
        codec = ExampleCodec(parse_examples, serialize_examples)
        self.plane = DataPlane(models, self.metrics, codec, method_name_check=False)
        self.interface: Interface[Any] = Interface(
            entrypoint="GRPC",
            labels={Api.PREDICT: "Predict"},
            encoders=lambda of, signature, outputs: {None: lambda found: (of.version, found)},
            unknown_signature=lambda of, name: NotFound(name),
        )

    async def ask(self, **model: Any) -> tuple[int, Mapping[str, Any]]:
        x = np.ones((1, 1), np.float32)
        spec = ModelSpec(MODEL, **model)
        request = InferRequest(spec, SERVING_DEFAULT, lambda signature: ({"x": x}, None), 0)
        answer: tuple[int, Mapping[str, Any]] = await self.plane.predict(
            request, self.interface, 0.0
        )
        return answer

    def counted(self) -> list[str]:
        lines = self.metrics.text().splitlines()
        return [line.rpartition("status=")[2] for line in lines if line.startswith(REQUEST_COUNT)]


@pytest.mark.parametrize("model", [{}, {"version": 0}, {"label": "new"}], ids=str)
async def test_the_version_that_has_the_sequence_answers(model: dict[str, Any]) -> None:
    world = World(3, 4)
    version, found = await world.ask(**model)
    assert (version, found["y"].tolist()) == (3, [[2.0]])
    assert world.counted() == ['"OK"} 1']
    assert world.newest.holders == 0


async def test_a_client_that_names_a_version_is_told_of_the_other_one() -> None:
    world = World(3, 4)
    with pytest.raises(SequenceElsewhere, match="version 3 has it"):
        await world.ask(version=4)
    assert world.counted() == ['"NOT_FOUND"} 1']


async def test_a_version_that_is_no_longer_available_is_not_asked() -> None:
    world = World(4)
    with pytest.raises(SequenceElsewhere, match="version 3 has it"):
        await world.ask()
    assert world.counted() == ['"NOT_FOUND"} 1']


async def test_a_version_opens_to_clients_when_it_is_warm(tmp_path: Any) -> None:
    world = World(3, 4)
    await open_to_clients(world.newest, tmp_path)
    await open_to_clients(servable(StandInEngine()), tmp_path)  # one without sequences
    assert isinstance(world.newest.compiled, Elsewhere)
    assert world.newest.compiled.served == [4]
