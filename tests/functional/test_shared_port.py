"""gRPC and REST on one port, plain and encrypted, by the clients that people have."""

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing

import grpc
import httpx
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_service_pb2_grpc

from tests.certificates import Authority
from tests.functional.asking import predict_request
from tests.functional.protocols import http2_client
from tests.functional.servers import PLAIN, READY, ROOT, SAMPLE_FLAGS, Server
from tests.process import PATIENCE_S, free_ports
from tests.tables import named_by

REQUEST = json.loads((ROOT / "examples" / "digits" / "request.json").read_text())
PREDICT = "/v1/models/digits:predict"
DIGITS = ("ie_serving", "model", *SAMPLE_FLAGS)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def _open(*flags: str) -> Server:
    server = Server(*DIGITS, *flags, ports=free_ports(1) * 2)
    assert f"port {server.port} " in server.line("REST server listens on port")
    assert f"port {server.port} " in server.line(READY)
    server.url = f"{'https' if flags else 'http'}://localhost:{server.port}"
    return server


@pytest.fixture(scope="module")
def plain() -> Iterator[Server]:
    with closing(_open()) as server:
        yield server


@pytest.fixture(scope="module")
def encrypted(authority: Authority) -> Iterator[Server]:
    pair = authority.server()
    files = (f"--tls_certificate={pair.certificate}", f"--tls_key={pair.key}")
    with closing(_open(*files)) as server:
        yield server


@pytest.fixture(params=["plain", "encrypted"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


def test_both_interfaces_answer_alike(server: Server, authority: Authority) -> None:
    context = ssl.create_default_context(cafile=authority.path)
    with httpx.Client(base_url=server.url, verify=context, trust_env=False) as rest:
        (over_rest,) = rest.post(PREDICT, json=REQUEST).json()["predictions"]
        assert rest.get("/v2/health/ready").status_code == 200
        page = rest.get("/metrics").text
    assert "ie_serving_connections 1" in page
    image = REQUEST["instances"][0]["image"]
    request = predict_request("digits", image=tf.make_tensor_proto([image], tf.float32))
    with channel(server, authority) as opened:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(opened)
        reply = stub.Predict(request, PATIENCE_S)
    (over_grpc,) = tf.make_ndarray(reply.outputs["probabilities"])
    assert over_grpc == pytest.approx(over_rest["probabilities"], abs=1e-6)


def channel(server: Server, authority: Authority) -> grpc.Channel:
    target = f"localhost:{server.port}"
    if not server.url.startswith("https"):
        return grpc.insecure_channel(target)
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(authority.path.read_bytes()))


@named_by(
    "offered",
    ("offered", "agreed"),
    [
        (["h2"], "h2"),
        (["h2", "http/1.1"], "http/1.1"),  # curl, browsers: they want pages
        (["http/1.1"], "http/1.1"),
        ([], None),
    ],
)
def test_alpn_agrees_upon_h2_or_http_1_1(
    encrypted: Server, authority: Authority, offered: list[str], agreed: str | None
) -> None:
    context = ssl.create_default_context(cafile=authority.path)
    if offered:
        context.set_alpn_protocols(offered)
    with (
        socket.create_connection(("localhost", encrypted.port), PATIENCE_S) as tcp,
        context.wrap_socket(tcp, server_hostname="localhost") as client,
    ):
        assert client.selected_alpn_protocol() == agreed
        if agreed != "h2":  # also without ALPN, by the first bytes
            client.sendall(b"GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n")
            assert client.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_pages_over_http2_are_refused(plain: Server) -> None:
    """HTTP/2 is gRPC here, and the status says so, as on a gRPC port of its own."""
    page = [(":method", "GET"), (":scheme", "http"), (":path", "/metrics"), (":authority", "x")]
    json_type = ("content-type", "application/json")
    body = http2_client.request(json_type, without="content-type", path=PREDICT)
    sent = (
        http2_client.HELLO,
        http2_client.headers(1, page, http2_client.END_STREAM),
        http2_client.headers(3, body),
        http2_client.data(3, b"{}"),
    )
    assert http2_client.outcome(plain.port, *sent) == "1 405, 3 415"


def test_an_upgrade_to_http2_is_answered_in_http1(plain: Server) -> None:
    head = {"connection": "upgrade, http2-settings", "upgrade": "h2c", "http2-settings": ""}
    reply = httpx.get(f"{plain.url}/v2/health/live", headers=head, trust_env=False, verify=PLAIN)
    assert (reply.status_code, reply.http_version) == (200, "HTTP/1.1")
