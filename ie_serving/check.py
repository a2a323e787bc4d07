"""`ie_serving check` and `tensorflow_model_server --dry_run`: what would be served, by what.

    model resnet, version 7
      serving_default: served by OpenVINO
      lines: not served: saved_model.pb: signature 'lines' cannot be converted: ...
        TensorFlow can run it in a process of its own: set --tensorflow_fallback

Each of several causes, which a status joins by "; ", has a line of its own.
Every version is read and compiled as for serving; no port is opened.
"""

from collections.abc import Callable, Iterator, Mapping

from ie_serving.config.settings import ModelConfig, Settings
from ie_serving.core.errors import ServingError
from ie_serving.engines.base import Engine
from ie_serving.models.version.examine import Examined, examine
from ie_serving.storage.base import Storage

Open = Callable[[str], Storage]
"""Opens the storage of a base path."""
EngineOf = Callable[[ModelConfig], Engine]
"""Gives the engine of a model."""

NOT_ALL = 1
"""Exit code where a model, a version or a signature would not be served."""


def check(settings: Settings, engine_of: EngineOf, open_storage: Open) -> int:
    """Print the report on standard output; give the exit code."""
    is_whole = True
    for model in settings.models:
        if model.graph is not None:
            print(f"model {model.name}, version {model.graph.version}: {GRAPH}", flush=True)
            continue
        for examined in _versions(model, engine_of(model), open_storage):
            print("\n".join(_report(model.name, examined)), flush=True)
            is_whole = is_whole and examined.is_whole
    return 0 if is_whole else NOT_ALL


GRAPH = "a graph; whether its models fit each other is seen when it is served"

NO_VERSION = -1
"""In place of a number, where a model has no version to report on."""


def _versions(model: ModelConfig, engine: Engine, open_storage: Open) -> Iterator[Examined]:
    found = False
    try:
        storage = open_storage(model.base_path)
        for each in examine(storage, engine, model.version_policy, model.engine):
            found = True
            yield each
    except ServingError as error:
        yield Examined(NO_VERSION, fault=str(error))
    else:
        if not found:
            text = f"no version under {model.base_path}: expected directories named by numbers"
            yield Examined(NO_VERSION, fault=text)


def _report(name: str, examined: Examined) -> Iterator[str]:
    version = "" if examined.version == NO_VERSION else f", version {examined.version}"
    fault = f": not served: {_apart(examined.fault)}" if examined.fault else ""
    yield f"model {name}{version}{fault}"
    causes = {name: _apart(text) for name, text in examined.left_out.items()}
    lines = {**_lines("served by", examined.served), **_lines("not served:", causes)}
    yield from (line for _, line in sorted(lines.items()))


def _lines(begin: str, texts: Mapping[str, str]) -> dict[str, str]:
    return {name: f"  {name}: {begin} {text}" for name, text in texts.items()}


def _apart(causes: str) -> str:
    return causes.replace("; ", "\n    ")
