"""`ie_serving config import FILE`: prints another server's configuration as one of ours, and ends.

Files of Konduit Serving and of simple_tensorflow_serving, and pipelines of OpenVINO Model Server.
What was left out stands in comments at the top, which our configuration file may have.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ie_serving.compat.konduit import config_file as konduit
from ie_serving.compat.konduit.pipeline.definition import PYTHON
from ie_serving.config.files import graphs, json_file, pipelines, source
from ie_serving.config.values.faults import Faults
from ie_serving.config.values.structures import json_text
from ie_serving.core.errors import ConfigError
from ie_serving.engines.base import AUTO
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.tensorflow.options import TensorFlowOptions
from ie_serving.models.configuration import ModelConfig

WORDS: Final = ("config", "import")
MODELS: Final = "model_config_list"
PLATFORM: Final = "platform"
"""A key by which an entry of a list of models is simple_tensorflow_serving's."""
PICKLE: Final = "pickles are read: give --allow_pickle"


def run(argv: Sequence[str]) -> list[str]:
    """Translate the file; give the lines to print.

    Args:
        argv: without the program's name and `WORDS`.

    Raises:
        ConfigError: every fault of the file, or that it is no other server's.
        SystemExit: `--help`, or flags that do not belong here.
    """
    parser = argparse.ArgumentParser(
        prog=f"ie_serving {' '.join(WORDS)}",
        description="Print a configuration of Konduit Serving or simple_tensorflow_serving, or"
        " pipelines of OpenVINO Model Server, as a configuration of ie_serving.",
        allow_abbrev=False,
    )
    parser.add_argument("file", help="the other server's file, JSON or YAML")
    path = Path(parser.parse_args(argv).file).absolute()
    found, notes = _translated(path)
    text = json.dumps(found, indent=4, ensure_ascii=False)
    return [*(f"// {note}" for note in dict.fromkeys(notes)), *text.split("\n")]


def _translated(path: Path) -> tuple[dict[str, Any], list[str]]:
    top = decoded(path)
    if not isinstance(top, Mapping):
        raise ConfigError([f"{path}: expected an object"])
    if konduit.is_konduit(top):
        return _of_konduit(path)
    if pipelines.KEY in top:
        return _of_pipelines(top)
    entries = top[MODELS] if isinstance(top.get(MODELS), list) else []
    if any(isinstance(each, Mapping) and PLATFORM in each for each in entries):
        return _of_stfs(path)
    raise ConfigError(
        [
            f"{path}: not a file of another server: expected the key {konduit.KEY} of Konduit"
            f" Serving, {pipelines.KEY} of OpenVINO Model Server, or models with {PLATFORM} of"
            " simple_tensorflow_serving; every other file can be served as it is"
        ]
    )


def decoded(path: Path) -> Any:  # noqa: ANN401 (whatever the file holds)
    """Decode a file by its extension. Raises: ConfigError."""
    text = source.read_text(path)
    if path.suffix.lower() in source.YAML_SUFFIXES:
        from ie_serving.config.files.yaml_text import yaml_text

        return yaml_text(text, str(path))
    return json_text(json_file.without_comments(text), str(path))


def _of_konduit(path: Path) -> tuple[dict[str, Any], list[str]]:
    found = source.read(path)
    *models, default = found.models
    assert default.graph is not None  # the pipeline comes last
    entries = [_entry(model, {}) for model in models]
    top = {MODELS: entries, konduit.KEY: json.loads(default.graph.text)}
    notes = [*found.warnings]
    if found.rest_port:
        notes.append(f"port: give --rest_port {found.rest_port}")
    if any(step["@type"] == PYTHON for step in konduit.steps_of(top[konduit.KEY])):
        notes.append("steps of type PYTHON run: give --allow_python")
    return top, notes


def _of_pipelines(top: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    faults = Faults()
    code = pipelines.libraries(top, faults)
    made = [graph for _, graph in pipelines.translated(top[pipelines.KEY], code, faults)]
    own = top.get(graphs.KEY) or []
    if not isinstance(own, list):
        faults.add(graphs.KEY, "expected a list")
    faults.check()
    rest = {key: value for key, value in top.items() if key in json_file.TOP_KEYS}
    for key in (pipelines.KEY, pipelines.LIBRARIES):
        rest.pop(key, None)
    notes = [f"{key}: left out" for key in top if key not in json_file.TOP_KEYS]
    return {**rest, graphs.KEY: [*own, *made]}, notes


def _of_stfs(path: Path) -> tuple[dict[str, Any], list[str]]:
    # Here, not above: the words of that server are many.
    from ie_serving.compat.stfs import dialect as stfs

    models = stfs.parse([f"--model_config_file={path}"], {}).settings.models
    return {MODELS: [_entry(model, _of_engine(model)) for model in models]}, [
        *(PICKLE for model in models if model.engine.allow_pickle)
    ]


def _of_engine(model: ModelConfig) -> dict[str, Any]:
    """Give the keys by which a model of simple_tensorflow_serving differs from one of ours."""
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


def _entry(model: ModelConfig, keys: Mapping[str, Any]) -> dict[str, Any]:
    return {"config": {"name": model.name, "base_path": model.base_path, **keys}}
