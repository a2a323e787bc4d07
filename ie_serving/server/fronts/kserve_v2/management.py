"""What the protocol tells and changes of models and server beside inferences, for REST and gRPC."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

from ie_serving.core.values.signatures import named
from ie_serving.models.repository.version_policy import VersionPolicy
from ie_serving.models.served import ServedModels
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.kserve_v2.repository import Repository
from ie_serving.server.fronts.kserve_v2.server_settings import ServerSettingCalls
from ie_serving.server.fronts.kserve_v2.shared_memory import SharedMemory
from ie_serving.wire.kserve.model_metadata import Described, model_config
from ie_serving.wire.kserve.regions import Off


class Management(NamedTuple):
    """The calls for the models that one caller may see.

    Attributes:
        repository: index, load and unload.
        settings: of log and traces.
        regions: of shared memory, the same for all callers.
    """

    repository: Repository
    settings: ServerSettingCalls
    regions: SharedMemory | Off


MakeManagement = Callable[[ServedModels], Management]


def config_of(servable: Servable, served: ServedModels) -> dict[str, Any]:
    """Describe a version that serves as Triton's ModelConfig. Raises: NotFound."""
    signature = named(
        servable.signatures, "", f'model "{servable.name}" version {servable.version}'
    )
    model = served.entry(servable.name).config
    described = Described(
        servable.name,
        _policy(model.version_policy),
        servable.compiled.at_once(signature),
        model.batching.rows,
        model.batching.batch_timeout_micros,
        model.keeps_sequences,
        model.declared.max_batch_size if model.declared else 0,
    )
    return model_config(described, signature)


def _policy(policy: VersionPolicy) -> dict[str, Any]:
    fields = asdict(policy)
    shown = {k: sorted(v) if isinstance(v, frozenset) else v for k, v in fields.items()}
    return {type(policy).__name__.lower(): shown}
