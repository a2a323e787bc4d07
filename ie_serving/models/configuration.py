"""The configuration of one model, with its settings but those of engines."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ie_serving.core.settings import words
from ie_serving.core.settings.declaration import BOOLEAN, POLL_WAIT, REQUIRED, SettingKind, choice
from ie_serving.core.settings.faults import Faults, fault
from ie_serving.core.settings.numbers import positive, version
from ie_serving.core.settings.structures import mapping
from ie_serving.core.settings.words import too_long
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.layer_options import Batching, DeclaredTensors, Sequences
from ie_serving.models.repository.version_policy import All, Latest, Specific, VersionPolicy
from ie_serving.models.traffic.policy import Rollback, TrafficRule
from ie_serving.models.traffic.settings import ROLLBACK, SHADOW, STICKY, TRAFFIC
from ie_serving.models.traffic.shadow import Shadow

ALWAYS, ON_DEMAND = "always", "on_demand"
"""Policies that say when a model is loaded."""
ALLOW, REFUSE = "allow", "refuse"
"""Answers to a version whose signatures break clients."""


def version_labels(value: object, place: str) -> Mapping[str, int]:
    """Read label to version."""
    faults = Faults()
    given = mapping(value, place, 'an object such as {"stable": 3}')
    labels = {key: faults.take(version, item, f"{place}.{key}") for key, item in given.items()}
    if "" in labels:
        faults.add(place, "a label is empty; name it")
    for wrong in filter(None, (too_long("label", each) for each in labels)):
        faults.add(place, wrong)
    faults.check()
    return {key: item for key, item in labels.items() if item is not None}


def version_policy(value: object, place: str) -> VersionPolicy:
    """Read exactly one of `latest`, `all` and `specific`. Source: ServableVersionPolicy."""
    expected = (
        'exactly one of {"latest": {"num_versions": 1}}, {"all": {}} '
        'and {"specific": {"versions": [1]}}'
    )
    given = mapping(value, place, expected)
    if len(given) != 1:
        raise fault(place, given, expected)
    ((kind, options),) = given.items()
    if kind not in _POLICIES or not isinstance(options, Mapping):
        raise fault(place, given, expected)
    return _POLICIES[kind](options, f"{place}.{kind}")


def _latest(options: Mapping[str, Any], place: str) -> VersionPolicy:
    _refuse_other_keys(options, "num_versions", place)
    return Latest(positive(options.get("num_versions", 1), f"{place}.num_versions"))


def _all(options: Mapping[str, Any], place: str) -> VersionPolicy:
    _refuse_other_keys(options, "", place)
    return All()


def _specific(options: Mapping[str, Any], place: str) -> VersionPolicy:
    _refuse_other_keys(options, "versions", place)
    given = options.get("versions")
    if not isinstance(given, list) or not given:
        raise fault(f"{place}.versions", given, "a list of one version or more, such as [1, 3]")
    faults = Faults()
    found = [
        faults.take(version, item, f"{place}.versions[{index}]") for index, item in enumerate(given)
    ]
    faults.check()
    return Specific(frozenset(item for item in found if item is not None))


def _refuse_other_keys(options: Mapping[str, Any], key: str, place: str) -> None:
    others = sorted(set(options) - {key})
    if others:
        expected = f"only {key}" if key else "no key"
        raise ConfigError([f"{place}: unknown {', '.join(others)}; expected {expected}"])


_POLICIES: Mapping[str, Callable[[Mapping[str, Any], str], VersionPolicy]] = {
    "latest": _latest,
    "all": _all,
    "specific": _specific,
}

VERSION_POLICY: Final = SettingKind(version_policy, "JSON")
VERSION_LABELS: Final = SettingKind(version_labels, "JSON")


@dataclass(frozen=True, kw_only=True)
class ConfiguredGraph:
    """A graph of models, or another version of one file, that stands in the configuration."""

    text: str
    """Text of the graph, which a file of it would hold."""

    version: int = 1

    file: str = "graph.json"
    """Name of that file; another one is no graph, but a pipeline of Konduit or a chain of
    kibernetika-serving."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """One model: where its versions lie, which are served, and how they are compiled."""

    name: str = SettingKind(words.name, "TEXT").setting(
        REQUIRED,
        "name in requests",
        "resnet",
        flag="model_name",
        tfs="model_name",
        ovms="model_name name",
        is_common=True,
    )
    base_path: str = SettingKind(words.text, "PATH|URL").setting(
        REQUIRED,
        "directory or URL whose numeric sub-directories are the versions",
        "s3://models/resnet",
        flag="model_path",
        tfs="model_base_path",
        ovms="model_path base_path",
        is_common=True,
    )
    version_policy: VersionPolicy = VERSION_POLICY.setting(
        Latest(),
        "versions that are served: latest (N newest), all, or specific",
        '{"specific": {"versions": [1, 3]}}',
        shown='{"latest": {"num_versions": 1}}',
        word="model_version_policy",
        ovms="model_version_policy",
        is_common=True,
    )
    version_labels: Mapping[str, int] = VERSION_LABELS.setting(
        {}, 'labels, each with its version, such as {"stable": 3}', '{"stable": 3}', shown="{}"
    )
    # No flag: where one model is served, the server's interval is its own.
    poll_wait_s: float | None = POLL_WAIT.setting(
        None,
        "seconds between two listings of this model's repository; 0 lists once",
        "60",
        shown="the server's",
        flag="",
    )
    ready_marker: str = SettingKind(words.file_name, "FILE").setting(
        "", "file that must lie in a version directory before it is loaded", "READY"
    )
    load: str = choice("", ALWAYS, ON_DEMAND).setting(
        "",
        "when it is loaded: always, as soon as its repository is listed, or by the first request",
        ON_DEMAND,
        shown="the server's",
        flag="",
    )
    pinned: bool = BOOLEAN.setting(
        False, "never unload it to make room, or because it is idle; of a model loaded on demand"
    )
    signature_changes: str = choice(ALLOW, REFUSE).setting(
        ALLOW,
        "whether a new version that breaks clients of the one that serves is served, or held back:"
        " a signature, input or output gone, another dtype or rank, an input that has to be given",
        REFUSE,
    )
    traffic: Mapping[str, int] = TRAFFIC.setting(
        {},
        "percent of the requests without version or label, by label or version; 100 in all",
        '{"stable": 95, "canary": 5}',
        shown="{}",
    )
    sticky: str = STICKY.setting(
        "",
        "header, or key of gRPC metadata, whose equal values go to the same version of traffic",
        "x-user",
    )
    rollback: Rollback | None = ROLLBACK.setting(
        None,
        "when a version of traffic loses its share to the one with the largest: by error_rate or"
        " latency_ms (95th percentile) of at least min_requests (20) within window_seconds (60)",
        '{"error_rate": 0.05, "latency_ms": 200}',
        shown="never",
    )
    shadow: Shadow | None = SHADOW.setting(
        None,
        "version that answers copies of a share of the requests, by label, version or model:"
        " answers that differ by more than tolerance (0.001) are counted, and kept by path",
        '{"label": "canary", "sampling_rate": 0.01, "path": "/var/log/resnet"}',
        shown="none",
    )
    engine: EngineOptions = field(default_factory=EngineOptions)
    graph: "ConfiguredGraph | None" = None
    """A graph that stands in the configuration itself; there is no repository."""

    platform: str = ""
    """TensorFlow Serving's `model_platform`; empty where the configuration does not set it."""

    repository: str = ""
    """The repository of models that it was found in; empty for a model that is configured."""

    fault: str = ""
    """Reason why its settings in that repository cannot be used; it then has no versions."""

    labels_found: Mapping[str, int] | None = None
    """The labels in those settings, where clients have set others since; else None."""

    declared: DeclaredTensors | None = None
    """The tensors that its `config.pbtxt` there declares; None without such a file."""

    @property
    def batching(self) -> Batching:
        """The rules by which requests gather into batches."""
        return self.engine.of(Batching)

    @property
    def split(self) -> TrafficRule | None:
        """How requests without version and label are divided; None where they are not."""
        if not self.traffic:
            return None
        return TrafficRule(shares=self.traffic, sticky=self.sticky, rollback=self.rollback)

    @property
    def keeps_sequences(self) -> bool:
        """Whether requests of a sequence share a state."""
        return self.engine.of(Sequences).stateful


def labelled(found: Iterable[ModelConfig], desired: Iterable[ModelConfig]) -> list[ModelConfig]:
    """Keep labels that clients have set until the settings of their model have other labels."""
    own = {each.name: each for each in desired if each.labels_found is not None}
    return [_labelled(each, own.get(each.name)) for each in found]


def _labelled(found: ModelConfig, before: ModelConfig | None) -> ModelConfig:
    if before is None or before.repository != found.repository:
        return found
    if before.labels_found != found.version_labels and not found.fault:
        return found
    labels = before.version_labels
    return replace(found, version_labels=labels, labels_found=before.labels_found)
