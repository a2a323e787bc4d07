"""The log at its most talkative: shapes and dtypes, and never data or secrets."""

import base64
import hashlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf

from tests.functional.servers import SAMPLE, Server, config_flag
from tests.functional.test_transports import predict
from tests.process import PATIENCE_S, free_ports, until

SECRET = "hunter2"
"""A part of every secret here, and of every header."""
DATA = 31337.25
"""A number of every tensor here."""
FORM = "float32[1, 64]"
"""Of a tensor, as the log has it."""
BODY = {"instances": [[DATA] * 64]}


def forms(text: str) -> set[str]:
    """Give what a text may be recognized by, also where it was encoded."""
    encoded = {base64.b64encode((" " * n + text).encode())[4 * (n > 0) : -4] for n in range(3)}
    return {text, hashlib.sha256(text.encode()).hexdigest()[:16], *map(bytes.decode, encoded)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("debug")
    keys = root / "keys"
    digest = hashlib.sha256(f"{SECRET}-key".encode()).hexdigest()
    keys.write_text(f"ops predict,read,administrate * sha256:{digest}\n")
    (closed,) = free_ports(1)
    entries: list[dict[str, Any]] = [
        {"name": "digits", "base_path": str(SAMPLE)},
        {"name": "away", "base_path": "s3://bucket/away"},
        {"name": "farther", "base_path": "minio://bucket/away"},
    ]
    file = config_flag(root / "config.json", *entries)
    variables = {
        "AWS_ACCESS_KEY_ID": f"{SECRET}-id",
        "AWS_SECRET_ACCESS_KEY": f"{SECRET}-secret",
        "AWS_SESSION_TOKEN": f"{SECRET}-token",
        "S3_ENDPOINT": f"http://user:{SECRET}@127.0.0.1:{closed}",
        "MINIO_ENDPOINT": f"http://127.0.0.1:{closed}",
        "MINIO_ACCESS_KEY": f"{SECRET}-minio-id",
        "MINIO_SECRET_KEY": f"{SECRET}-minio",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://user:{SECRET}@127.0.0.1:{closed}",
        "OTEL_EXPORTER_OTLP_HEADERS": f"x-token={SECRET}",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
    }
    flags = (file, f"--api_key_file={keys}", "--log_level=debug")
    flags += ("--enable_auth", "--auth_username=admin", f"--auth_password={SECRET}-password")
    flags += ("--access_log=-", "--log_format=json", "--allow_unavailable_models")
    flags += ("--ready_after_seconds=0", "--open_ports_early")
    with Server("ie_serving", "config", *flags, env=variables) as started:
        yield started.ready()


def authorized(more: str = "") -> dict[str, str]:
    return {"authorization": f"Bearer {SECRET}-key", "x-secret": SECRET + more}


def ask(server: Server) -> None:
    """Ask whatever may be asked, well and badly, with secrets wherever one fits."""
    url, given = "/v1/models/digits:predict", authorized()
    until(lambda: server.rest.post(url, json=BODY, headers=given).status_code == 200)
    basic = base64.b64encode(f"admin:{SECRET}-password".encode()).decode()
    wrong = base64.b64encode(f"admin:{SECRET}-wrong".encode()).decode()
    for value in (f"Basic {basic}", f"Basic {wrong}", f"Bearer {SECRET}-wrong"):
        server.rest.post(url, json=BODY, headers={"authorization": value})
    server.rest.post(url, json=BODY, headers={"x-api-key": f"{SECRET}-key"})
    server.rest.post(f"{url}?password={SECRET}&x={SECRET}", json=BODY, headers=given)
    bad = ({"instances": [[DATA]]}, {"inputs": {f"{DATA}": DATA}}, {"instances": [f"{DATA}"] * 3})
    for body in (*bad, {"signature_name": f"{DATA}", "instances": [DATA]}, [DATA]):
        server.rest.post(url, json=body, headers=given)
    server.rest.post(url, content=f'{{"instances": [{DATA}'.encode(), headers=given)
    server.rest.get("/v1/config", headers=given)
    server.rest.post("/v1/config/reload", headers=given)
    for key in ("key", "wrong"):
        request: Any = predict()
        request.inputs["image"].CopyFrom(tf.make_tensor_proto(np.full((1, 64), DATA, np.float32)))
        metadata = (("authorization", f"Bearer {SECRET}-{key}"), ("x-secret", SECRET))
        with suppress(grpc.RpcError):
            server.prediction.Predict(request, PATIENCE_S, metadata=metadata)
        request.inputs["image"].CopyFrom(tf.make_tensor_proto([f"{DATA}"]))
        with suppress(grpc.RpcError):
            server.prediction.Predict(request, PATIENCE_S, metadata=metadata)


def test_the_level_is_changed_while_it_runs(server: Server) -> None:
    """Also for a version that has been asked before, which has bound whether lines are wanted."""
    given = authorized()

    def predicted() -> bool:
        reply = server.rest.post("/v1/models/digits:predict", json=BODY, headers=given)
        return reply.status_code == 200

    def asked(level: str) -> None:
        body = {"log_level": level}
        reply = server.rest.post("/v1/log_level", json=body, headers=given)
        assert reply.json() == server.rest.get("/v1/log_level", headers=given).json() == body
        assert predicted()

    until(predicted)
    until(lambda: server.log.count(FORM) == 1)
    asked("INFO")
    asked("DEBUG")
    until(lambda: server.log.count(FORM) == 2)
    reply = server.rest.post("/v1/log_level", json={"log_level": "loud"}, headers=given)
    assert reply.status_code == 400


def test_shapes_and_dtypes_are_shown_and_never_data_or_secrets(server: Server) -> None:
    ask(server)
    until(lambda: FORM in server.log)
    assert server.stop() == 0
    assert "request failed" in server.log
    # That the stores and the collector were asked: what they were asked with was at hand.
    assert "listing failed" in server.log
    assert "opentelemetry" in server.log
    unwanted = [*forms(SECRET), *forms(f"{SECRET}-key"), f"{DATA}"]
    lines = [line for line in server.lines if any(each in line for each in unwanted)]
    assert not lines
