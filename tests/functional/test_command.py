"""The command: exit codes with their reasons, clean stops, a configuration file that is edited."""

import json
import os
import signal
import socket
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from ie_serving.core.values.errors import WHOLE
from tests.certificates import PAST, Authority
from tests.functional.conftest import Serve
from tests.functional.servers import PLAIN, READY, SAMPLE, SAMPLE_FLAGS, Server, config_flag
from tests.process import PATIENCE_S, Process, free_ports, until
from tests.tables import named_by


def test_the_command_tells_its_version() -> None:
    process = Process("ie_serving", "--version")
    assert process.exit_code() == 0
    assert "ie_serving" in process.log


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        pytest.param(["model"], ["model_name", "model_path"], id="no model"),
        pytest.param(
            ["model", *SAMPLE_FLAGS, "--port=x", "--nireq=-1"],
            ["--port", "--nireq"],
            id="values that are no numbers",
        ),
        pytest.param(["model", *SAMPLE_FLAGS, "--port=0", "--rest_port=0"], ["port"], id="no port"),
        pytest.param(
            ["config", "--config_path=/nowhere.json"], ["/nowhere.json"], id="no such file"
        ),
    ],
)
def test_a_wrong_command_line_names_every_fault(arguments: list[str], places: list[str]) -> None:
    process = Process("ie_serving", *arguments)
    assert process.exit_code() == 2
    for place in places:
        assert place in process.log
    assert "Traceback" not in process.log


@pytest.mark.parametrize(
    ("keys", "until", "fault"),
    [
        ({"colour": "red"}, None, "colour: unknown key, ignored"),
        ({"max_batch_size": 16, "allowed_batch_sizes": [4, 64]}, None, "no effect above"),
        ({}, PAST + timedelta(days=1), "the certificate expired on 2020-01-02"),
    ],
)
def test_a_check_fails_where_something_would_not_work_as_written(
    tmp_path: Path, keys: dict[str, Any], until: datetime | None, fault: str
) -> None:
    model = {"name": "digits", "base_path": str(SAMPLE), **keys}
    file = config_flag(tmp_path / "models.json", model)
    certificate, key = Authority(tmp_path).server(until=until).paths
    asked = (file, f"--tls_certificate={certificate}", f"--tls_key={key}")
    for more, code in (((), 1), (("--lenient",), 0)):
        process = Process("ie_serving", "check", *asked, *more)
        assert process.exit_code() == code
        assert ("server: " in process.log) == bool(code)
        assert fault in process.log or code == 0


@named_by(
    "fault",
    ("path", "environ", "fault"),
    [
        ("ftp://host/m", {}, "ftp://host/m: unknown scheme"),
        ("minio://bucket/m", {}, "set MINIO_ENDPOINT"),
        ("s3://bucket/m", {"AWS_CA_BUNDLE": "/nowhere.pem"}, "AWS_CA_BUNDLE: /nowhere.pem"),
        ("s3://key:word@bucket/m", {}, "s3://***@bucket/m: expected a bucket's name"),
    ],
)
@pytest.mark.parametrize(("command", "code"), [("ie_serving", 2), ("tensorflow_model_server", 255)])
def test_a_store_that_is_wrongly_set_up_is_named_before_anything_starts(
    path: str, environ: dict[str, str], fault: str, command: str, code: int
) -> None:
    own = command == "ie_serving"
    arguments = ["model", f"--model_path={path}"] if own else [f"--model_base_path={path}"]
    process = Process(command, *arguments, "--model_name=m", env={"MINIO_ENDPOINT": "", **environ})
    assert process.exit_code() == code
    assert fault in process.log
    # The original's line on standard output, and the fault on standard error.
    assert len(process.lines) == (1 if own else 2)
    assert "word" not in process.log


def test_a_wrong_file_names_every_fault_with_its_place(tmp_path: Path) -> None:
    entries = [{"name": "a", "base_path": "/a", "nireq": "many"}]
    entries.append({"base_path": "/b", "shape": "(1,"})
    process = Process("ie_serving", "config", config_flag(tmp_path / "config.json", *entries))
    assert process.exit_code() == 2
    assert "model_config_list[0].config.nireq" in process.log
    assert "model_config_list[1].config.shape" in process.log
    assert "model_config_list[1].config.name" in process.log


