"""TLS on both ports and both gRPC transports, with clients that are believed and others."""

import json
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from tests.certificates import PAST, Authority, Pair
from tests.functional.asking import predict_request
from tests.functional.servers import PLAIN, READY, ROOT, SAMPLE, SAMPLE_FLAGS, Server, rpc_refused
from tests.process import PATIENCE_S

TRANSPORTS = ("http2", "grpcio")
REQUEST = json.loads((ROOT / "examples" / "digits" / "request.json").read_text())
PREDICT = "/v1/models/digits:predict"
ROWS_OF_2_MB = 2 * 1024 * 1024 // (64 * 4)


class Encrypted(Server):
    """A server whose clients believe an authority, and may have a certificate."""

    def __init__(self, authority: Authority, *flags: str) -> None:
        super().__init__("ie_serving", "model", *SAMPLE_FLAGS, *flags)
        self.line(READY)
        self.authority = authority

    def https(self, client: Pair | None = None) -> httpx.Client:
        """Give a client of the REST port."""
        context = ssl.create_default_context(cafile=self.authority.path)
        if client:
            context.load_cert_chain(*client.paths)
        base_url = f"https://localhost:{self.rest_port}"
        return httpx.Client(base_url=base_url, verify=context, timeout=PATIENCE_S, trust_env=False)

    def renew(self, outcome: str) -> None:
        """Let the server look for renewed files now."""
        self.send(signal.SIGHUP)
        self.line(outcome)

    def rest_predict(self, client: Pair | None = None) -> Any:
        """Predict the sample's row over REST."""
        with self.https(client) as rest:
            return rest.post(PREDICT, json=REQUEST).json()["predictions"]

    def grpc_predict(self, client: Pair | None = None, rows: int = 1) -> Any:
        """Predict the sample's row, so many times, over gRPC."""
        files = (self.authority.path, client.key, client.certificate) if client else ()
        given = [file.read_bytes() for file in files or (self.authority.path,)]
        options = [("grpc.max_receive_message_length", -1)]
        target, credentials = f"localhost:{self.port}", grpc.ssl_channel_credentials(*given)
        with grpc.secure_channel(target, credentials, options) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            reply = stub.Predict(_request(rows), PATIENCE_S)
        return tf.make_ndarray(reply.outputs["probabilities"])


def _request(rows: int) -> predict_pb2.PredictRequest:
    image = REQUEST["instances"][0]["image"]
    return predict_request("digits", image=tf.make_tensor_proto([image] * rows, tf.float32))


def _flags(pair: Pair) -> tuple[str, str]:
    return f"--tls_certificate={pair.certificate}", f"--tls_key={pair.key}"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def friend(authority: Authority) -> Pair:
    return authority.client("friend")


@pytest.fixture(scope="module", params=TRANSPORTS)
def mutual(
    request: pytest.FixtureRequest, authority: Authority, friend: Pair
) -> Iterator[Encrypted]:
    flags = (*_flags(authority.server()), f"--tls_client_ca={authority.path}")
    transport = f"--grpc_transport={request.param}"
    with Encrypted(authority, *flags, transport) as server:
        yield server


def test_both_ports_answer_alike(mutual: Encrypted, friend: Pair) -> None:
    (over_rest,) = mutual.rest_predict(friend)
    (over_grpc,) = mutual.grpc_predict(friend)
    assert over_grpc == pytest.approx(over_rest["probabilities"], abs=1e-6)


def test_large_messages_pass_over_tls(mutual: Encrypted, friend: Pair) -> None:
    assert len(mutual.grpc_predict(friend, ROWS_OF_2_MB)) == ROWS_OF_2_MB
    many = {"instances": REQUEST["instances"] * 3000}
    with mutual.https(friend) as rest:
        assert len(rest.post(PREDICT, json=many).json()["predictions"]) == 3000


@pytest.mark.parametrize("who", ["nobody", "a stranger", "too late"])
def test_a_client_without_a_valid_certificate_is_refused(
    mutual: Encrypted, authority: Authority, tmp_path: Path, who: str
) -> None:
    late = authority.client("late", until=PAST)
    stranger = Authority(tmp_path).client("stranger")
    client = {"nobody": None, "a stranger": stranger, "too late": late}[who]
    with rpc_refused("UNAVAILABLE"):
        mutual.grpc_predict(client)
    with pytest.raises(httpx.TransportError):
        mutual.rest_predict(client)


def _fails(port: int, context: ssl.SSLContext) -> str:
    """Give the alert by which a handshake fails, also after the client's part of it is over."""
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain,
        pytest.raises(ssl.SSLError) as refused,
        context.wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        tls.recv(1)
    return str(refused.value.reason)


