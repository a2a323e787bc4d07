"""The JSON configuration file: `{"model_config_list": [{"config": {...}}, ...]}`.

Its form is that of `ie_serving` 2020 and of OpenVINO Model Server. Faults are all found before one
error is raised, each with its JSON path. Unknown keys warn, so that a newer file still starts.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeGuard

from ie_serving.config.files.graph_directories import GRAPHS as MEDIAPIPE
from ie_serving.config.files.graph_directories import REPOSITORIES, moved
from ie_serving.config.schema import foreign
from ie_serving.config.schema.catalogue import MODEL
from ie_serving.config.schema.model import beside, conflicts, model_config
from ie_serving.core.compat import added
from ie_serving.core.settings import words
from ie_serving.core.settings.faults import Faults, fault, shown
from ie_serving.core.settings.structures import json_text
from ie_serving.core.settings.words import boolean, resolved
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.hints import Hint, nearest
from ie_serving.engines.base import EngineOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.fleet.repository import ModelRepository
from ie_serving.telemetry.metrics.ovms_families import FAMILIES

OVMS_FAMILIES = "ovms_"
"""Beginning of the names of OpenVINO Model Server's metrics."""
METRICS_PATH = "/metrics"
"""Default route of the metrics. Source: OpenVINO Model Server."""
REPOSITORY_KEYS: Final = frozenset({"base_path", "include", "exclude"})
"""Keys of an entry of `model_repository_list`."""

Unknown = Callable[[Mapping[str, Any], frozenset[str], str], None]
"""Warns of keys that are not known, at a place."""

# A string or comment without an end extends to the end of the text: otherwise each quote in it
# would begin another search for an end, which takes hours for a long text.
_COMMENT = re.compile(
    r'("(?:\\.|[^"\\])*(?:"|\\?\Z)|/\*(?!.*?\*/).*)|//[^\n]*|/\*.*?\*/', re.DOTALL
)
"""A comment; or, as its group, a text, in which `//` begins none."""
_NO_LINE_END = re.compile(r"[^\n]")
GRAPHS = frozenset({"graphs", "pipeline_config_list", MEDIAPIPE})
OVMS_KEYS = frozenset({"monitoring", "pipeline_config_list", MEDIAPIPE})
TOP_KEYS: Mapping[str, str] = {
    "model_config_list": 'list of {"config": {...}}, one for each model',
    REPOSITORIES: 'list of {"base_path", "include", "exclude"}: directories of models; see'
    " docs/guide/fleet.md",
    "graphs": 'list of {"name": "...", "steps": ..., "outputs": {...}}; see docs/guide/graphs.md',
    "pipeline_config_list": "pipelines of OpenVINO Model Server;"
    " see docs/guide/graphs-of-other-servers.md",
    MEDIAPIPE: 'graphs of MediaPipe, as OpenVINO Model Server has them: {"name", "base_path"}',
    "custom_node_library_config_list": 'list of {"name", "base_path": "FILE.py:NAME"}: code of'
    " custom nodes in pipelines",
    "pipeline": 'steps of Konduit Serving, as model "default", asked by POST /predict; see'
    " docs/guide/graphs-of-other-servers.md",
    "monitoring": f'{{"metrics": {{"enable": false}}}} serves no metrics, true'
    f' OpenVINO Model Server\'s at {METRICS_PATH}, or those of "metrics_list" alone',
}


def listed_repositories(
    given: object, origin: Path | str, findings: Faults, note_unknown: Unknown
) -> Iterator[ModelRepository]:
    """Read `model_repository_list`; faults go to `findings`.

    Args:
        given: the list.
        origin: path or URL where a relative `base_path` begins.
        findings: findings of the file.
        note_unknown: callback for unknown keys, an `Unknown`.
    """
    if not isinstance(given, list):
        findings.add(REPOSITORIES, 'expected a list such as [{"base_path": "/models"}]')
        return
    for index, entry in enumerate(given):
        place = f"{REPOSITORIES}[{index}]"
        if not isinstance(entry, Mapping):
            findings.add(place, 'expected an object such as {"base_path": "/models"}')
            continue
        note_unknown(entry, REPOSITORY_KEYS, f"{place}.")
        base_path = findings.take(words.text, entry.get("base_path"), f"{place}.base_path")
        patterns = {
            key: findings.take(_globs, entry[key], f"{place}.{key}") or ()
            for key in ("include", "exclude")
            if key in entry
        }
        if base_path is not None:
            yield ModelRepository(base_path=resolved(base_path, origin), **patterns)


def _globs(value: object, place: str) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not all(isinstance(each, str) and each for each in given):
        raise fault(place, value, 'shell globs, such as ["resnet-*", "bert"]')
    return tuple(given)


