"""The server as `deploy/kubernetes/production` starts it, on this machine: TLS, keys, probes."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest
from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc

from tests.certificates import Authority
from tests.functional.deployed import MANIFESTS, Deployed, read
from tests.functional.servers import READY, ROOT, SAMPLE, Server, rpc_refused
from tests.process import PATIENCE_S

pytestmark = pytest.mark.deployed

PRODUCTION = MANIFESTS / "production"
DEPLOYED = Deployed.of(PRODUCTION)
RIGHTS = {"client": "predict,read", "prometheus": "read"}


def with_files(argument: str, files: Path) -> str:
    """Let an argument that names a file of a mount name it in `files`."""
    name, equals, value = argument.partition("=")
    mounted = any(value == each or value.startswith(f"{each}/") for each in DEPLOYED.mounts)
    return f"{name}={files}{value}" if mounted else f"{name}{equals}{value}"


def write(files: Path, authority: Authority) -> None:
    """Put there what ConfigMap and Secrets hold; the models are those of this machine."""
    for name in ("config", "tls", "auth"):
        (files / name).mkdir()
    text = DEPLOYED.manifests["ConfigMap"]["data"]["config.json"]
    (files / "config" / "config.json").write_text(text.replace("s3://models/digits", str(SAMPLE)))
    pair = authority.server()
    pair.certificate.rename(files / "tls" / "tls.crt")
    pair.key.rename(files / "tls" / "tls.key")
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in RIGHTS}
    lines = (f"{name} {rights} * sha256:{digests[name]}\n" for name, rights in RIGHTS.items())
    (files / "auth" / "keys").write_text("".join(lines))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Server]:
    files = tmp_path_factory.mktemp("files")
    write(files, authority)
    arguments = (with_files(each, files) for each in DEPLOYED.container["args"])
    with Server(*arguments, "--drain_delay_seconds=0") as running:
        running.line(READY)
        yield running


@pytest.fixture(scope="module")
def rest(server: Server) -> Iterator[httpx.Client]:
    """A client that verifies no certificate, as kubelet's probes."""
    url = f"https://127.0.0.1:{server.rest_port}"
    with httpx.Client(base_url=url, verify=False, timeout=PATIENCE_S, trust_env=False) as client:
        yield client


@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_probes_pass_without_credentials(probe: str, rest: httpx.Client) -> None:
    asked = DEPLOYED.container[probe]["httpGet"]
    assert asked["scheme"] == "HTTPS"
    assert rest.get(asked["path"]).status_code == 200


def test_rest_answers_a_caller_with_a_key(rest: httpx.Client) -> None:
    body = json.loads((ROOT / "examples/digits/request.json").read_text())
    asked = "/v1/models/digits:predict"
    assert rest.post(asked, json=body).status_code == 401
    key = {"Authorization": "Bearer client"}
    assert rest.post(asked, json=body, headers=key).status_code == 200


def test_grpc_answers_a_caller_with_a_key(server: Server, authority: Authority) -> None:
    trusted = grpc.ssl_channel_credentials(authority.path.read_bytes())
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "digits"
    with grpc.secure_channel(f"localhost:{server.port}", trusted) as channel:
        status = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus
        with rpc_refused("UNAUTHENTICATED"):
            status(request, timeout=PATIENCE_S)
        status(request, timeout=PATIENCE_S, metadata=[("authorization", "Bearer client")])


def test_prometheus_reads_what_scaling_asks_for(rest: httpx.Client) -> None:
    (endpoint,) = read(PRODUCTION / "servicemonitor.yaml")["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    scheme = endpoint["authorization"]["type"]
    assert rest.get(endpoint["path"]).status_code == 401
    page = rest.get(endpoint["path"], headers={"Authorization": f"{scheme} prometheus"})
    (scaled,) = read(PRODUCTION / "hpa.yaml")["spec"]["metrics"]
    assert f'{scaled["pods"]["metric"]["name"]}{{model_name="digits",version="2"}} 0' in page.text