def test_clients_are_told_why_they_are_refused(tmp_path: Path) -> None:
    """By an alert, a counter and a line in the log, at both ports."""
    authority = Authority(tmp_path)
    strangers = tmp_path / "strangers"
    strangers.mkdir()
    flags = (*_flags(authority.server()), f"--tls_client_ca={authority.path}")
    late = authority.client("late", until=PAST)
    pairs = (None, late, Authority(strangers).client("stranger"))
    with Encrypted(authority, *flags) as server:
        for port in (server.port, server.rest_port):
            for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
                contexts = [_speaking(authority, pair, version) for pair in pairs]
                nobody, expired, stranger = (_fails(port, each) for each in contexts)
                assert nobody in ("TLSV13_ALERT_CERTIFICATE_REQUIRED", HANDSHAKE_FAILURE)
                assert expired == "SSLV3_ALERT_CERTIFICATE_EXPIRED"
                assert stranger == "TLSV1_ALERT_UNKNOWN_CA"
        plain = httpx.get(
            f"http://127.0.0.1:{server.rest_port}/ping", trust_env=False, verify=PLAIN
        )
        assert (plain.status_code, plain.text.endswith("use https://\n")) == (400, True)
        line = server.line("TLS handshake failed")
        assert "reason=no_certificate address=127.0.0.1" in line
        with server.https(authority.client("friend")) as rest:
            page = rest.get("/metrics").text
    name = "ie_serving_tls_handshake_failures_total"
    counted = [each for each in page.splitlines() if each.startswith(name)]
    assert counted == [
        f'{name}{{reason="no_certificate"}} 4',
        f'{name}{{reason="certificate"}} 8',
        f'{name}{{reason="not_tls"}} 1',
    ]


HANDSHAKE_FAILURE = "SSLV3_ALERT_HANDSHAKE_FAILURE"
"""By which TLS 1.2 says that a certificate is missing."""


def _speaking(authority: Authority, client: Pair | None, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.path)
    context.maximum_version = version
    if client:
        context.load_cert_chain(*client.paths)
    return context


def test_plain_clients_are_refused(mutual: Encrypted) -> None:
    rest = httpx.get(
        f"http://127.0.0.1:{mutual.rest_port}/v2/health/live", trust_env=False, verify=PLAIN
    )
    assert rest.status_code == 400
    with grpc.insecure_channel(f"127.0.0.1:{mutual.port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            stub.Predict(_request(1), PATIENCE_S)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_client_refuses_a_server_that_it_does_not_believe(
    mutual: Encrypted, tmp_path: Path
) -> None:
    context = ssl.create_default_context(cafile=Authority(tmp_path).path)
    url = f"https://localhost:{mutual.rest_port}/v2/health/live"
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(url, verify=context, trust_env=False)


def test_a_renewed_certificate_is_used_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    """New connections see the new one, open ones go on, and a broken file changes nothing."""
    authority = Authority(tmp_path)
    pair, clients = authority.server(), [authority.client("one"), authority.client("other")]
    believed = f"--tls_client_ca={authority.path}"
    crl = f"--tls_client_crl={authority.revoke()}"
    with Encrypted(authority, *_flags(pair), believed, crl) as server:
        first = _serial(server, clients[0])
        with server.https(clients[0]) as rest:
            assert rest.get("/v2/health/live").status_code == 200
            pair.certificate.write_bytes(authority.path.read_bytes())
            server.renew("certificate not renewed, the previous one stays")
            assert _serial(server, clients[0]) == first
            authority.revoke(clients[0])
            pair.write(authority.signer.issue_cert("localhost"))
            server.renew("certificate renewed")
            assert rest.get("/v2/health/live").status_code == 200
        assert _serial(server, clients[1]) != first
        with pytest.raises(httpx.TransportError):
            server.rest_predict(clients[0])


def _serial(server: Encrypted, client: Pair) -> str:
    """Give the serial number of the certificate that a new connection gets."""
    with server.https(client) as rest, rest.stream("GET", "/v2/health/live") as reply:
        stream = reply.extensions["network_stream"]
        return str(stream.get_extra_info("ssl_object").getpeercert()["serialNumber"])


@pytest.mark.parametrize("verify", [False, True], ids=["any client", "known clients"])
def test_the_file_of_tensorflow_serving_sets_tls(tmp_path: Path, verify: bool) -> None:
    authority = Authority(tmp_path)
    pair, client = authority.server(), authority.client("client")
    parts = {"server_cert": pair.certificate, "server_key": pair.key, "custom_ca": authority.path}
    lines = [f"{name}: {json.dumps(path.read_text())}" for name, path in parts.items()]
    file = tmp_path / "ssl.config"
    file.write_text("\n".join([*lines, f"client_verify: {str(verify).lower()}"]))
    models = ("--model_name=digits", f"--model_base_path={SAMPLE}")
    server = Server("tensorflow_model_server", *models, f"--ssl_config_file={file}")
    with closing(server):
        server.line("--ssl_config_file encrypts gRPC alone")
        server.line(READY)
        status = f"http://127.0.0.1:{server.rest_port}/v1/models/digits"
        assert httpx.get(status, trust_env=False, verify=PLAIN).status_code == 200
        given = [authority.path, *((client.key, client.certificate) if verify else ())]
        credentials = grpc.ssl_channel_credentials(*[each.read_bytes() for each in given])
        with grpc.secure_channel(f"localhost:{server.port}", credentials) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            assert stub.Predict(_request(1), PATIENCE_S).model_spec.name == "digits"


def test_one_port_may_stay_plain(authority: Authority) -> None:
    """As with TensorFlow Serving, whose probes then need no certificate."""
    flags = (*_flags(authority.server("half")), "--tls_ports=grpc")
    with Encrypted(authority, *flags) as server:
        url = f"http://127.0.0.1:{server.rest_port}/v2/health/ready"
        assert httpx.get(url, trust_env=False, verify=PLAIN).status_code == 200
        assert len(server.grpc_predict()) == 1
