"""Values for the chart: those that are taken, and those that are refused."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import yaml

from tests.functional.servers import ROOT

HELM = ROOT / "deploy" / "helm"
RENDER = str(HELM / "render.py")
Values = dict[str, Any]


def each_rendered(cases: list[Values]) -> list[Any]:
    """Render in a process of its own, since Helm is Go; what its lint finds comes last."""
    done = subprocess.run(
        [sys.executable, RENDER, "--each"],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found = json.loads(done.stdout)
    assert len(found) == len(cases) + 1
    return list(found)


BASIC: Values = {"models": [{"name": "digits", "base_path": "/models/digits"}]}


def with_basic(**more: Any) -> Values:
    return {**BASIC, **more}


def documented() -> Values:
    """What docs/guide/kubernetes.md writes into my-values.yaml, part after part, and its routes."""
    page = (ROOT / "docs" / "guide" / "kubernetes.md").read_text()
    files = re.findall(r"my-values\.yaml <<'END'\n(.*?)^END$", page, re.MULTILINE | re.DOTALL)
    routes = re.findall(r"^```\n(gateway:.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert (len(files), len(routes)) == (2, 1)
    return dict(yaml.safe_load("".join([*files, *routes])))


TAKEN: Mapping[str, Values] = {
    "verify": yaml.safe_load((HELM / "values" / "verify.yaml").read_text()),
    "fleet": yaml.safe_load((HELM / "values" / "fleet.yaml").read_text()),
    "canary": yaml.safe_load((HELM / "values" / "canary.yaml").read_text()),
    "records of yours": with_basic(records={"claim": "a"}),
    "documentation": documented(),
    "tls": with_basic(tls={"secret": "a", "ports": "both"}),
    "tls of gRPC": with_basic(tls={"secret": "a", "ports": "grpc", "clientCertificates": True}),
    "client certificates": with_basic(tls={"secret": "a", "clientCertificates": True}),
    "keys": with_basic(auth={"secret": "a", "key": "all"}),
    "long drain": with_basic(
        drain={"delaySeconds": 60, "timeoutSeconds": 240, "preStopSeconds": 15}
    ),
    "own configuration": {"existingConfigMap": "mine"},
    "configuration": with_basic(configuration={"monitoring": {"metrics": {"enable": True}}}),
    "shared volume": with_basic(storage={"local": {"accessMode": "ReadWriteMany"}}),
    "claims": with_basic(storage={"local": {"claim": "a"}}, cache={"claim": "b"}),
    "authority": with_basic(storage={"type": "minio", "secret": "a", "ca": {"configMap": "b"}}),
    "scaled": with_basic(autoscaling={"enabled": True}),
    "KEDA": with_basic(
        autoscaling={"enabled": True, "kind": "keda", "keda": {"serverAddress": "http://a:9090"}}
    ),
    "closed": with_basic(networkPolicy={"enabled": True, "egress": [{"ports": [{"port": 443}]}]}),
    "open shift": with_basic(user=None),
    "digest": with_basic(image={"repository": "a/b", "digest": f"sha256:{'0' * 64}"}),
    "flags": with_basic(
        extraArgs=["--max_message_bytes=67108864"], env=[{"name": "TZ", "value": "UTC"}]
    ),
    "a volume by its URL": {"models": [{"name": "digits", "base_path": "file:///models/digits"}]},
    "of 2020": {
        "replicas": 2,
        "existingConfigMap": "models",
        "storage": {"type": "gcs", "secret": "creds"},
        "log": {"level": "DEBUG"},
        "service": {"type": "LoadBalancer"},
        "ports": {"grpc": 8080, "rest": 8081},
    },
    "a model of 2020": {
        "models": [
            {
                "name": "resnet",
                "base_path": "s3://models/resnet",
                "target_device": "CPU",
                "nireq": 4,
                "plugin_config": {"CPU_THROUGHPUT_STREAMS": "2"},
            }
        ],
        "storage": {"type": "s3", "secret": "aws"},
    },
    "ingress": with_basic(
        ingress={
            "enabled": True,
            "className": "nginx",
            "tlsSecret": "a",
            "rest": {"hosts": ["rest.example.com"]},
            "grpc": {
                "hosts": ["grpc.example.com"],
                "annotations": {"nginx.ingress.kubernetes.io/backend-protocol": "GRPC"},
            },
        }
    ),
    "further volumes": with_basic(
        extraVolumes=[{"name": "labels", "configMap": {"name": "labels"}}],
        extraVolumeMounts=[{"name": "labels", "mountPath": "/labels", "readOnly": True}],
    ),
    "placed": with_basic(
        nodeSelector={"a": "b"},
        tolerations=[{"key": "a", "operator": "Exists"}],
        affinity={"nodeAffinity": {}},
        priorityClassName="high",
        podLabels={"c": "d"},
        podAnnotations={"e": "f"},
        imagePullSecrets=[{"name": "g"}],
        topologySpread={"keys": []},
        podDisruptionBudget={"maxUnavailable": "25%"},
        serviceAccount={"create": True, "annotations": {"h": "i"}},
        service={"type": "LoadBalancer", "headless": True, "annotations": {"j": "k"}},
    ),
}
"""Values that are taken; each is tested for what it comes to."""

REFUSED: Mapping[str, tuple[Values, str]] = {
    "no model": ({}, "models: empty"),
    "a word that there is not": (with_basic(replicaCount=2), "'replicaCount' not allowed"),
    "a word within": (with_basic(tls={"secretName": "a"}), "'secretName' not allowed"),
    "a number as text": (with_basic(replicas="2"), "at '/replicas'"),
    "a store that there is not": (with_basic(storage={"type": "nfs"}), "at '/storage/type'"),
    "a share beyond all": (
        {"models": [{"name": "m", "traffic": {"stable": 101}}]},
        "at '/models/0/traffic/stable'",
    ),
    "a shadow without a rate": (
        {"models": [{"name": "m", "shadow": {"label": "canary"}}]},
        "missing property 'sampling_rate'",
    ),
    "a model without a name": ({"models": [{"base_path": "/m"}]}, "missing property 'name'"),
    "a flag of the chart's": (with_basic(extraArgs=["--port=1"]), "--port is set by the chart"),
    "models beside a ConfigMap": (with_basic(existingConfigMap="a"), "would be ignored"),
    "ports of TLS without TLS": (with_basic(tls={"ports": "grpc"}), "nothing is encrypted"),
    "a policy that is off": (
        with_basic(networkPolicy={"from": [{"podSelector": {}}]}),
        "without networkPolicy.enabled",
    ),
    "routes that are off": (
        with_basic(gateway={"restHostnames": ["a"]}),
        "without gateway.enabled",
    ),
    "hosts of an Ingress that is off": (
        with_basic(ingress={"rest": {"hosts": ["a"]}}),
        "hosts have no effect without ingress.enabled",
    ),
    "an Ingress of no host": (with_basic(ingress={"enabled": True}), "both are empty"),
    "one host for two": (
        with_basic(ingress={"enabled": True, "rest": {"hosts": ["a"]}, "grpc": {"hosts": ["a"]}}),
        "a stands among the hosts of rest and grpc",
    ),
    "an account that is not made": (
        with_basic(serviceAccount={"annotations": {"a": "b"}}),
        "without serviceAccount.create",
    ),
    "two volumes": (
        with_basic(storage={"local": {"claim": "a", "volume": {"emptyDir": {}}}}),
        "a claim or a volume",
    ),
    "pods beside a scaler": (
        with_basic(replicas=2, autoscaling={"enabled": True}),
        "the autoscaler decides",
    ),
    "one port twice": (with_basic(ports={"grpc": 9000, "rest": 9000}), "ports: grpc and rest"),
    "a flag that values set": (with_basic(extraArgs=["--load=on_demand"]), "--load is set by"),
    "repositories twice": (
        with_basic(configuration={"model_repository_list": []}),
        "at '/configuration'",
    ),
    "models twice": (with_basic(configuration={"model_config_list": []}), "at '/configuration'"),
    "keys of a volume": (with_basic(storage={"secret": "a"}), "a local volume takes none"),
    "an authority of gcs": (
        with_basic(storage={"type": "gcs", "ca": {"configMap": "a"}}),
        "only s3 and minio",
    ),
    "certificates without TLS": (with_basic(tls={"clientCertificates": True}), "needs tls.secret"),
    "fewer than the fewest": (
        with_basic(autoscaling={"enabled": True, "minReplicas": 3, "maxReplicas": 2}),
        "less than minReplicas",
    ),
    "KEDA without Prometheus": (
        with_basic(autoscaling={"enabled": True, "kind": "keda"}),
        "keda.serverAddress: missing",
    ),
    "a route to nowhere": (with_basic(gateway={"enabled": True}), "gateway.parentRefs: missing"),
    "metrics without a key": (
        with_basic(auth={"secret": "a"}, serviceMonitor={"enabled": True}),
        "keySecret.name: missing",
    ),
    "metrics without an authority": (
        with_basic(tls={"secret": "a"}, serviceMonitor={"enabled": True}),
        "caSecret.name: missing",
    ),
    "a name that no Service may have": (with_basic(fullnameOverride="my.app"), "'my.app' does not"),
    "two words in one flag": (with_basic(extraArgs=["--workers 2"]), "'--workers 2' does not"),
    "a variable that is no text": (
        with_basic(env=[{"name": "A", "value": 1}]),
        "at '/env/0/value': got number, want string",
    ),
    "a word of a variable that there is not": (
        with_basic(env=[{"name": "A", "valeu": "1"}]),
        "'valeu' not allowed",
    ),
    "more than all pods": (
        with_basic(podDisruptionBudget={"maxUnavailable": "101%"}),
        "'101%' does not match",
    ),
    "an image with a blank": (with_basic(image={"repository": "a b"}), "'a b' does not match"),
    "a path that is cut by YAML": (
        with_basic(storage={"local": {"path": "/models # all"}}),
        "'/models # all' does not match",
    ),
    "a path that the chart takes": (
        with_basic(storage={"local": {"path": "/config/"}}),
        "where the chart mounts something else",
    ),
    "models of a store on a volume": (
        {"models": [{"name": "a", "base_path": "s3://models/a"}]},
        "set it to s3, gcs or minio",
    ),
    "a cache that fills its volume": (
        with_basic(cache={"size": "7.9Gi"}),
        "cache.size: 7.9Gi is not more than cache.bytes, 8589934592",
    ),
    "a claim of one pod for two": (
        with_basic(replicas=2, storage={"local": {"accessMode": "ReadWriteOncePod"}}),
        "serves one pod",
    ),
    "labels by which pods are found": (
        with_basic(podLabels={"app.kubernetes.io/name": "a"}),
        "finds its pods by it",
    ),
    "a key for metrics without keys": (
        with_basic(serviceMonitor={"enabled": True, "keySecret": {"name": "a"}}),
        "keySecret: has no effect without",
    ),
    "an authority for plain metrics": (
        with_basic(serviceMonitor={"enabled": True, "tls": {"serverName": "a"}}),
        "tls: has no effect without",
    ),
    "pods of a scaler that is off": (
        with_basic(autoscaling={"minReplicas": 3}),
        "have no effect without autoscaling.enabled",
    ),
    "KEDA that is off": (
        with_basic(autoscaling={"kind": "keda", "keda": {"serverAddress": "http://a"}}),
        "keda: has no effect without",
    ),
    "KEDA beside another scaler": (
        with_basic(autoscaling={"enabled": True, "keda": {"query": "up"}}),
        "keda: has no effect without",
    ),
    "one name for two kinds of routes": (
        with_basic(
            gateway={
                "enabled": True,
                "parentRefs": [{"name": "a"}],
                "restHostnames": ["a.example.com"],
                "grpcHostnames": ["a.example.com"],
            }
        ),
        "each names of its own",
    ),
    "metrics without a certificate": (
        with_basic(
            tls={"secret": "a", "clientCertificates": True},
            serviceMonitor={"enabled": True, "tls": {"caSecret": {"name": "a"}, "serverName": "b"}},
        ),
        "no client certificate",
    ),
}
"""Values that are refused, each with a part of what is said."""
