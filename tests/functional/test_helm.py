"""The chart of `deploy/helm`, rendered by Helm's own engine and read as the server reads it."""

import json
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ie_serving import __version__
from ie_serving.server.fronts.tfs.rest_routes import MODELS
from ie_serving.server.gate.rights import RPC
from ie_serving.server.process.lifecycle import CLOSE_TIMEOUT_S
from tests.functional.deployed import MANIFESTS, VERSIONS, Deployed, Manifest, validate
from tests.functional.helm_cases import BASIC, HELM, REFUSED, RENDER, TAKEN, each_rendered
from tests.functional.servers import ROOT
from tests.process import output_of

pytestmark = pytest.mark.deployed

WARNING = 2
"""Severity of a finding of `helm lint`; 1 is a hint."""


@pytest.fixture(scope="module")
def results() -> list[Any]:
    """What Helm makes of all of them, and what its lint finds."""
    return each_rendered([*TAKEN.values(), *(values for values, _ in REFUSED.values())])


@pytest.fixture(scope="module")
def made(results: list[Any]) -> Mapping[str, list[Manifest]]:
    """Manifests by the name of their values."""
    return {
        name: [yaml.safe_load(text) for file, text in result["files"].items() if "yaml" in file]
        for name, result in zip(TAKEN, results, strict=False)
    }


@pytest.fixture
def deployed(made: Mapping[str, list[Manifest]]) -> Any:
    return lambda name: Deployed(made[name])


def kind(manifests: list[Manifest], kind: str) -> Manifest:
    (found,) = (each for each in manifests if each["kind"] == kind)
    return found


def test_lint_finds_nothing(results: list[Any]) -> None:
    found = results[-1]
    assert [each for each in found["messages"] if each["severity"] >= WARNING] == []
    assert found["errors"] == []


def test_the_committed_manifests_are_what_the_chart_renders(tmp_path: Path) -> None:
    """`make manifests` writes them."""
    output_of(sys.executable, RENDER, str(tmp_path))

    def texts(directory: Path) -> dict[str, str]:
        files = directory.glob("*/*.yaml")
        return {str(each.relative_to(directory)): each.read_text() for each in files}

    assert texts(MANIFESTS) == texts(tmp_path)


def test_all_that_is_made_fits_the_schemas(made: Mapping[str, list[Manifest]]) -> None:
    """Of the newest version: the committed manifests are validated for each."""
    different = {json.dumps(each): each for manifests in made.values() for each in manifests}
    for manifest in different.values():
        validate(manifest, VERSIONS[-1])


@pytest.mark.parametrize("name", REFUSED)
def test_values_that_are_impossible_or_would_be_ignored_are_refused(
    name: str, results: list[Any]
) -> None:
    at = len(TAKEN) + list(REFUSED).index(name)
    assert REFUSED[name][1] in results[at].get("refused", "it was taken")