@dataclass(frozen=True, kw_only=True)
class ConfigFile:
    """The content of a configuration file."""

    models: tuple[ModelConfig, ...]

    repositories: tuple[ModelRepository, ...] = ()
    """Directories of models."""

    rest_port: int = 0
    """Port of REST in the file, used where no other setting gives one; 0 for none."""

    is_ovms: bool = False
    """Whether it has keys that only OpenVINO Model Server knows, of those that have an effect."""

    metrics: bool | None = None
    """Whether `monitoring` enables metrics; None if the file does not say so."""

    metrics_list: tuple[str, ...] = ()
    """Names of the metrics that `monitoring` chooses; empty for all."""

    warnings: tuple[str, ...] = ()


class FileFindings(Faults):
    """Faults and warnings of one file, and the keys that only another server knows."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: list[str] = []
        self.foreign: list[str] = []

    def unknown(self, given: Mapping[str, Any], known: frozenset[str], where: str) -> None:
        """Warn of every key of `given` that is not `known`."""
        for key in given:
            # Keys of both levels count: a misplaced key is reported with either.
            if key in foreign.MODEL_KEYS | foreign.TOP_KEYS:
                self.foreign.append(where + key)
            elif key not in known:
                self.warnings.append(f"{where}{key}: unknown key, ignored{nearest(key, known)}")

    def all_warnings(self) -> tuple[str, ...]:
        """Give the warnings; foreign keys stand together in one."""
        foreign = ", ".join(self.foreign)
        text = f"keys of OpenVINO Model Server without meaning here are ignored: {foreign}"
        return (*self.warnings, *([text] if foreign else []))


def parse_config_file(
    text: str, *, origin: Path, place: str, engine: EngineOptions | None = None, below: str = ""
) -> ConfigFile:
    """Read a configuration from JSON text.

    Args:
        text: the file's content.
        origin: directory that a relative `base_path` begins at, as in OpenVINO Model Server.
        place: the file's name, for faults of the text as a whole.
        engine: options that hold where an entry says nothing.
        below: URL that a relative `base_path` begins at instead, of a file in a store.

    Raises:
        ConfigError: every fault, for example
            `model_config_list[1].config.nireq: 'x' given; expected ...`.
    """
    bare = without_comments(text)
    top = json_text(bare, place) if bare.strip() else None
    return config_file(top, origin=origin, place=place, engine=engine, below=below)


def config_file(
    top: object, *, origin: Path, place: str, engine: EngineOptions | None = None, below: str = ""
) -> ConfigFile:
    """Read a configuration that is decoded already. Arguments and errors as above."""
    expected = 'an object such as {"model_config_list": []}'
    if top is None:
        raise ConfigError([f"{place}: the file is empty; expected {expected}"])
    if not isinstance(top, Mapping):
        raise fault(place, top, expected)
    findings = FileFindings()
    for other in added("config_file"):
        found: ConfigFile | None = other(top, origin, engine or EngineOptions(), findings)
        if found is not None:
            return found
    findings.unknown(top, frozenset(TOP_KEYS), "")
    top, warnings = moved(top, origin)
    findings.warnings += warnings
    if MEDIAPIPE in top:
        from ie_serving.config.files.mediapipe import with_models  # here: few files have such

        top = with_models(top, origin)
    models = tuple(listed_models(top, origin, engine or EngineOptions(), findings, below))
    repositories: tuple[ModelRepository, ...] = ()
    if REPOSITORIES in top:
        repositories = tuple(
            listed_repositories(top[REPOSITORIES], below or origin, findings, findings.unknown)
        )
    if GRAPHS & top.keys():
        # Imported on first use: few files have graphs.
        from ie_serving.config.files.graphs import graphs

        names = [model.name for model in models]
        models += tuple(graphs(top, names, engine or EngineOptions(), origin, findings))
    metrics, named = _metrics(top.get("monitoring", {}), findings)
    findings.check()
    is_ovms = not OVMS_KEYS.isdisjoint(top)
    said = findings.all_warnings()
    return ConfigFile(
        models=models,
        repositories=repositories,
        is_ovms=is_ovms,
        metrics=metrics,
        metrics_list=named,
        warnings=said,
    )


def graph_alone(top: Mapping[str, Any], place: str, *, engine: EngineOptions) -> ConfigFile:
    """Read the file that `graph_directories.alone` makes. Raises: ConfigError."""
    return config_file(top, origin=Path.cwd(), place=place, engine=engine)


def without_comments(text: str) -> str:
    """Blank the comments of C and C++, which OpenVINO Model Server accepts; positions stay."""
    return _COMMENT.sub(lambda found: found[1] or _NO_LINE_END.sub(" ", found[0]), text)


def listed_models(
    top: Mapping[str, Any],
    origin: Path,
    engine: EngineOptions,
    findings: FileFindings,
    below: str = "",
) -> Iterator[ModelConfig]:
    """Read `model_config_list`.

    Args:
        top: the file.
        origin: its directory, where paths begin.
        engine: options that hold for all models.
        findings: faults go there.
        below: argument of `parse_config_file`.
    """
    places: dict[str, str] = {}
    for where, entry in _entries(top, findings):
        found = _values(entry, where, findings)
        name = found.get("model.name")
        if name in places:
            text = f'"{name}" is the name of {places[name]} already; choose another'
            findings.add(f"{where}.name", text)
        elif name is not None:
            places[name] = where
        _note_conflicts(found, where, entry, findings)
        # Its faults are noted; the rest needs both.
        if name is None or "model.base_path" not in found:
            continue
        found["model.base_path"] = resolved(found["model.base_path"], below or origin)
        beside(found, origin)
        model, warnings = model_config(found, engine)
        findings.warnings += warnings
        yield model


def _entries(
    top: Mapping[str, Any], findings: FileFindings
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the `config` objects with their places."""
    items = top.get("model_config_list")
    if items is None and REPOSITORIES in top:
        return
    if not isinstance(items, list):
        findings.add("model_config_list", f'{_stands(items)}; expected a list of {{"config": ...}}')
        return
    for index, item in enumerate(items):
        where = f"model_config_list[{index}]"
        if _has_config(item):
            findings.unknown(item, frozenset({"config"}), f"{where}.")
            yield f"{where}.config", item["config"]
        else:
            findings.add(where, f'{_stands(item)}; expected {{"config": {{"name": ...}}}}')


