"""`ie_serving check` and `tensorflow_model_server --dry_run`: report what would serve, and by what.

    model resnet, version 7
      serving_default: served by OpenVINO
      lines: not served: saved_model.pb: signature 'lines' cannot be converted: ...
        TensorFlow can run it in a process of its own: set --tensorflow_fallback
    model resnet: label canary: version 9 would not be served
    model resnet: version 8: clients of version 7 would fail: signature "lines" is gone

Each of several causes, which a status joins by "; ", gets its own line. Every version is read and
compiled as for serving, and graphs are checked against the signatures of their models. No port is
opened.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ie_serving.config.settings import Settings
from ie_serving.core.values.breaking_changes import summary
from ie_serving.core.values.errors import ConfigError, LoadFailed, NotFound, ServingError, causes
from ie_serving.core.values.hints import nearest
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.tensors import Signature
from ie_serving.engines.base import Engine
from ie_serving.engines.graph.engine import GraphEngine
from ie_serving.models.configuration import REFUSE, ModelConfig
from ie_serving.models.repository.version_policy import Specific
from ie_serving.models.version.examine import ExaminedVersion, examine
from ie_serving.storage.backends.storage_opener import LOCAL, store_of
from ie_serving.storage.base import Storage
from ie_serving.storage.inline_version import InlineVersion
from ie_serving.telemetry.log.progress import ProgressLine

OpenStorage = Callable[[str], Storage]
"""Opens the storage of a base path."""
EngineOf = Callable[[ModelConfig], Engine]
"""Gives the engine of a model."""
Try = Callable[[], object]
"""Reads what the server reads at its start. Raises ServingError."""

NOT_ALL = 1
"""Exit code if a model, version or signature would not be served, or a setting has no effect."""


def check(
    settings: Settings,
    engine_of: EngineOf,
    open_storage: OpenStorage,
    *,
    at_start: Try = lambda: None,
    without_effect: Sequence[str] = (),
    as_json: bool = False,
) -> int:
    """Print the report on standard output; give the exit code.

    Args:
        settings: settings of the server that would start.
        engine_of: gives the engine of a model.
        open_storage: opens a base path.
        at_start: reads certificates and keys.
        without_effect: texts about the settings that would not work as written.
        as_json: print one document at the end instead of lines.
    """
    with ProgressLine("checking", len(settings.models), "models") as progress:
        report = _Report(progress, as_json=as_json)
        report.server(at_start, without_effect)
        takes_base = not settings.server.announce_as_tfs
        examine_all = partial(_versions, open_storage=open_storage, takes_base=takes_base)
        examination = _Examination(settings.models, engine_of, examine_all, report)
        for done, model in enumerate(settings.models):
            progress.show(done)
            examination.of(model.name)
    if as_json:
        print(json.dumps(report.document()))
    return 0 if report.is_whole else NOT_ALL


NO_VERSION = -1
"""Stands for the number if a model has no version."""


@dataclass(frozen=True)
class _UsableVersion:
    """A version that graphs may use, with the parts that a graph needs at load."""

    version: int
    signatures: Mapping[str, Signature]


class _Examination:
    """Examines each model once, and the models that a graph uses before the graph."""

    def __init__(
        self,
        models: Sequence[ModelConfig],
        engine_of: EngineOf,
        examine_all: Callable[[ModelConfig, Engine], Iterator[ExaminedVersion]],
        report: "_Report",
    ) -> None:
        self._models = {model.name: model for model in models}
        self._engine_of = engine_of
        self._examine_all = examine_all
        self._report = report
        self._found: dict[str, list[ExaminedVersion]] = {}
        self._under_way: list[str] = []

    def of(self, name: str) -> Sequence[ExaminedVersion]:
        """Give the versions of a model, examined at the first call.

        Raises:
            NotFound: the model is not configured.
            LoadFailed: it is a graph that uses itself.
        """
        if name not in self._models:
            meant = nearest(name, self._models)
            raise NotFound(f'no model "{name}" is configured: add it{meant}')
        if name in self._under_way:
            circle = " -> ".join([*self._under_way, name])
            raise LoadFailed(f"graphs use each other: {circle}; remove one use")
        if name not in self._found:
            self._under_way.append(name)
            self._found[name] = [*self._report.model(self._models[name], self._versions(name))]
            self._under_way.pop()
        return self._found[name]

    def handle(self, spec: ModelSpec) -> Any:  # noqa: ANN401  of a `Held`, what plans use
        """Give the version that a step of a graph uses. See `engines.other_models.OtherModels`."""
        serve = {each.version: each for each in self.of(spec.name) if each.served}
        wanted = spec.version
        if spec.label is not None:
            wanted = self._models[spec.name].version_labels.get(spec.label, NO_VERSION)
        found = serve.get(max(serve, default=NO_VERSION) if wanted is None else wanted)
        if found is None:
            which = f" with the label {spec.label}" if spec.label else ""
            number = "" if spec.version is None else f" {spec.version}"
            raise NotFound(
                f'no version{number} of model "{spec.name}"{which} would be served: see its lines'
            )
        return _UsableVersion(found.version, found.signatures)

    def _versions(self, name: str) -> Iterator[ExaminedVersion]:
        model = self._models[name]
        engine = GraphEngine(self._engine_of(model), self, lambda step, seconds: None)
        return self._examine_all(model, engine)


class _Report:
    """Reports findings: lines while examining, or one JSON document at the end."""

    def __init__(self, progress: ProgressLine, *, as_json: bool) -> None:
        self._progress = progress
        self._as_json = as_json
        self._models: dict[str, Any] = {}
        self._server: list[str] = []
        self.is_whole = True

    def server(self, at_start: Try, without_effect: Sequence[str]) -> None:
        """Read the files that the server reads at its start; report what would not work."""
        self._server = [*without_effect]
        try:
            at_start()
        except ServingError as error:
            self._server += [str(cause) for cause in causes(error)]
        self.is_whole = not self._server
        self._print_lines([f"server: {cause}" for cause in self._server])

    def model(
        self, model: ModelConfig, versions: Iterator[ExaminedVersion]
    ) -> Sequence[ExaminedVersion]:
        """Report each version of a model once examined, then its labels; give the versions."""
        self._progress.say(f"checking {model.name}")
        found: list[ExaminedVersion] = []
        for examined in versions:
            found.append(examined)
            self.is_whole = self.is_whole and examined.is_whole
            self._print_lines([*_report(model.name, examined)])
        labels, traffic = [*_labels(model, found)], [*_traffic(model, found)]
        refuses = model.signature_changes == REFUSE
        changes = [*_changes(found, refuses=refuses)]
        held_back = changes if refuses else []
        self.is_whole = self.is_whole and not (labels or traffic or held_back)
        self._print_lines(
            [f"model {model.name}: {fault}" for fault in (*labels, *traffic, *changes)]
        )
        shown = {
            "versions": [_version_document(each) for each in found],
            "signature_changes": changes,
        }
        self._models[model.name] = {**shown, "labels": labels, "traffic": traffic}
        return found

    def document(self) -> dict[str, Any]:
        """Give the whole report."""
        return {"ok": self.is_whole, "server": self._server, "models": self._models}

    def _print_lines(self, lines: Sequence[str]) -> None:
        if lines and not self._as_json:
            self._progress.erase()
            print("\n".join(lines), flush=True)


def _version_document(examined: ExaminedVersion) -> dict[str, Any]:
    return {
        "version": None if examined.version == NO_VERSION else examined.version,
        "served": dict(examined.served),
        "left_out": dict(examined.left_out),
        "fault": examined.fault,
        "ok": examined.is_whole,
    }


def _labels(model: ModelConfig, found: Sequence[ExaminedVersion]) -> Iterator[str]:
    """Name the labels that would not be set, since their versions do not load."""
    serve = {each.version for each in found if each.served}
    for label, version in sorted(model.version_labels.items()):
        if version not in serve:
            yield f"label {label}: version {version} would not be served"


def _traffic(model: ModelConfig, found: Sequence[ExaminedVersion]) -> Iterator[str]:
    """Name the versions whose share of split traffic would go to others."""
    serve = {each.version for each in found if each.served}
    for version, share in model.split.numbered.items() if model.split else ():
        if share and version not in serve:
            yield f"traffic: version {version} would not be served, and its {share} % go to others"


def _changes(found: Sequence[ExaminedVersion], *, refuses: bool) -> Iterator[str]:
    """Name the versions that break clients of the next lower version that is not held back."""
    before: ExaminedVersion | None = None
    for each in sorted((each for each in found if each.served), key=lambda each: each.version):
        if before and (text := summary(before.signatures, each.signatures)):
            yield f"version {each.version}: clients of version {before.version} would fail: {text}"
            if refuses:
                continue
        before = each


def _versions(
    model: ModelConfig, engine: Engine, open_storage: OpenStorage, *, takes_base: bool
) -> Iterator[ExaminedVersion]:
    found = False
    try:
        storage = _storage(model, open_storage)
        shares = model.split.numbered if model.split else ()
        wanted = [*model.version_labels.values(), *shares]
        for each in examine(
            storage,
            engine,
            model.version_policy,
            model.engine,
            wanted,
            lists_base=store_of(model.base_path) == LOCAL,
            takes_base=takes_base,
        ):
            found = True
            yield each
    except ServingError as error:
        yield ExaminedVersion(NO_VERSION, fault=str(error))
    else:
        if not found:
            yield ExaminedVersion(NO_VERSION, fault=_none(model))


def _none(model: ModelConfig) -> str:
    if isinstance(model.version_policy, Specific):
        named = ", ".join(map(str, sorted(model.version_policy.versions)))
        return (
            f"none of the versions {named} that model_version_policy names is under"
            f" {model.base_path}: upload one of them, or name one that is there"
        )
    return f"no version under {model.base_path}: expected directories named by numbers"


def _storage(model: ModelConfig, open_storage: OpenStorage) -> Storage:
    if model.fault:
        raise ConfigError([model.fault])
    if model.graph is None:
        return open_storage(model.base_path)
    stated = model.graph
    return InlineVersion(model.base_path, stated.version, stated.file, stated.text)


def _report(name: str, examined: ExaminedVersion) -> Iterator[str]:
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
