"""A file of Konduit Serving: its `pipeline` is the model `default`, asked by `POST /predict`.

The files that its steps name become models of this server. Of the words beside the pipeline those
that say where the server listens are taken; what would make it another server is refused.
Source: `InferenceConfiguration` of Konduit Serving, in JSON, and in snake case in YAML.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ie_serving.compat.konduit import FILE
from ie_serving.compat.konduit.pipeline import definition
from ie_serving.compat.konduit.pipeline.definition import MODEL, MODELS, PYTHON, read
from ie_serving.config.files.json_file import TOP_KEYS, ConfigFile, FileFindings, listed_models
from ie_serving.core.settings.faults import Faults
from ie_serving.core.settings.words import resolved
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.base import EngineOptions
from ie_serving.models.configuration import ConfiguredGraph, ModelConfig

if TYPE_CHECKING:
    from ie_serving.config.dialects.importing import Translated

KEY: Final = "pipeline"
MODEL_LIST: Final = "model_config_list"
NAME: Final = "default"
"""Name of the model that the pipeline is."""

_TLS = "certificate and key are named by flags of the server"
REFUSED: Mapping[str, str] = {"useSsl": _TLS, "customEndpoints": "classes of Java are not loaded"}
"""Words beside the pipeline that are refused, unless they are off or empty; with what to do."""
IGNORED: Mapping[str, str] = {
    "host": "addresses are named by flags of the server",
    "sslKeyPath": _TLS,
    "sslCertificatePath": _TLS,
    "staticContentRoot": "no static pages are served",
    "staticContentUrl": "no static pages are served",
    "staticContentIndexPage": "no static pages are served",
    "kafkaConfiguration": "only HTTP is spoken",
    "mqttConfiguration": "only HTTP is spoken",
}
"""Words beside the pipeline without effect, with the reason."""
PORT, PROTOCOL = "port", "protocol"
KEYS = frozenset({KEY, PORT, PROTOCOL, *REFUSED, *IGNORED})


def config_file(
    top: Mapping[str, Any], origin: Path, engine: EngineOptions, findings: FileFindings
) -> ConfigFile | None:
    """Read a file of Konduit, which may also have a list of models; None for any other file.

    Raises:
        ConfigError: every fault of the file.
    """
    if not is_konduit(top):
        return None
    top = in_camel_case(top)
    own = TOP_KEYS.keys() - KEYS - {MODEL_LIST}
    for key in sorted(own & top.keys()):
        findings.add(key, f"it cannot stand beside {KEY}: make one file for each server's words")
    findings.unknown(top, KEYS | {MODEL_LIST} | own, "")
    findings.warnings += ignored(top, findings)
    listed = tuple(listed_models(top, origin, engine, findings)) if MODEL_LIST in top else ()
    known = {model.name: model.base_path for model in listed}
    every = (*listed, *models(top, origin, known, engine, findings))
    port = rest_port(top, findings)
    findings.check()
    return ConfigFile(models=every, rest_port=port, warnings=findings.all_warnings())


def is_konduit(top: object) -> bool:
    """Tell whether a decoded file is Konduit's."""
    return isinstance(top, Mapping) and KEY in top


def in_camel_case(top: Mapping[str, Any]) -> dict[str, Any]:
    """Name Konduit's words as JSON does: YAML has them in snake case."""
    camel = {re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key): key for key in KEYS}
    found = {camel.get(key, key): value for key, value in top.items()}
    return {**found, KEY: definition.in_camel_case(found[KEY])}


def rest_port(top: Mapping[str, Any], faults: Faults) -> int:
    """Give the port that a file asks for; 0 for none, which Konduit takes for any."""
    port = top.get(PORT) or 0
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 1 << 16:
        faults.add(PORT, f"{port!r} given; expected a number from 0 to 65535")
        return 0
    return port


