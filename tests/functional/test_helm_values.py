"""Every value of the chart has an effect: where what it belongs to is on, another value is seen."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.functional.helm_cases import HELM, Values, each_rendered

pytestmark = pytest.mark.deployed

DEFAULTS = yaml.safe_load((HELM / "ie-serving" / "values.yaml").read_text())
Path = tuple[str, ...]
MODELS = [{"name": "digits", "base_path": "/models/digits"}]

# What has to be on for a value to mean anything, by the beginning of its path; the longest counts.
ON: dict[str, Values] = {
    "": {"models": MODELS},
    "configuration": {},
    "onDemand": {"models": MODELS, "onDemand": {"enabled": True}},
    "onDemand.enabled": {"models": MODELS},
    "existingConfigMap": {},
    "image.tag": {"models": MODELS},
    "storage.secret": {"models": MODELS, "storage": {"type": "s3"}},
    "storage.gcs": {"models": MODELS, "storage": {"type": "gcs", "secret": "a"}},
    "storage.ca": {"models": MODELS, "storage": {"type": "s3", "ca": {"configMap": "a"}}},
    "storage.local.claim": {"models": MODELS},
    "tls": {"models": MODELS, "tls": {"secret": "a"}},
    "auth": {"models": MODELS, "auth": {"secret": "a"}},
    "serviceAccount": {
        "models": MODELS,
        "serviceAccount": {"create": True, "annotations": {"a": "b"}},
    },
    "serviceAccount.create": {"models": MODELS},
    "autoscaling": {"models": MODELS, "autoscaling": {"enabled": True}},
    "autoscaling.enabled": {"models": MODELS},
    "autoscaling.kind": {
        "models": MODELS,
        "autoscaling": {"enabled": True, "keda": {"serverAddress": "http://a"}},
    },
    "autoscaling.keda": {
        "models": MODELS,
        "autoscaling": {"enabled": True, "kind": "keda", "keda": {"serverAddress": "http://a"}},
    },
    "networkPolicy": {"models": MODELS, "networkPolicy": {"enabled": True}},
    "networkPolicy.enabled": {"models": MODELS},
    "serviceMonitor": {"models": MODELS, "serviceMonitor": {"enabled": True}},
    "serviceMonitor.enabled": {"models": MODELS},
    "serviceMonitor.keySecret": {
        "models": MODELS,
        "auth": {"secret": "a"},
        "serviceMonitor": {"enabled": True, "keySecret": {"name": "a"}},
    },
    "serviceMonitor.tls": {
        "models": MODELS,
        "tls": {"secret": "a"},
        "serviceMonitor": {"enabled": True, "tls": {"caSecret": {"name": "a"}, "serverName": "a"}},
    },
    "prometheusRule": {"models": MODELS, "prometheusRule": {"enabled": True}},
    "prometheusRule.enabled": {"models": MODELS},
    "gateway": {"models": MODELS, "gateway": {"enabled": True, "parentRefs": [{"name": "a"}]}},
    "ingress": {
        "models": MODELS,
        "ingress": {"enabled": True, "rest": {"hosts": ["a"]}, "grpc": {"hosts": ["b"]}},
    },
    "ingress.enabled": {"models": MODELS, "ingress": {"rest": {"hosts": ["a"]}}},
    "gateway.enabled": {"models": MODELS, "gateway": {"parentRefs": [{"name": "a"}]}},
}

# Values that are no other than the default by their type alone.
OTHER: dict[str, Any] = {
    "image.digest": f"sha256:{'1' * 64}",
    "image.pullPolicy": "Always",
    "imagePullSecrets": [{"name": "a"}],
    "models": MODELS * 2,
    "repositories": [{"base_path": "/repository"}],
    "storage.type": "minio",
    "records.size": "2Gi",
    "storage.local.path": "/data",
    "storage.local.accessMode": "ReadWriteMany",
    "storage.local.volume": {"emptyDir": {}},
    "service.type": "NodePort",
    "tls.ports": "grpc",
    "log.level": "DEBUG",
    "log.format": "text",
    "extraArgs": ["--enable_cors"],
    "env": [{"name": "a", "value": "b"}],
    "resources.requests.cpu": "3",
    "resources.limits.cpu": "3",
    "autoscaling.kind": "keda",
    "autoscaling.keda.serverAddress": "http://b",
    "networkPolicy.from": [{"podSelector": {}}, {"podSelector": {}}],
    "networkPolicy.metricsFrom": [{"podSelector": {}}],
    "networkPolicy.egress": [{"ports": [{"port": 443}]}],
    "serviceMonitor.interval": "30s",
    "gateway.parentRefs": [{"name": "b"}],
    "gateway.restHostnames": ["a.example.com"],
    "gateway.grpcHostnames": ["a.example.com"],
    "extraVolumes": [{"name": "a", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "a", "mountPath": "/a"}],
    "ingress.rest.hosts": ["c"],
    "ingress.grpc.hosts": ["c"],
    "topologySpread.keys": ["a"],
    "topologySpread.whenUnsatisfiable": "DoNotSchedule",
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
}


def paths(values: Any, before: Path = ()) -> Iterator[Path]:
    """Yield the path of every value that is no object with known keys."""
    if not isinstance(values, dict) or not values:
        yield before
        return
    for key, value in values.items():
        yield from paths(value, (*before, key))


def at(values: Any, path: Path) -> Any:
    for key in path:
        values = values.get(key, {}) if isinstance(values, dict) else {}
    return values


def base_of(path: Path) -> Values:
    """What has to be on: the entry of the longest beginning of the path."""
    name = ".".join(path)
    fits = [start for start in ON if start in ("", name) or name.startswith(f"{start}.")]
    return ON[max(fits, key=len)]


def changed(base: Values, path: Path, value: Any) -> Values:
    values = copy.deepcopy(base)
    within = values
    for key in path[:-1]:
        within = within.setdefault(key, {})
    within[path[-1]] = value
    return values


def other(path: Path) -> Any:
    """Another value than the one that counts."""
    name = ".".join(path)
    now = at(base_of(path), path) or at(DEFAULTS, path)
    if name in OTHER:
        return OTHER[name]
    if isinstance(now, bool):
        return not now
    if isinstance(now, int):
        return now + 1
    if isinstance(now, dict):
        return {"other": "value"}
    # A size, in whatever unit.
    return f"2{now}" if now and now[0].isdigit() else "other"


PATHS = list(paths(DEFAULTS))


@pytest.fixture(scope="module")
def results() -> dict[Path, tuple[Any, Any]]:
    """Each value as it is and as another one."""
    cases = [(base_of(path), changed(base_of(path), path, other(path))) for path in PATHS]
    found = each_rendered([values for case in cases for values in case])
    return {path: (found[2 * at], found[2 * at + 1]) for at, path in enumerate(PATHS)}


@pytest.mark.parametrize("path", PATHS, ids=".".join)
def test_a_value_has_an_effect(path: Path, results: dict[Path, tuple[Any, Any]]) -> None:
    before, after = results[path]
    assert "files" in after, after
    assert before != after


def test_every_value_has_a_schema() -> None:
    """Also those within objects: what the schema does not have is refused."""
    schema = json.loads((HELM / "ie-serving" / "values.schema.json").read_text())
    for path in PATHS:
        within = schema
        for key in path:
            if "properties" not in within:  # an object of Kubernetes, as `resources`
                break
            within = within["properties"][key]
