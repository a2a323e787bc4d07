"""The manifests of `deploy/kubernetes` and `deploy/kserve`, checked without a cluster."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
from kubernetes_validate.utils import all_versions

from ie_serving.config.dialects import ie_serving
from ie_serving.config.dialects.environment import storage_options
from ie_serving.core.settings.faults import Faults
from ie_serving.server.fronts.admin.health import LIVE, READY, STARTUP
from ie_serving.server.fronts.kserve_v2 import ParsedPath, asked
from ie_serving.server.fronts.tfs.rest_routes import route
from ie_serving.server.gate.rights import RPC
from ie_serving.server.process.lifecycle import CLOSE_TIMEOUT_S
from ie_serving.server.transport.http1.messages import RequestHead
from ie_serving.storage.backends.gcs import GcsOptions
from tests.functional.deployed import (
    MANIFESTS,
    VERSIONS,
    Deployed,
    Manifest,
    custom_schemas,
    read,
    validate,
)
from tests.functional.servers import ROOT
from tests.process import output_of

pytestmark = pytest.mark.deployed

KSERVE = ROOT / "deploy" / "kserve"
FILES = sorted(
    [*MANIFESTS.glob("*/*.yaml"), *KSERVE.glob("*.yaml"), ROOT / "deploy/verify_client.yaml"]
)
SETS = sorted(path.parent for path in MANIFESTS.glob("*/deployment.yaml"))
SCHEMES = {"local": "/", "s3": "s3://", "gcs": "gs://", "minio": "minio://"}
OF_STORAGES = [path for path in SETS if path.name in SCHEMES]
GIB = 2**30
DEFAULT_GRACE_S = 30
"""Of a pod that says nothing else. Source: the API reference of Kubernetes, PodSpec."""
DEPLOYMENT = (ROOT / "docs" / "guide" / "deployment.md").read_text()


def name_of(path: Path) -> str:
    return "/".join(path.parts[-2:]) if path.suffix else path.name


@pytest.fixture(params=SETS, ids=name_of)
def deployed(request: pytest.FixtureRequest) -> Deployed:
    return Deployed.of(request.param)


def test_the_schemas_are_those_of_the_versions_that_are_promised() -> None:
    assert set(VERSIONS) <= {re.sub(r"^(\d+\.\d+).*", r"\1", each) for each in all_versions()}


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(each, marks=pytest.mark.soak if each in VERSIONS[1:-2] else [])
        for each in VERSIONS
    ],
)
def test_every_manifest_fits_the_schemas_strictly(version: str) -> None:
    different = {json.dumps(read(path)): path for path in FILES}
    assert faults(different.values(), version) == {}


def faults(paths: Iterable[Path], version: str) -> dict[str, str]:
    found = {}
    for path in paths:
        try:
            validate(read(path), version)
        except (kubernetes_validate.ValidationError, jsonschema.ValidationError) as error:
            found[name_of(path)] = str(error)
    return found


def test_there_is_a_set_for_each_storage() -> None:
    assert {path.name for path in OF_STORAGES} == set(SCHEMES)


@pytest.mark.parametrize("path", OF_STORAGES, ids=name_of)
def test_the_arguments_and_the_models_are_what_the_server_takes(path: Path, tmp_path: Path) -> None:
    settings = Deployed.of(path).settings(tmp_path)
    assert [model.name for model in settings.models] == ["digits"]
    assert settings.models[0].base_path.startswith(SCHEMES[path.name])


@pytest.mark.parametrize("storage", ["s3", "minio"])
def test_the_secret_of_the_documentation_is_what_storage_takes(storage: str) -> None:
    """Its keys are variables of the server, by `envFrom`."""
    (source,) = Deployed.of(MANIFESTS / storage).container["envFrom"]
    name = source["secretRef"]["name"]
    command = re.search(rf"create secret generic {name} (.*?)\n\S", DEPLOYMENT, re.DOTALL)
    assert command
    keys = re.findall(r"--from-literal=(\w+)", command[1])
    values = {key: f"https://{key}.example.com:9000" for key in keys}
    faults = Faults()
    options = storage_options(values, faults)
    faults.check()
    taken = {each for store in options.own for each in vars(store).values()}
    assert len(keys) >= 3
    assert {text.removeprefix("https://") for text in values.values()} <= {
        str(each).removeprefix("https://") for each in taken
    }


def test_the_key_file_lies_where_its_variable_says(tmp_path: Path) -> None:
    gcs = Deployed.of(MANIFESTS / "gcs")
    mount = gcs.mounts["/secret"]
    name = gcs.volumes[mount["name"]]["secret"]["secretName"]
    assert f"kubectl create secret generic {name} --from-file=gcp-creds.json\n" in DEPLOYMENT
    key_file = tmp_path / "secret" / "gcp-creds.json"
    key_file.parent.mkdir()
    key_file.write_text("{}")
    options = storage_options(gcs.environ(tmp_path), Faults(), cache_dir=tmp_path)
    assert str(key_file) in {str(each) for each in vars(options.of(GcsOptions)).values()}


def test_ports_are_the_servers_and_the_service_leads_to_them(
    deployed: Deployed, tmp_path: Path
) -> None:
    server = deployed.settings(tmp_path).server
    ports = {port["name"]: port["containerPort"] for port in deployed.container["ports"]}
    assert ports == {"grpc": server.port, "rest": server.rest_port}
    for service in deployed.services:
        assert {port["targetPort"] for port in service["spec"]["ports"]} == set(ports)
        assert service["spec"]["selector"] == deployed.spec["selector"]["matchLabels"]
        assert service["spec"]["selector"].items() <= deployed.labels.items()


@pytest.mark.parametrize(
    ("probe", "path"),
    [("startupProbe", STARTUP), ("readinessProbe", READY), ("livenessProbe", LIVE)],
)
def test_probes_ask_what_the_server_answers(
    deployed: Deployed, probe: str, path: str, tmp_path: Path
) -> None:
    encrypted = deployed.settings(tmp_path).server.tls_certificate
    scheme = {"scheme": "HTTPS"} if encrypted else {}
    assert deployed.container[probe]["httpGet"] == {"path": path, "port": "rest", **scheme}


def test_the_grace_period_is_longer_than_the_longest_drain(
    deployed: Deployed, tmp_path: Path
) -> None:
    server = deployed.settings(tmp_path).server
    longest = server.drain_delay_s + server.drain_timeout_s + 2 * CLOSE_TIMEOUT_S + 1
    assert server.drain_delay_s > 0
    assert deployed.pod["terminationGracePeriodSeconds"] > longest


def test_the_cache_is_a_volume_that_holds_more_than_the_cache_may(
    deployed: Deployed, tmp_path: Path
) -> None:
    storage = deployed.parsed(tmp_path).storage
    mount = deployed.mounts[str(storage.cache_dir)]
    limit = deployed.volumes[mount["name"]]["emptyDir"]["sizeLimit"]
    assert not mount.get("readOnly")
    assert limit.endswith("Gi")
    assert 0 < storage.cache_size_bytes < int(limit.removesuffix("Gi")) * GIB


def test_every_mount_has_its_volume(deployed: Deployed) -> None:
    assert {mount["name"] for mount in deployed.mounts.values()} == set(deployed.volumes)


def test_the_pod_passes_the_restricted_standard(deployed: Deployed) -> None:
    """Pod Security Standards, level restricted, and a root file system that is read only."""
    own, pod = deployed.container["securityContext"], deployed.pod["securityContext"]
    assert pod["runAsNonRoot"] is True
    user = re.search(r"IE_SERVING_USER=(\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert user
    assert str(pod["runAsUser"]) == str(pod["runAsGroup"]) == user[1]
    check_restricted({**pod, **own})


@pytest.mark.parametrize("path", ["verify_client.yaml", "kserve/runtime.yaml"])
def test_other_containers_pass_it_as_well(path: str) -> None:
    spec = read(ROOT / "deploy" / path)["spec"]
    (container,) = spec["containers"]
    check_restricted({**spec.get("securityContext", {}), **container["securityContext"]})


def check_restricted(context: Manifest) -> None:
    """Check what pod and container say together."""
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] == 10001
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}


def test_the_commands_of_the_documentation_change_what_they_mean_to(tmp_path: Path) -> None:
    commands = re.findall(r"^(?:export|cp|sed) .*", DEPLOYMENT, re.MULTILINE)
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    output_of("/bin/sh", "-eu", "-c", "\n".join(commands), cwd=tmp_path)
    deployed = Deployed.of(tmp_path / "my-serving")
    assert deployed.container["image"] == "registry.example.org/me/ie-serving:1.0.0"
    (model,) = deployed.settings(tmp_path).models
    assert model.base_path == "s3://my-models/digits"


# Every kind, and in the largest what lies deep.
@pytest.mark.parametrize(
    ("path", "place"),
    [
        pytest.param("kubernetes/s3/deployment.yaml", "spec.template.spec", id="of Kubernetes"),
        pytest.param("kubernetes/production/hpa.yaml", "spec.behavior.scaleDown", id="its scaling"),
        pytest.param("kubernetes/autoscaling/scaledobject.yaml", "spec", id="KEDA"),
        pytest.param(
            "kubernetes/autoscaling/servicemonitor.yaml", "spec.endpoints.0", id="monitor"
        ),
        pytest.param("kubernetes/gateway/httproute.yaml", "spec.rules.0", id="HTTPRoute"),
        pytest.param(
            "kubernetes/gateway/grpcroute.yaml", "spec.rules.0.matches.0.method", id="gRPC"
        ),
        pytest.param("kserve/runtime.yaml", "spec.containers.0", id="a runtime's container"),
        pytest.param("kserve/runtime.yaml", "spec", id="a runtime"),
        pytest.param("kserve/rest.yaml", "spec.predictor.model", id="InferenceService"),
    ],
)
def test_a_field_that_there_is_not_is_refused(path: str, place: str) -> None:
    manifest = read(ROOT / "deploy" / path)
    within = manifest
    for step in place.split("."):
        within = within[int(step) if step.isdigit() else step]
    within["replica"] = 1
    with pytest.raises((kubernetes_validate.ValidationError, jsonschema.ValidationError)) as caught:
        validate(manifest, VERSIONS[-1])
    assert "'replica' was unexpected" in str(caught.value)


def test_every_schema_of_a_custom_kind_is_used() -> None:
    kinds = {f"{m['apiVersion']} {m['kind']}" for m in map(read, FILES)}
    assert custom_schemas().keys() - {"$defs"} <= kinds


SERVICES = sorted(path.name for path in KSERVE.glob("*.yaml") if path.name != "runtime.yaml")


def runtime() -> Manifest:
    return read(KSERVE / "runtime.yaml")


def test_the_runtime_of_kserve_starts_the_server(tmp_path: Path) -> None:
    """KServe puts the name of the InferenceService in the place of `{{.Name}}`."""
    (container,) = runtime()["spec"]["containers"]
    command, *arguments = container["args"]
    assert command == "ie_serving"
    parsed = ie_serving.parse([each.replace("{{.Name}}", "digits") for each in arguments], {})
    (model,) = parsed.settings.models
    assert (model.name, model.base_path) == ("digits", "/mnt/models")
    server = parsed.settings.server
    assert runtime()["spec"]["annotations"] == {
        "prometheus.kserve.io/port": str(server.rest_port),
        "prometheus.kserve.io/path": server.metrics_path,
    }
    assert server.open_ports_early is False
    longest = server.drain_delay_s + server.drain_timeout_s + 2 * CLOSE_TIMEOUT_S + 1
    assert longest < DEFAULT_GRACE_S
    for path in SERVICES:
        predictor = read(KSERVE / path)["spec"]["predictor"]
        assert predictor["model"]["runtime"] == runtime()["metadata"]["name"]
        assert predictor["model"]["protocolVersion"] in runtime()["spec"]["protocolVersions"]
        formats = {each["name"] for each in runtime()["spec"]["supportedModelFormats"]}
        assert predictor["model"]["modelFormat"]["name"] in formats
    for path in ("grpc.yaml", "grpc-v2.yaml"):
        (port,) = read(KSERVE / path)["spec"]["predictor"]["model"]["ports"]
        assert (port["name"], port["containerPort"]) == ("h2c", server.port)


def test_the_runtime_claims_the_protocols_that_are_served() -> None:
    """v1 is `:predict`, grpc-v1 PredictionService; v2 and grpc-v2 the Open Inference Protocol."""
    assert runtime()["spec"]["protocolVersions"] == ["v1", "v2", "grpc-v1", "grpc-v2"]
    assert route("POST", "/v1/models/digits:predict").verb == "predict"
    path = b"/v2/models/digits/infer"
    head = RequestHead("POST", path, b"", "1.1", (), {}, 0, True, False)
    assert asked(head) == ParsedPath("infer", "digits")
    assert "/tensorflow.serving.PredictionService/Predict" in RPC
    assert "/inference.GRPCInferenceService/ModelInfer" in RPC


def test_each_protocol_of_the_runtime_has_an_example() -> None:
    """The client of `verify.sh` asks by each of them, in test_verify.py."""
    protocols = runtime()["spec"]["protocolVersions"]
    models = [read(KSERVE / path)["spec"]["predictor"]["model"] for path in SERVICES]
    assert sorted(model["protocolVersion"] for model in models) == sorted(protocols)
    page = (ROOT / "docs" / "guide" / "kubernetes.md").read_text()
    assert all(f"kubectl apply -f deploy/kserve/{path}" in page for path in SERVICES)
