"""Where this server's parts join ours. See `core.compat.Additions`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ie_serving.compat.stfs import STFS
from ie_serving.engines.base import AUTO
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.tensorflow.options import TensorFlowOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.server.fronts.rest.routes import Routes

if TYPE_CHECKING:
    from ie_serving.config.dialects.importing import Translated
    from ie_serving.server.fronts.other_servers import Chain, RestParts

PLATFORM: Final = "platform"
"""A key by which an entry of a list of models is this server's."""
PICKLE: Final = "pickles are read: give --allow_pickle"


def with_routes(chain: "Chain", parts: "RestParts") -> "Chain":
    """Put the API before `chain` where the server was started as this one."""
    if parts.settings.server.old_front != STFS:
        return chain
    from ie_serving.compat.stfs.front.front import StfsFront
    from ie_serving.compat.stfs.front.routes import asked, verb_of

    return chain.behind(Routes(asked, verb_of, lambda: StfsFront(parts)))


def translated(path: Path, top: Mapping[str, Any]) -> "Translated | None":
    """Give a list of models as ours, for `ie_serving config import`; None for any other file."""
    # Here, not above: the words of this server are many.
    from ie_serving.compat.stfs import dialect
    from ie_serving.config.dialects.importing import MODELS, entry

    entries = top[MODELS] if isinstance(top.get(MODELS), list) else []
    if not any(isinstance(each, Mapping) and PLATFORM in each for each in entries):
        return None
    models = dialect.parse([f"--model_config_file={path}"], {}).settings.models
    return {MODELS: [entry(model, _of_engine(model)) for model in models]}, [
        *(PICKLE for model in models if model.engine.allow_pickle)
    ]


def _of_engine(model: ModelConfig) -> dict[str, Any]:
    """Give the keys by which a model of this server differs from one of ours."""
    found: dict[str, Any] = {"model_version_policy": {"all": {}}}
    if model.engine.driver != AUTO:
        return {**found, "driver": model.engine.driver}
    tensorflow = model.engine.of(TensorFlowOptions)
    keys = {
        "inference_precision": model.engine.of(OpenVinoOptions).inference_precision,
        "tensorflow_fallback": tensorflow.fallback,
        "custom_op_paths": [*tensorflow.custom_op_paths],
    }
    return {**found, **{key: value for key, value in keys.items() if value}}