def test_a_model_path_that_cannot_be_listed_names_path_and_reason(tmp_path: Path) -> None:
    file = tmp_path / "notes.md"
    file.touch()
    port = free_ports(1)[0]
    process = Process(
        "ie_serving", "model", "--model_name=m", f"--model_path={file}", f"--port={port}"
    )
    assert process.exit_code() == 1
    assert f"{file}: is a file, expected a directory" in process.log
    assert "Traceback" not in process.log


def test_a_model_directory_that_is_created_later_is_served_then(
    serve: Serve, tmp_path: Path
) -> None:
    base = tmp_path / "later"
    late = {"name": "late", "base_path": str(base), "version_labels": {"stable": 2}}
    digits = {"name": "digits", "base_path": str(SAMPLE)}
    server = serve("ie_serving", "config", config_flag(tmp_path / "config.json", digits, late))
    assert server.rest.get("/v1/models/digits").status_code == 200
    missing = server.rest.get("/v1/models/late")
    assert (missing.status_code, "no such directory" in missing.headers[WHOLE]) == (404, True)
    assert "WARNING - model directory does not exist yet model=late" in server.log
    base.symlink_to(SAMPLE, target_is_directory=True)
    until(lambda: server.rest.get("/v1/models/late/labels/stable").status_code == 200)


def test_labels_at_the_start_wait_for_the_versions_that_they_name(
    serve: Serve, tmp_path: Path
) -> None:
    """The server starts with one that names a missing version; calls of it say so."""
    base = tmp_path / "digits"
    base.mkdir()
    (base / "1").symlink_to(SAMPLE / "1", target_is_directory=True)
    entry = {"name": "digits", "base_path": str(base), "model_version_policy": {"all": {}}}
    labelled = entry | {"version_labels": {"stable": 1, "next": 7}}
    server = serve("ie_serving", "config", config_flag(tmp_path / "config.json", labelled))

    def ask(label: str) -> httpx.Response:
        body = {"instances": [[0.0] * 64]}
        return server.rest.post(f"/v1/models/digits/labels/{label}:predict", json=body)

    assert ask("stable").is_success
    early = ask("next")
    assert early.status_code == 400
    assert "Unrecognized servable version label: next" in early.text
    (base / "7").symlink_to(SAMPLE / "2", target_is_directory=True)
    until(lambda: ask("next").is_success)


def test_a_port_in_use_is_named() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        process = Process(
            "ie_serving", "model", *SAMPLE_FLAGS, f"--port={port}", "--host=127.0.0.1"
        )
        assert process.exit_code() == 1
        assert f"port {port}" in process.log


def test_an_empty_directory_is_served_empty_and_polled(serve: Serve, tmp_path: Path) -> None:
    server = serve("ie_serving", "model", "--model_name=digits", f"--model_path={tmp_path}")
    reply = server.rest.post("/v1/models/digits:predict", json={"instances": [[0.0] * 64]})
    assert reply.status_code == 404
    (tmp_path / "5").symlink_to(SAMPLE / "1", target_is_directory=True)
    until(lambda: server.rest.get("/v1/models/digits").status_code == 200)


def test_ctrl_c_ends_it_cleanly(serve: Serve) -> None:
    server = serve("ie_serving", "model", *SAMPLE_FLAGS)
    assert server.rest.get("/v2/health/ready").status_code == 200
    server.popen.send_signal(signal.SIGINT)
    assert server.exit_code() == 0
    assert "Traceback" not in server.log


def test_health_and_reflection_are_served_beside_the_api(digits: Server) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
        ProtoReflectionDescriptorDatabase,
    )

    stub = health_pb2_grpc.HealthStub(digits.channel)
    reply = stub.Check(health_pb2.HealthCheckRequest(), PATIENCE_S)
    assert reply.status == health_pb2.HealthCheckResponse.SERVING
    services = ProtoReflectionDescriptorDatabase(digits.channel).get_services()
    assert {"tensorflow.serving.PredictionService", "grpc.health.v1.Health"} <= set(services)