def test_the_chart_is_of_this_release() -> None:
    chart = yaml.safe_load((HELM / "ie-serving" / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == __version__
    assert chart["kubeVersion"] == f">={VERSIONS[0]}.0-0"


def test_the_notes_name_what_was_installed(results: list[Any]) -> None:
    notes = results[0]["files"]["NOTES.txt"]
    assert "rollout status deployment/ie-serving" in notes
    assert "port-forward service/ie-serving 8000 9000" in notes


def test_a_model_that_verify_installs_is_replaced_pod_by_pod(deployed: Any, tmp_path: Path) -> None:
    spec = deployed("verify").spec
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    (model,) = deployed("verify").settings(tmp_path).models
    mount = deployed("verify").mounts[model.base_path]
    items = deployed("verify").volumes[mount["name"]]["configMap"]["items"]
    assert [item["path"] for item in items] == ["1/model.xml", "1/model.bin"]


def test_the_values_of_the_documentation_are_deployed(
    made: Mapping[str, list[Manifest]], deployed: Any, tmp_path: Path
) -> None:
    settings = deployed("documentation").settings(tmp_path)
    assert [model.base_path for model in settings.models] == ["s3://my-models/digits"]
    assert settings.server.api_key_file
    assert settings.server.tls_certificate
    kinds = {each["kind"] for each in made["documentation"]}
    assert {"ServiceMonitor", "PrometheusRule", "HTTPRoute", "GRPCRoute"} <= kinds


def test_a_directory_of_models_is_loaded_by_requests(deployed: Any, tmp_path: Path) -> None:
    settings = deployed("fleet").settings(tmp_path)
    (repository,) = settings.in_file
    assert (repository.base_path, tuple(repository.exclude)) == ("s3://models", ("old-*",))
    server = settings.server
    assert (server.load, server.load_wait_s) == ("on_demand", 30)
    assert server.model_memory_budget_bytes == 3221225472
    assert server.idle_unload_timeout_s == 3600


def test_a_canary_and_a_shadow_get_a_volume_for_their_files(deployed: Any, tmp_path: Path) -> None:
    resnet, digits = deployed("canary").settings(tmp_path).models
    assert resnet.split and resnet.rollback
    assert (digits.shadow.label, digits.shadow.path) == ("candidate", "/records/digits")
    for name, volume in (
        ("canary", {"emptyDir": {"sizeLimit": "1Gi"}}),
        ("records of yours", {"persistentVolumeClaim": {"claimName": "a"}}),
    ):
        assert deployed(name).volumes["records"] == {"name": "records", **volume}
        mounts = deployed(name).container["volumeMounts"]
        assert {"name": "records", "mountPath": "/records"} in mounts


def test_tls_mounts_its_secret_and_changes_the_probes(deployed: Any, tmp_path: Path) -> None:
    server = deployed("tls").settings(tmp_path).server
    assert (server.tls_certificate, server.tls_key) == ("/tls/tls.crt", "/tls/tls.key")
    assert deployed("tls").volumes["tls"]["secret"]["secretName"] == "a"
    assert deployed("tls").container["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
    of_grpc = deployed("tls of gRPC").settings(tmp_path).server
    assert (of_grpc.tls_ports, of_grpc.tls_client_ca) == ("grpc", "/tls/ca.crt")
    assert "scheme" not in deployed("tls of gRPC").container["livenessProbe"]["httpGet"]


def test_probes_without_a_certificate_look_whether_the_port_is_open(deployed: Any) -> None:
    container = deployed("client certificates").container
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[name]["tcpSocket"] == {"port": "rest"}
        assert "httpGet" not in container[name]


def test_keys_are_mounted_from_their_secret(deployed: Any, tmp_path: Path) -> None:
    assert deployed("keys").settings(tmp_path).server.api_key_file == "/auth/all"
    assert deployed("keys").volumes["auth"]["secret"]["secretName"] == "a"
    assert deployed("keys").mounts["/auth"]["readOnly"] is True


def test_the_grace_period_follows_the_drain(deployed: Any, tmp_path: Path) -> None:
    server = deployed("long drain").settings(tmp_path).server
    assert (server.drain_delay_s, server.drain_timeout_s) == (60.0, 240.0)
    pod, container = deployed("long drain").pod, deployed("long drain").container
    waits = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert waits == 15
    longest = waits + server.drain_delay_s + server.drain_timeout_s + 2 * CLOSE_TIMEOUT_S + 1
    assert pod["terminationGracePeriodSeconds"] > longest


def test_models_become_a_configuration_file_unless_one_is_given(
    made: Mapping[str, list[Manifest]], deployed: Any
) -> None:
    text = kind(made["configuration"], "ConfigMap")["data"]["config.json"]
    assert json.loads(text) == {
        "model_config_list": [{"config": BASIC["models"][0]}],
        "monitoring": {"metrics": {"enable": True}},
    }
    assert "ConfigMap" not in {each["kind"] for each in made["own configuration"]}
    assert deployed("own configuration").volumes["models"]["configMap"]["name"] == "mine"


@pytest.mark.parametrize(
    ("name", "strategy"), [("tls", "Recreate"), ("shared volume", "RollingUpdate")]
)
def test_a_volume_of_one_node_is_let_go_of_first(name: str, strategy: str, deployed: Any) -> None:
    assert deployed(name).spec["strategy"]["type"] == strategy


def test_given_claims_are_used(made: Mapping[str, list[Manifest]], deployed: Any) -> None:
    assert "PersistentVolumeClaim" not in {each["kind"] for each in made["claims"]}
    volumes = deployed("claims").volumes
    assert volumes["repository"]["persistentVolumeClaim"]["claimName"] == "a"
    assert volumes["cache"]["persistentVolumeClaim"]["claimName"] == "b"


def test_a_given_authority_is_mounted_and_named(deployed: Any, tmp_path: Path) -> None:
    found = deployed("authority")
    assert found.environ(tmp_path) == {"MINIO_CA_BUNDLE": f"{tmp_path}/ca/ca.pem"}
    assert found.volumes["ca"]["configMap"]["name"] == "b"


@pytest.mark.parametrize("name", ["scaled", "KEDA"])
def test_a_scaled_deployment_has_no_number_of_pods(name: str, deployed: Any) -> None:
    assert "replicas" not in deployed(name).spec


def test_scaling_asks_for_a_metric_that_there_is(made: Mapping[str, list[Manifest]]) -> None:
    hpa = kind(made["scaled"], "HorizontalPodAutoscaler")["spec"]
    keda = kind(made["KEDA"], "ScaledObject")["spec"]
    (trigger,) = keda["triggers"]
    adapter = yaml.safe_load((ROOT / "deploy/prometheus/adapter.yaml").read_text())
    (rule,) = adapter["rules"]["custom"]
    (metric,) = (each["pods"]["metric"]["name"] for each in hpa["metrics"])
    operations = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    assert f"| `{metric}` | gauge |" in operations
    assert rule["name"]["as"] == metric
    for query in (rule["seriesQuery"], rule["metricsQuery"], trigger["metadata"]["query"]):
        assert metric in query
    assert hpa["scaleTargetRef"]["name"] == keda["scaleTargetRef"]["name"] == "ie-serving"


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not there")
def test_prometheus_understands_the_queries(
    made: Mapping[str, list[Manifest]], tmp_path: Path
) -> None:
    (trigger,) = kind(made["KEDA"], "ScaledObject")["spec"]["triggers"]
    adapter = yaml.safe_load((ROOT / "deploy/prometheus/adapter.yaml").read_text())
    query = adapter["rules"]["custom"][0]["metricsQuery"]
    filled = query.replace("<<.GroupBy>>", "pod").replace("<<.LabelMatchers>>", 'pod=~"a|b"')
    rules = [
        {"record": "keda", "expr": trigger["metadata"]["query"]},
        {"record": "adapter", "expr": filled},
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "a", "rules": rules}]}))
    assert "SUCCESS: 2 rules found" in "\n".join(
        output_of(str(shutil.which("promtool")), "check", "rules", str(file))
    )


