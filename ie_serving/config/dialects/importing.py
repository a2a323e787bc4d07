"""`ie_serving config import FILE`: prints another server's configuration as one of ours, and ends.

Reads files of Konduit Serving and of simple_tensorflow_serving, pipelines of OpenVINO Model Server,
and Triton's models. Comments at the top of the output name the parts that were left out.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ie_serving.config.files import graphs, json_file, source, triton_models
from ie_serving.core.compat import added
from ie_serving.core.settings.faults import Faults
from ie_serving.core.settings.structures import json_text
from ie_serving.core.values.errors import ConfigError
from ie_serving.models.configuration import ModelConfig

WORDS: Final = ("config", "import")
MODELS: Final = "model_config_list"

Translated = tuple[dict[str, Any], list[str]]
"""A configuration of ours, and notes on what was left out."""


def run(argv: Sequence[str]) -> list[str]:
    """Translate the file; give the lines to print.

    Args:
        argv: arguments without the program's name and `WORDS`.

    Raises:
        ConfigError: every fault of the file, or the file is not of another server.
        SystemExit: `--help`, or flags that do not belong here.
    """
    parser = argparse.ArgumentParser(
        prog=f"ie_serving {' '.join(WORDS)}",
        description="Print a configuration of Konduit Serving or simple_tensorflow_serving,"
        " pipelines of OpenVINO Model Server, or config.pbtxt of Triton, as a configuration of"
        " ie_serving.",
        allow_abbrev=False,
    )
    parser.add_argument("file", help="the other server's file, or Triton's repository")
    path = Path(parser.parse_args(argv).file).absolute()
    found, notes = _translated(path)
    text = json.dumps(found, indent=4, ensure_ascii=False)
    return [*(f"// {note}" for note in dict.fromkeys(notes)), *text.split("\n")]


def _translated(path: Path) -> Translated:
    if triton_models.is_triton(path):
        imported = triton_models.translated(path)
        made = {graphs.KEY: imported.graphs} if imported.graphs else {}
        return {MODELS: imported.models, **made}, imported.notes
    top = decoded(path)
    if not isinstance(top, Mapping):
        raise ConfigError([f"{path}: expected an object"])
    for translate in added("importing"):
        found: Translated | None = translate(path, top)
        if found is not None:
            return found
    if graphs.PIPELINES in top:
        return _of_pipelines(top)
    raise ConfigError(
        [
            f"{path}: not a file of another server: expected the key pipeline of Konduit Serving,"
            f" {graphs.PIPELINES} of OpenVINO Model Server, or models with platform of"
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


def _of_pipelines(top: Mapping[str, Any]) -> Translated:
    faults = Faults()
    code = graphs.libraries(top, faults)
    made = [graph for _, graph in graphs.translated(top[graphs.PIPELINES], code, faults)]
    own = top.get(graphs.KEY) or []
    if not isinstance(own, list):
        faults.add(graphs.KEY, "expected a list")
    faults.check()
    rest = {key: value for key, value in top.items() if key in json_file.TOP_KEYS}
    for key in (graphs.PIPELINES, graphs.LIBRARIES):
        rest.pop(key, None)
    notes = [f"{key}: left out" for key in top if key not in json_file.TOP_KEYS]
    return {**rest, graphs.KEY: [*own, *made]}, notes


def entry(model: ModelConfig, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Give the entry of a model: its base path, and `keys`."""
    return {"config": {"name": model.name, "base_path": model.base_path, **keys}}
