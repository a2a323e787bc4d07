"""Translates a list of models to ours, for `ie_serving config import`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ie_serving.compat.stfs.dialect import parse
from ie_serving.config.dialects.importing import MODELS, Translated, entry
from ie_serving.engines.base import AUTO
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.tensorflow.options import TensorFlowOptions
from ie_serving.models.configuration import ModelConfig

PICKLE: Final = "pickles are read: give --allow_pickle"


def translated(path: Path, top: Mapping[str, Any]) -> Translated | None:
    """Give the configuration; None for any other file."""
    entries = top[MODELS] if isinstance(top.get(MODELS), list) else []
    if not any(isinstance(each, Mapping) and "platform" in each for each in entries):
        return None
    models = parse([f"--model_config_file={path}"], {}).settings.models
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
