"""`deploy/verify.sh`, which tries the chart in a cluster.

Its client asks servers; the script itself runs with stand-ins for kubectl and helm.
"""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.functional.deployed import read
from tests.functional.servers import ROOT, Server
from tests.process import Process, output_of, until

DEPLOY = ROOT / "deploy"
SCRIPT = DEPLOY / "verify.sh"
CLIENT = DEPLOY / "verify_client.py"
MODEL = ROOT / "examples" / "models" / "digits" / "2"
IMAGE = "registry.example.com:5000/me/ie-serving:0.1.0"

WAYS = ("REST", "gRPC", "REST v2", "gRPC v2")
"""As the client tells of them: v1, grpc-v1, v2 and grpc-v2 of KServe."""


def as_config_map(directory: Path) -> Path:
    """The model as kubelet mounts a ConfigMap: behind a symbolic link that is switched."""
    data = directory / "..2026_11_23" / "1"
    data.mkdir(parents=True)
    for name in ("model.xml", "model.bin"):
        shutil.copy(MODEL / name, data)
    (directory / "..data").symlink_to(data.parent.name)
    (directory / "1").symlink_to("..data/1")
    return directory


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Server]]:
    model = as_config_map(tmp_path / "digits")
    flags = ("--model_name", "digits", "--model_path", str(model), "--drain_delay_seconds", "0.5")
    running = [Server("ie_serving", "model", *flags) for _ in range(2)]
    try:
        yield [each.ready() for each in running]
    finally:
        for each in running:
            each.close()


class Asking:
    """A client that has begun to ask both interfaces."""

    def __init__(self, rest: Server, grpc: list[Server], files: Path) -> None:
        files.mkdir()
        self._stop = files / "stop"
        ready = files / "asks"
        addresses = ",".join(f"127.0.0.1:{each.port}" for each in grpc)
        self.process = Process(
            sys.executable,
            CLIENT,
            f"--rest=127.0.0.1:{rest.rest_port}",
            f"--grpc=ipv4:{addresses}",
            f"--ready_file={ready}",
            f"--stop_file={self._stop}",
        )
        until(ready.exists)

    def exit_code(self) -> int:
        self._stop.touch()
        return self.process.exit_code()


def test_the_client_sees_whether_a_request_failed(servers: list[Server], tmp_path: Path) -> None:
    first, second = servers
    asking = Asking(second, servers, tmp_path / "a")
    assert first.stop() == 0
    assert asking.exit_code() == 0
    for name in WAYS:
        assert asking.process.line(f"^{name}: [1-9][0-9]* answered, 0 failed$")
    asking = Asking(second, [second], tmp_path / "b")
    second.kill()
    assert asking.exit_code() == 1
    for name in WAYS:
        assert asking.process.line(f"^{name}: [0-9]+ answered, [1-9][0-9]* failed; the first: ")


STAND_IN = """#!/bin/sh
echo "${0##*/} $*" >> "$CALLS"
case "$*" in *"$FAILS"*) exit 1 ;; esac
"""


def run(tmp_path: Path, *arguments: str, fails: str) -> tuple[int, list[str]]:
    """Run the script with stand-ins that record their calls, and fail where `fails` is a part."""
    for name in ("kubectl", "helm"):
        command = tmp_path / name
        command.write_text(STAND_IN)
        command.chmod(0o755)
    calls = tmp_path / "calls"
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "CALLS": str(calls), "FAILS": fails}
    process = Process("/bin/sh", SCRIPT, *arguments, env=env)
    code = process.exit_code()
    return code, calls.read_text().splitlines() if calls.exists() else []


def test_the_script_installs_rolls_asks_and_removes(tmp_path: Path) -> None:
    code, calls = run(tmp_path, IMAGE, fails="nothing")
    assert code == 0
    (namespace,) = (call.split()[3] for call in calls if "create namespace" in call)
    without = [call.replace(f" --namespace {namespace}", "") for call in calls]
    order = [
        "helm upgrade --install ie-serving deploy/helm/ie-serving",
        "kubectl create --filename -",
        "kubectl wait --for=condition=Ready pod/verify-client",
        "kubectl rollout restart deployment/ie-serving",
        "kubectl rollout restart deployment/ie-serving",
        "kubectl exec verify-client -- touch /tmp/stop",
        "kubectl wait --for=jsonpath={.status.phase}=Succeeded",
        "helm uninstall ie-serving",
        "kubectl delete namespace",
    ]
    rest = iter(without)
    assert [step for step in order if not any(call.startswith(step) for call in rest)] == []
    (install,) = (call for call in calls if call.startswith("helm") and "--install" in call)
    assert "image.repository=registry.example.com:5000/me/ie-serving" in install
    assert install.endswith("image.tag=0.1.0")


@pytest.mark.parametrize("fails", ["--install", "rollout status", "status.phase"])
def test_what_fails_is_said_and_removed(fails: str, tmp_path: Path) -> None:
    code, calls = run(tmp_path, IMAGE, fails=fails)
    assert code == 1
    assert calls[-1].startswith("kubectl delete namespace ie-serving-verify-")


def test_what_is_kept_is_not_removed(tmp_path: Path) -> None:
    code, calls = run(tmp_path, IMAGE, "--keep", fails="nothing")
    assert code == 0
    assert not [call for call in calls if "delete" in call or "uninstall" in call]


@pytest.mark.parametrize("arguments", [(), ("registry.example.com:5000/a",), ("a@sha256:0",)])
def test_an_image_without_a_tag_is_refused(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert run(tmp_path, *arguments, fails="nothing") == (2, [])


def test_the_client_in_the_cluster_asks_what_the_chart_makes() -> None:
    (container,) = read(DEPLOY / "verify_client.yaml")["spec"]["containers"]
    values = yaml.safe_load((DEPLOY / "helm/values/verify.yaml").read_text())
    assert values["service"]["headless"] is True
    assert "--rest=ie-serving:8000" in container["command"]
    assert "--grpc=dns:///ie-serving-headless:9000" in container["command"]
    assert container["command"][:2] == ["python", "/client/verify_client.py"]


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="apt-get install shellcheck")
def test_shellcheck_finds_nothing() -> None:
    assert output_of(str(shutil.which("shellcheck")), SCRIPT) == []