def test_metrics_are_asked_of_one_service(made: Mapping[str, list[Manifest]]) -> None:
    """The headless one has the same pods: they would be counted twice."""
    production = [yaml.safe_load(each.read_text()) for each in (MANIFESTS / "production").iterdir()]
    monitor = kind(production, "ServiceMonitor")["spec"]
    services = [each for each in production if each["kind"] == "Service"]
    wanted = monitor["selector"]["matchLabels"].items()
    chosen = [each for each in services if wanted <= each["metadata"]["labels"].items()]
    assert len(services) == 2
    (service,) = chosen
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    alerts = (ROOT / "deploy/prometheus/alerts.yml").read_text()
    assert f'job="{endpoint["relabelings"][0]["replacement"]}"' in alerts


def test_the_alerts_are_those_that_promtool_tests() -> None:
    alerts = ROOT / "deploy" / "prometheus" / "alerts.yml"
    copy = HELM / "ie-serving" / "files" / "alerts.yml"
    assert copy.read_text() == alerts.read_text()
    rule = yaml.safe_load((MANIFESTS / "production" / "prometheusrule.yaml").read_text())
    assert rule["spec"] == yaml.safe_load(alerts.read_text())


def test_a_policy_closes_what_it_does_not_name(
    made: Mapping[str, list[Manifest]], deployed: Any
) -> None:
    policy = kind(made["closed"], "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["podSelector"]["matchLabels"].items() <= deployed("closed").labels.items()
    named = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    assert named == {port["name"] for port in deployed("closed").container["ports"]}


def test_another_platform_chooses_the_user(deployed: Any) -> None:
    context = deployed("open shift").pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context.keys().isdisjoint({"runAsUser", "runAsGroup", "fsGroup"})


def test_an_image_by_digest_and_given_flags_are_used(deployed: Any, tmp_path: Path) -> None:
    assert deployed("digest").container["image"] == f"a/b@sha256:{'0' * 64}"
    assert deployed("flags").settings(tmp_path).server.max_message_bytes == 64 << 20
    assert deployed("flags").container["env"] == [{"name": "TZ", "value": "UTC"}]


def test_pods_go_where_the_values_say(made: Mapping[str, list[Manifest]], deployed: Any) -> None:
    pod = deployed("placed").pod
    assert pod["nodeSelector"] == {"a": "b"}
    assert pod["tolerations"] == [{"key": "a", "operator": "Exists"}]
    assert pod["affinity"] == {"nodeAffinity": {}}
    assert pod["priorityClassName"] == "high"
    assert pod["imagePullSecrets"] == [{"name": "g"}]
    assert pod["serviceAccountName"] == "ie-serving"
    assert "topologySpreadConstraints" not in pod
    assert deployed("placed").labels["c"] == "d"
    budget = kind(made["placed"], "PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == "25%"
    assert budget["selector"]["matchLabels"].items() <= deployed("placed").labels.items()
    services = {each["metadata"]["name"]: each["spec"] for each in deployed("placed").services}
    assert services["ie-serving"]["type"] == "LoadBalancer"
    assert services["ie-serving-headless"]["clusterIP"] == "None"
    spread = deployed("tls").pod["topologySpreadConstraints"]
    for each in spread:
        assert each["labelSelector"]["matchLabels"].items() <= deployed("tls").labels.items()


def test_routes_lead_to_what_is_served_and_leave_out_what_changes_models() -> None:
    http = yaml.safe_load((MANIFESTS / "gateway/httproute.yaml").read_text())["spec"]["rules"]
    paths = [match["path"]["value"] for rule in http for match in rule["matches"]]
    assert paths == [MODELS, "/v2/models", "/v2/health", "/v2"]
    grpc = yaml.safe_load((MANIFESTS / "gateway/grpcroute.yaml").read_text())["spec"]["rules"]
    methods = [match["method"] for rule in grpc for match in rule["matches"]]
    reached = {
        rpc
        for rpc in RPC
        for method in methods
        if re.fullmatch(f"/{method['service']}/{method.get('method', '.*')}", rpc)
    }
    left_out = {rpc.split("/")[-1] for rpc in RPC.keys() - reached}
    profiler = {"Profile", "Monitor", "Terminate"}
    assert left_out == {"HandleReloadConfigRequest", "ServerReflectionInfo", *profiler}


def test_an_ingress_reaches_what_the_routes_reach(made: Mapping[str, list[Manifest]]) -> None:
    """And by the class, certificate and annotations that the values name."""
    found = {
        each["metadata"]["name"]: each for each in made["ingress"] if each["kind"] == "Ingress"
    }
    rest, grpc = found["ie-serving"]["spec"], found["ie-serving-grpc"]
    assert grpc["metadata"]["annotations"] == {
        "nginx.ingress.kubernetes.io/backend-protocol": "GRPC"
    }
    assert rest["ingressClassName"] == "nginx"
    assert rest["tls"] == [{"secretName": "a", "hosts": ["rest.example.com"]}]
    assert [rule["host"] for rule in grpc["spec"]["rules"]] == ["grpc.example.com"]
    http = yaml.safe_load((MANIFESTS / "gateway/httproute.yaml").read_text())["spec"]["rules"]
    assert _reached(rest) == {
        (match["path"]["value"], match["path"]["type"].removeprefix("Path"), 8000)
        for rule in http
        for match in rule["matches"]
    }
    routes = yaml.safe_load((MANIFESTS / "gateway/grpcroute.yaml").read_text())["spec"]["rules"]
    assert _reached(grpc["spec"]) == {
        (
            "/" + "/".join(match["method"].values()),
            "Exact" if "method" in match["method"] else "Prefix",
            9000,
        )
        for rule in routes
        for match in rule["matches"]
    }


def _reached(spec: Manifest) -> set[tuple[str, str, int]]:
    """Path, how it is compared, and port of each rule of an Ingress."""
    return {
        (path["path"], path["pathType"], path["backend"]["service"]["port"]["number"])
        for rule in spec["rules"]
        for path in rule["http"]["paths"]
    }


def test_further_volumes_are_mounted(deployed: Any) -> None:
    assert deployed("further volumes").volumes["labels"]["configMap"] == {"name": "labels"}
    assert deployed("further volumes").mounts["/labels"]["name"] == "labels"


OLD_VALUES = {
    *("replicas", "config_configmap_name", "model_name", "model_path", "gcp_creds_secret_name"),
    *("aws_access_key_id", "aws_secret_access_key", "aws_region", "s3_compat_api_endpoint"),
    *("image_name", "target_device", "nireq", "plugin_config", "log_level", "service_type"),
}
"""Of the charts `ovms`. Source: deploy/ovms of the server of 2020, and of OpenVINO Model Server."""


def rows_of_old_values() -> list[tuple[set[str], set[str]]]:
    """Words in code of both cells of each row of docs/guide/migration-ie-serving-2020.md."""
    page = (ROOT / "docs" / "guide" / "migration-ie-serving-2020.md").read_text()
    section = page.partition("\n## The charts of 2020")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*) \| (.*) \|$", section, re.MULTILINE)[1:]
    return [(set(re.findall("`([^`]+)`", a)), set(re.findall("`([^`]+)`", b))) for a, b in rows]


def test_every_value_of_the_old_charts_has_one_here() -> None:
    rows = rows_of_old_values()
    assert set().union(*(old for old, _ in rows)) == OLD_VALUES
    values = yaml.safe_load((HELM / "ie-serving" / "values.yaml").read_text())
    for old, here in rows:
        paths = [word.partition(":")[0].split(".") for word in here]
        known = [path for path in paths if path[0] in values]
        assert known, old
        for path in known:
            within = values
            for step in path:
                within = within[step]


def test_an_install_of_2020_goes_on_with_its_values(
    made: Mapping[str, list[Manifest]], deployed: Any, tmp_path: Path
) -> None:
    old = deployed("of 2020")
    assert old.spec["replicas"] == 2
    assert old.volumes["models"]["configMap"]["name"] == "models"
    assert old.volumes["credentials"]["secret"]["secretName"] == "creds"
    environ = old.environ(tmp_path)
    assert environ == {"GOOGLE_APPLICATION_CREDENTIALS": f"{tmp_path}/secret/gcp-creds.json"}
    assert "--log_level=DEBUG" in old.container["args"]
    service = kind(made["of 2020"], "Service")["spec"]
    assert service["type"] == "LoadBalancer"
    assert [(port["name"], port["port"]) for port in service["ports"]] == [
        ("grpc", 8080),
        ("rest", 8081),
    ]


def test_a_model_of_2020_goes_on_with_its_values(deployed: Any, tmp_path: Path) -> None:
    settings = deployed("a model of 2020").settings(tmp_path)
    (model,) = settings.models
    assert (model.name, model.base_path) == ("resnet", "s3://models/resnet")
    (source,) = deployed("a model of 2020").container["envFrom"]
    assert source["secretRef"]["name"] == "aws"
    assert "nireq=4" in repr(model.engine)
    assert "'CPU_THROUGHPUT_STREAMS': '2'" in repr(model.engine)