def _has_config(item: object) -> TypeGuard[Mapping[str, Mapping[str, Any]]]:
    return isinstance(item, Mapping) and isinstance(item.get("config"), Mapping)


def _stands(value: object) -> str:
    return "missing" if value is None else f"{shown(value)} given"


def _values(entry: Mapping[str, Any], where: str, findings: FileFindings) -> dict[str, Any]:
    """Parse each key of one model, by name of its setting; a key at fault is left out."""
    known = {setting.key for setting in MODEL}
    findings.unknown(entry, frozenset(known | foreign.REFUSED_KEYS.keys()), f"{where}.")
    for key, text in _refused(entry, foreign.REFUSED_KEYS):
        findings.add(f"{where}.{key}", f"{text}{_of_model(entry)}")
    found = {}
    for setting in MODEL:
        place = f"{where}.{setting.key}"
        if setting.key not in entry:
            if setting.required:
                findings.add(place, f"missing; expected the {setting.meaning}")
            continue
        try:
            found[setting.name] = setting.parse(entry[setting.key], place)
        except ConfigError as error:
            findings.found.extend(f"{each}{_of_model(entry)}" for each in error.faults)
    return found


def _note_conflicts(
    found: Mapping[str, Any], where: str, entry: Mapping[str, Any], findings: FileFindings
) -> None:
    keys = {setting.name: setting.key for setting in MODEL}
    for place, text in conflicts(found):
        findings.add(f"{where}.{keys[place]}", f"{text}{_of_model(entry)}")


def _refused(given: Mapping[str, Any], refused: Mapping[str, Hint]) -> Iterator[tuple[str, str]]:
    """Yield each key that requires an unsupported feature, with advice."""
    for key, advice in refused.items():
        if foreign.asks(given.get(key)):
            yield key, f"{shown(given[key])} given; {advice}"


def _of_model(entry: Mapping[str, Any]) -> str:
    # The place has the entry's number; among fifty entries the name is easier to find.
    name = entry.get("name")
    return f' (model "{name}")' if isinstance(name, str) else ""


def known_metrics(names: object, place: str) -> tuple[str, ...]:
    """Read a list of names of OpenVINO Model Server's metrics. Raises: ConfigError."""
    known = ", ".join(FAMILIES)
    if not isinstance(names, list | tuple):
        raise fault(place, names, f"a list of some of {known}")
    for name in names:
        if name not in FAMILIES:
            raise fault(place, name, f"some of {known}")
    return tuple(names)


def _metrics(monitoring: object, findings: FileFindings) -> tuple[bool | None, tuple[str, ...]]:
    metrics = monitoring.get("metrics", {}) if isinstance(monitoring, Mapping) else None
    if not isinstance(monitoring, Mapping) or not isinstance(metrics, Mapping):
        findings.add("monitoring", 'expected an object such as {"metrics": {"enable": true}}')
        return False, ()
    findings.unknown(monitoring, frozenset({"metrics"}), "monitoring.")
    findings.unknown(metrics, frozenset({"enable", "metrics_list"}), "monitoring.metrics.")
    place = "monitoring.metrics.metrics_list"
    named = findings.take(known_metrics, metrics.get("metrics_list", ()), place) or ()
    if "enable" not in metrics:
        return None, named
    return bool(findings.take(boolean, metrics["enable"], "monitoring.metrics.enable")), named
