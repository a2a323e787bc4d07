"""The manifests of `deploy/kubernetes`, a directory for each storage, checked without a cluster."""

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from kubernetes_validate.utils import all_versions

from ie_serving.config.dialects import ie_serving
from ie_serving.config.dialects.environment import storage_options
from ie_serving.config.settings import Parsed, Settings
from ie_serving.config.values.faults import Faults
from ie_serving.server.fronts.admin.health import LIVE, READY
from ie_serving.server.process.lifecycle import CLOSE_TIMEOUT_S
from tests.functional.servers import ROOT
from tests.process import output_of

SETS = sorted(path for path in (ROOT / "deploy" / "kubernetes").iterdir() if path.is_dir())
FILES = sorted(path for each in SETS for path in each.glob("*.yaml"))
VERSIONS = [f"1.{minor}" for minor in range(25, 38)]
SCHEMES = {"local": "/", "s3": "s3://", "gcs": "gs://", "minio": "minio://"}
GIB = 2**30

Manifest = dict[str, Any]


def name_of(path: Path) -> str:
    return "/".join(path.parts[-2:]) if path.suffix else path.name


def read(path: Path) -> Manifest:
    (manifest,) = yaml.safe_load_all(path.read_text())
    assert isinstance(manifest, dict)
    return manifest


class Deployed:
    """One set, by kind, and what its Deployment runs."""

    def __init__(self, directory: Path) -> None:
        self.manifests = {kind["kind"]: kind for kind in map(read, directory.glob("*.yaml"))}
        self.spec: Manifest = self.manifests["Deployment"]["spec"]
        self.pod: Manifest = self.spec["template"]["spec"]
        (self.container,) = self.pod["containers"]
        self.volumes = {volume["name"]: volume for volume in self.pod["volumes"]}
        self.mounts = {each["mountPath"]: each for each in self.container["volumeMounts"]}

    def environ(self, files: Path) -> dict[str, str]:
        """What the server's environment is; paths in mounted volumes begin at `files` instead."""
        found = {}
        for source in self.container.get("envFrom", []):
            secret = self.manifests["Secret"]
            assert source["secretRef"]["name"] == secret["metadata"]["name"]
            found |= secret["stringData"]
        for variable in self.container.get("env", []):
            found[variable["name"]] = str(files) + variable["value"]
        return found

    def settings(self, files: Path) -> Settings:
        return self.parsed(files).settings

    def parsed(self, files: Path) -> Parsed:
        """Parse the arguments and the ConfigMap as the server does."""
        mounted = self.mounts["/config"]["name"]
        config = self.manifests["ConfigMap"]
        assert self.volumes[mounted]["configMap"]["name"] == config["metadata"]["name"]
        for name, text in config["data"].items():
            (files / "config" / name).parent.mkdir(exist_ok=True)
            (files / "config" / name).write_text(text)
        command, *arguments = self.container["args"]
        assert command == "ie_serving"
        moved = [argument.replace("=/config/", f"={files}/config/") for argument in arguments]
        parsed = ie_serving.parse(moved, self.environ(files))
        assert parsed.warnings == ()
        return parsed


@pytest.fixture(params=SETS, ids=name_of)
def deployed(request: pytest.FixtureRequest) -> Deployed:
    return Deployed(request.param)


def test_the_schemas_are_those_of_the_versions_that_are_promised() -> None:
    assert set(VERSIONS) <= {re.sub(r"^(\d+\.\d+).*", r"\1", each) for each in all_versions()}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_manifest_fits_the_schema_strictly(path: Path, version: str) -> None:
    assert kubernetes_validate.validate(read(path), version, strict=True).startswith(version)


def test_there_is_a_set_for_each_storage() -> None:
    assert {path.name for path in SETS} == set(SCHEMES)


def test_the_arguments_and_the_models_are_what_the_server_takes(
    deployed: Deployed, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    settings = deployed.settings(tmp_path)
    assert [model.name for model in settings.models] == ["digits"]
    (storage,) = (name for name in SCHEMES if f"[{name}]" in request.node.name)
    assert settings.models[0].base_path.startswith(SCHEMES[storage])


def test_the_environment_is_what_storage_takes(deployed: Deployed, tmp_path: Path) -> None:
    """Files of a mounted Secret lie where their variable says."""
    for volume in deployed.volumes.values():
        if "secret" in volume:
            (where,) = (
                at for at, each in deployed.mounts.items() if each["name"] == volume["name"]
            )
            for name, text in deployed.manifests["Secret"]["stringData"].items():
                (tmp_path / where.lstrip("/")).mkdir()
                (tmp_path / where.lstrip("/") / name).write_text(text)
    environ = deployed.environ(tmp_path)
    options = storage_options(environ, Faults(), cache_dir=tmp_path)
    used = {option for group in (options.s3, options.gcs, options.minio) for option in texts(group)}
    assert set(environ.values()) <= used | {f"https://{options.minio.endpoint}"}


def texts(options: object) -> set[str]:
    return {value for value in vars(options).values() if isinstance(value, str)}


def test_ports_are_the_servers_and_the_service_leads_to_them(
    deployed: Deployed, tmp_path: Path
) -> None:
    server = deployed.settings(tmp_path).server
    ports = {port["name"]: port["containerPort"] for port in deployed.container["ports"]}
    assert ports == {"grpc": server.port, "rest": server.rest_port}
    service = deployed.manifests["Service"]["spec"]
    assert {port["targetPort"] for port in service["ports"]} == set(ports)
    assert service["selector"] == deployed.spec["selector"]["matchLabels"]
    assert service["selector"].items() <= deployed.spec["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("probe", "path"), [("startupProbe", READY), ("readinessProbe", READY), ("livenessProbe", LIVE)]
)
def test_probes_ask_what_the_server_answers(deployed: Deployed, probe: str, path: str) -> None:
    assert deployed.container[probe]["httpGet"] == {"path": path, "port": "rest"}


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
    user = re.search(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert user
    assert (str(pod["runAsUser"]), str(pod["runAsGroup"])) == user.groups()
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own["allowPrivilegeEscalation"] is False
    assert own["readOnlyRootFilesystem"] is True
    assert own["capabilities"] == {"drop": ["ALL"]}


def test_the_commands_of_the_documentation_change_what_they_mean_to(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "deployment.md").read_text()
    commands = re.findall(r"^(?:export|cp|sed) .*", text, re.MULTILINE)
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    output_of("/bin/sh", "-eu", "-c", "\n".join(commands), cwd=tmp_path)
    deployed = Deployed(tmp_path / "my-serving")
    assert deployed.container["image"] == "registry.example.org/me/ie-serving:0.1.0"
    (model,) = deployed.settings(tmp_path).models
    assert model.base_path == "s3://my-models/digits"


def test_the_sets_differ_only_in_how_the_repository_is_reached() -> None:
    def common(directory: Path) -> Manifest:
        deployed = Deployed(directory)
        own = {"repository", "credentials"}
        spec, pod = dict(deployed.spec), dict(deployed.pod)
        container = dict(deployed.container)
        container["volumeMounts"] = [m for m in container["volumeMounts"] if m["name"] not in own]
        pod["volumes"] = [volume for volume in pod["volumes"] if volume["name"] not in own]
        for key in ("env", "envFrom"):
            container.pop(key, None)
        del spec["strategy"]
        return {**spec, "template": {"spec": {**pod, "containers": [container]}}}

    first, *others = map(common, SETS)
    for other in others:
        assert other == first