def write(path: Path, **models: Path) -> None:
    config_flag(path, *({"name": name, "base_path": str(base)} for name, base in models.items()))


def served(rest: httpx.Client) -> list[str]:
    return list(rest.get("/v1/models").json()["models"])


def test_the_file_is_watched(serve: Serve, tmp_path: Path) -> None:
    """Models come, change and go; a broken edit keeps what runs and names each fault once."""
    config = tmp_path / "config.json"
    write(config, one=SAMPLE)
    server = serve("ie_serving", "config", f"--config_path={config}")
    write(config, one=SAMPLE, two=SAMPLE)
    until(lambda: served(server.rest) == ["one", "two"])
    config.write_text('{"model_config_list": [{"config": {"name": 7}}]}')
    server.line(r"configuration not applied.*model_config_list\[0\].config.name")
    server.line(r"configuration not applied.*model_config_list\[0\].config.base_path")
    assert served(server.rest) == ["one", "two"]
    assert server.rest.get("/v1/models/two").status_code == 200
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "7").symlink_to(SAMPLE / "1", target_is_directory=True)
    write(config, two=elsewhere)
    until(lambda: served(server.rest) == ["two"])
    body = {"instances": [[0.0] * 64]}
    until(lambda: server.rest.post("/v1/models/two/versions/7:predict", json=body).is_success)
    assert server.rest.post("/v1/models/one:predict", json=body).status_code == 404


def test_hangup_reads_the_file_at_once(serve: Serve, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    write(config, one=SAMPLE)
    server = serve(
        "ie_serving", "config", f"--config_path={config}", "--file_system_poll_wait_seconds=0"
    )
    write(config, two=SAMPLE)
    server.popen.send_signal(signal.SIGHUP)
    until(lambda: served(server.rest) == ["two"])


def test_a_worker_that_is_replaced_serves_the_file_as_it_is_now(
    serve: Serve, tmp_path: Path
) -> None:
    config = tmp_path / "config.json"
    write(config, one=SAMPLE)
    server = serve("ie_serving", "config", f"--config_path={config}")
    for content in ('{"model_config_list"', None):  # at last, one that can be read
        if content:
            config.write_text(content)
            server.line("configuration not applied")
        else:
            write(config, two=SAMPLE)
            server.line("configuration applied models=two")
        os.kill(server.pids()[1], signal.SIGKILL)
        server.line(READY)
        assert served(server.rest) == (["one"] if content else ["two"])


def test_a_model_that_answers_nothing_but_errors_has_its_own_series(serve: Serve) -> None:
    server = serve("ie_serving", "model", *SAMPLE_FLAGS, "--metrics_path=/metrics")
    for model in ("digits", "unknown"):
        assert server.rest.post(f"/v1/models/{model}:predict", content=b"{").status_code == 400
    count = ":tensorflow:serving:request_count"
    lines = server.rest.get("/metrics").text.splitlines()
    assert [line for line in lines if line.startswith(count)] == [
        f'{count}{{model_name="digits",status="INVALID_ARGUMENT"}} 1',
        f'{count}{{model_name="unknown",status="INVALID_ARGUMENT"}} 1',
    ]


def test_a_request_in_flight_when_it_is_told_to_stop_is_answered(serve: Serve) -> None:
    """Calls keep coming until the server refuses connections; none that it took is lost."""
    server = serve("ie_serving", "model", *SAMPLE_FLAGS)
    body = json.dumps({"instances": [[0.0] * 64]})
    answers = 0
    with httpx.Client(base_url=server.url, trust_env=False, verify=PLAIN) as client:
        while True:
            try:
                reply = client.post("/v1/models/digits:predict", content=body)
            except httpx.ConnectError:
                break
            assert reply.status_code == 200
            answers += 1
            if answers == 20:
                server.popen.terminate()
    assert server.exit_code() == 0
    assert answers >= 20
    assert "Traceback" not in server.log
