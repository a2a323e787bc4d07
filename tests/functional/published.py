"""Schemas of custom kinds as their projects publish them, in packages that `make` installs.

Those of KEDA, the Prometheus operator and the Gateway API come from npm (`published_schemas.mjs`),
those of KServe from the models of its Python SDK. The models are read as text, not imported: their
package imports a web server.
"""

import ast
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate

from tests.functional.deployed import VERSIONS, Manifest

PACKAGES = Path(sys.prefix) / "published" / "node_modules" / "@kubernetes-models"
VALIDATE = Path(__file__).with_name("published_schemas.mjs")
_PROMETHEUS = "prometheus-operator/_schemas/ComGithubPrometheusOperatorPrometheusOperatorPkgApis"
VALIDATOR_OF = {
    "keda.sh/v1alpha1 ScaledObject": (
        "keda/_schemas/ComGithubKedacoreKedaV2ApisKedaV1alpha1ScaledObject.js"
    ),
    "monitoring.coreos.com/v1 ServiceMonitor": f"{_PROMETHEUS}MonitoringV1ServiceMonitor.js",
    "monitoring.coreos.com/v1 PrometheusRule": f"{_PROMETHEUS}MonitoringV1PrometheusRule.js",
    "gateway.networking.k8s.io/v1 HTTPRoute": (
        "gateway-api/_schemas/IoK8sSigsGatewayApiApisV1HTTPRoute.js"
    ),
    "gateway.networking.k8s.io/v1 GRPCRoute": (
        "gateway-api/_schemas/IoK8sSigsGatewayApiApisV1GRPCRoute.js"
    ),
}
MODEL_OF = {
    "serving.kserve.io/v1alpha1 ClusterServingRuntime": "V1alpha1ClusterServingRuntime",
    "serving.kserve.io/v1beta1 InferenceService": "V1beta1InferenceService",
}


def kind_of(manifest: Manifest) -> str:
    return f"{manifest['apiVersion']} {manifest['kind']}"


def npm_faults(manifests: Sequence[Manifest]) -> list[list[str]]:
    """What the validators of npm find against each manifest; an unknown field is a fault."""
    cases = [{"module": VALIDATOR_OF[kind_of(each)], "manifest": each} for each in manifests]
    done = subprocess.run(
        ["node", str(VALIDATE), str(PACKAGES)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return list(json.loads(done.stdout))


def kserve_faults(manifest: Manifest) -> list[str]:
    """What the models of KServe's SDK find against a manifest; an unknown field is a fault."""
    return list(_faults(manifest, MODEL_OF[kind_of(manifest)], ""))


SCALARS: dict[str, type] = {"str": str, "int": int, "bool": bool, "object": object}
CONTAINERS = frozenset({"V1beta1ModelSpec"})
"""Models with the fields of a container beside their own; the others have those of a pod."""


def _faults(value: Any, type_name: str, at: str) -> Iterator[str]:
    if entries := re.fullmatch(r"list\[(.+)\]", type_name):
        for index, entry in enumerate(value):
            yield from _faults(entry, entries[1], f"{at}/{index}")
    elif values := re.fullmatch(r"dict\(str, (.+)\)", type_name):
        for key, entry in value.items():
            yield from _faults(entry, values[1], f"{at}/{key}")
    elif type_name in SCALARS:
        if type(value) is not SCALARS[type_name]:
            yield f"{at} is not of the type {type_name}"
    else:
        yield from _faults_of_fields(value, type_name, at)


def _faults_of_fields(value: Manifest, model: str, at: str) -> Iterator[str]:
    types, required = _fields(model)
    yield from (f"{at}/{name} is missing" for name in required - value.keys())
    for name, entry in value.items():
        if name not in types:
            yield f"{at}/{name} is unknown"
        elif types[name].removeprefix("list[").rstrip("]") in _files() or _is_plain(types[name]):
            yield from _faults(entry, types[name], f"{at}/{name}")
        else:
            yield from _faults_of_kubernetes(name, entry, model, at)


def _is_plain(type_name: str) -> bool:
    return re.findall(r"\w+", type_name)[-1] in SCALARS


def _faults_of_kubernetes(name: str, value: Any, model: str, at: str) -> Iterator[str]:
    """Ask the schemas of Kubernetes about a field whose type is theirs, as a part of a pod."""
    container = {"name": "a", name: value} if model in CONTAINERS else {"name": "a"}
    pod: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    pod["spec"] = {"containers": [container]}
    if name == "metadata":
        pod[name] = value
    elif model not in CONTAINERS:
        pod["spec"][name] = value
    try:
        kubernetes_validate.validate(pod, VERSIONS[-1], strict=True)
    except kubernetes_validate.ValidationError as error:
        yield f"{at}/{name}: {error.message}"


@cache
def _files() -> dict[str, Path]:
    """Return the file of each model of KServe, by the model's name."""
    package = importlib.util.find_spec("kserve")
    assert package is not None
    assert package.origin is not None
    models = Path(package.origin).parent / "models"
    text = (models / "__init__.py").read_text()
    found = re.findall(r"^from kserve\.models\.(\w+) import (\w+)$", text, re.MULTILINE)
    return {name: models / f"{module}.py" for module, name in found}


@cache
def _fields(model: str) -> tuple[dict[str, str], frozenset[str]]:
    """Return the types of a model's fields and the names of those that are required, as in YAML."""
    text = _files()[model].read_text()
    tables = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in {"openapi_types", "attribute_map"}
    }
    name_of = tables["attribute_map"]
    required = re.findall(r"Invalid value for `(\w+)`, must not be `None`", text)
    types = {name_of[each]: kind for each, kind in tables["openapi_types"].items()}
    return types, frozenset(name_of[each] for each in required)