def ignored(top: Mapping[str, Any], faults: Faults) -> Iterator[str]:
    """Refuse what cannot be had, and yield a warning for each word that has no effect."""
    for key, advice in REFUSED.items():
        if top.get(key):
            faults.add(key, f"{top[key]!r} given; {advice}")
    protocol = str(top.get(PROTOCOL) or "HTTP")
    if protocol.upper() != "HTTP":
        faults.add(PROTOCOL, f"{protocol!r} given; only HTTP is spoken: remove it")
    for key, reason in IGNORED.items():
        if top.get(key):
            yield f"{key} has no effect: {reason}"


def models(
    top: Mapping[str, Any],
    origin: Path,
    known: Mapping[str, str],
    engine: EngineOptions,
    faults: Faults,
) -> Iterator[ModelConfig]:
    """Read the pipeline, and the models that its steps name by their files.

    Args:
        top: the file.
        origin: its directory, where paths begin.
        known: base paths of the models of the file, by name.
        engine: options that hold for all models.
        faults: faults of the file.
    """
    try:
        read(top[KEY], KEY)
    except ConfigError as error:
        faults.found.extend(error.faults)
        return
    if NAME in known:
        faults.add(KEY, f'it is the model "{NAME}"; rename the other model of this name')
    paths = dict(known)
    for step in steps_of(top[KEY]):
        if step["@type"] in MODELS:
            place = f"{KEY}.steps: {step['@type']}"
            _choose_model(step, origin, paths, place, faults)
        elif step["@type"] == PYTHON:
            _resolve_paths(step["pythonConfig"], origin)
    for name in [each for each in paths if each not in known]:
        yield ModelConfig(name=name, base_path=paths[name], engine=engine)
    graph = ConfiguredGraph(text=json.dumps(top[KEY]), file=FILE)
    yield ModelConfig(name=NAME, base_path=f"konduit:{NAME}", graph=graph, engine=engine)


def steps_of(pipeline: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the steps of a pipeline that could be read."""
    steps = pipeline["steps"]
    yield from steps.values() if isinstance(steps, Mapping) else steps


# Changes `step` in place: the parsed file is not read again.
def _choose_model(
    step: dict[str, Any], origin: Path, paths: dict[str, str], place: str, faults: Faults
) -> None:
    """Name the model of a step: one that the file has, or a new one of its file."""
    if MODEL in step:
        if step[MODEL] not in paths:
            known = ", ".join(paths) or "none"
            text = f"{MODEL} is {step[MODEL]!r}; expected a model of the file, which has {known}"
            faults.add(place, text)
        return
    uri = step["modelUri"]
    if not isinstance(uri, str) or not uri:
        faults.add(place, f"modelUri is {uri!r}; expected the path of a model")
        return
    path = resolved(uri.removeprefix("file://").removeprefix("file:"), origin)
    named = next((name for name, there in paths.items() if there == path), "")
    step[MODEL] = named or _free_name(path, paths)
    paths[step[MODEL]] = path


def _free_name(path: str, taken: Mapping[str, str]) -> str:
    stem = re.sub("[/:]", "_", Path(path).stem) or "model"
    names = (stem, *(f"{stem}_{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken and name != NAME)


def _resolve_paths(given: object, origin: Path) -> None:
    if isinstance(given, dict):
        for key in ("pythonCodePath", "importCodePath"):
            if isinstance(given.get(key), str):
                given[key] = resolved(given[key], origin)


def translated(path: Path, top: Mapping[str, Any]) -> "Translated | None":
    """Translate the file for `ie_serving config import`; None for any other file."""
    if not is_konduit(top):
        return None
    # Here: only this command needs them.
    from ie_serving.config.dialects.importing import MODELS as OWN_MODELS
    from ie_serving.config.dialects.importing import entry
    from ie_serving.config.files import source

    found = source.read(path)
    *models, default = found.models
    assert default.graph is not None  # the pipeline comes last
    pipeline = json.loads(default.graph.text)
    notes = [*found.warnings]
    if found.rest_port:
        notes.append(f"port: give --rest_port {found.rest_port}")
    if any(step["@type"] == PYTHON for step in steps_of(pipeline)):
        notes.append("steps of type PYTHON run: give --allow_python")
    return {OWN_MODELS: [entry(model, {}) for model in models], KEY: pipeline}, notes
