"""What several workers cannot serve as one server is refused before anything starts."""

from dataclasses import replace

import pytest

from ie_serving.config.schema.contradictions import check, check_models
from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.layer_options import Sequences
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.fleet.repository import ModelRepository
from ie_serving.models.traffic.shadow import Shadow
from tests.tables import named_by

STATEFUL = ModelConfig(
    name="m", base_path="/m", engine=EngineOptions(own=(Sequences(stateful=True),))
)
TWO = ServerSettings(workers=2)


@named_by(
    "said",
    ("settings", "said"),
    [
        (Settings(server=TWO, models=(STATEFUL,)), "model m is stateful"),
        (Settings(server=replace(TWO, grpc_transport="grpcio"), models=()), "grpcio accepts"),
        (
            Settings(server=replace(TWO, max_connections_per_address=9), models=()),
            "connections of an address",
        ),
        (Settings(server=replace(TWO, shared_memory=True), models=()), "regions of shared memory"),
    ],
)
def test_a_model_that_one_process_alone_can_keep_is_refused(settings: Settings, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check(settings)
    check(replace(settings, server=replace(settings.server, workers=1)))


def test_a_reload_to_a_stateful_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="model m is stateful"):
        check_models(TWO, [STATEFUL])
    check_models(ServerSettings(), [STATEFUL])


def test_a_model_that_is_always_loaded_cannot_be_pinned_nor_a_stateful_one_unloaded() -> None:
    pinned = ModelConfig(name="m", base_path="/m", pinned=True)
    on_demand = ServerSettings(load="on_demand")
    for refuse in (check_models, lambda s, m: check(Settings(server=s, models=tuple(m)))):
        with pytest.raises(ConfigError, match='model m is always loaded: "pinned" has no effect'):
            refuse(ServerSettings(), [pinned])
        refuse(on_demand, [pinned])
        with pytest.raises(ConfigError, match="to unload it would lose its sequences"):
            refuse(on_demand, [STATEFUL])


def test_a_shadow_is_a_model_that_can_answer() -> None:
    one = ModelConfig(name="one", base_path="/1", shadow=Shadow(model="m", sampling_rate=0.1))
    two = ModelConfig(name="m", base_path="/m")
    place = "the shadow of model one: model m"
    for refuse in (check_models, lambda s, m: check(Settings(server=s, models=tuple(m)))):
        with pytest.raises(ConfigError, match=f"{place} is stateful"):
            refuse(ServerSettings(), [one, STATEFUL])
        refuse(ServerSettings(), [one, two])
    with pytest.raises(ConfigError, match=f"{place} is not configured; name one of one"):
        check(Settings(server=ServerSettings(), models=(one,)))
    check_models(ServerSettings(), [one])  # a reload may have added directories
    many = (ModelRepository(base_path="/many"),)
    alone = Settings(server=ServerSettings(), models=(one,))
    for settings in (replace(alone, repositories=many), replace(alone, in_file=many)):
        check(settings)


def test_faults_of_every_kind_are_reported_together() -> None:
    server = replace(
        TWO, grpc_transport="grpcio", port=8500, rest_port=8500, tls_key="k", enable_auth=True
    )
    with pytest.raises(ConfigError) as refused:
        check(Settings(server=server, models=(STATEFUL,)))
    told = ("grpcio accepts", "model m is stateful", "same port", "tls_key", "enable_auth")
    assert [word in str(refused.value) for word in told] == [True] * len(told)
