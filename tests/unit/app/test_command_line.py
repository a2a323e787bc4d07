"""The two commands up to where the server begins: exit codes, words, and what they import."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ie_serving.app import command_line as main
from ie_serving.config.settings import Settings
from ie_serving.core.values import hints
from ie_serving.core.values.hints import Hint
from ie_serving.server.process.gunicorn_app import ServerEnd
from ie_serving.telemetry.log import logs
from tests.tables import named_by

ROOT = Path(__file__).parents[3]
KIBERNETIKA = "ie_serving.compat.kibernetika.dialect:parse"
HEAVY = (
    *("boto3", "falcon", "google.protobuf", "grpc", "httptools"),
    *("numpy", "openvino", "orjson", "urllib3", "uvloop"),
)


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Settings]]:
    """What the processes would serve; none is started, and none fails."""
    found: list[Settings] = []

    def run(settings: Settings, build: object, **_: object) -> ServerEnd:
        found.append(settings)
        return ServerEnd(0)

    monkeypatch.setattr(main.gunicorn_app, "run", run)
    monkeypatch.setattr(main.signal, "signal", lambda number, handler: None)
    own, root = logging.getLogger(logs.OWN), logging.getLogger()
    level, handlers = own.level, root.handlers[:]
    yield found
    own.level, root.handlers[:] = level, handlers
    hints.speak({})


def test_a_command_names_settings_by_its_own_flags() -> None:
    hint = Hint("{server.rest_port}")
    assert main.main(["model", "--model_name=m", "--model_path=/m"]) == 0
    assert str(hint) == "--rest_port"
    assert main.tensorflow_model_server(["--model_base_path=/m"]) == 0
    assert str(hint) == "--rest_api_port"


@pytest.mark.parametrize(
    "argument",
    ["--model_path=ftp://host/m", "--log_path=/nowhere/log", "--access_log=/nowhere/log"],
)
def test_an_argument_that_cannot_be_prepared_ends_ie_serving_with_2(
    argument: str, served: list[Settings], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["model", "--model_name=m", "--model_path=/m", argument]) == 2
    assert capsys.readouterr().err.startswith("ie_serving: error: ")
    assert not served


def test_contradictions_and_paths_that_no_store_serves_are_told_together(
    served: list[Settings], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--model_path=ftp://host/m", "--tls_key=k", "--enable_auth"]
    assert main.main(["model", "--model_name=m", *arguments]) == 2
    told = capsys.readouterr().err
    assert [word in told for word in ("ftp", "--tls_key", "--enable_auth")] == [True] * 3


@named_by(
    "text",
    ("arguments", "text"),
    [
        (["--tls_client_ca=a"], "--tls_client_ca needs --tls_certificate"),
        (["--tls_key=k"], "--tls_certificate and --tls_key belong together"),
        (["--tls_client_crl=r"], "--tls_client_crl needs --tls_client_ca"),
        (["--tls_ports=rest"], "--tls_ports needs --tls_certificate"),
        (
            ["--jwt_keys=f", "--jwt_issuer=i", "--jwt_audience=a"],
            "--jwt_keys needs --api_key_file",
        ),
        (["--jwt_issuer=i"], "need --jwt_keys"),
        (["--auth_username=u", "--auth_password=p"], "--auth_username needs --enable_auth"),
        (["--auth_password=p"], "--auth_username and --auth_password belong together"),
    ],
)
@pytest.mark.parametrize("command", ["model", "check"])
def test_settings_that_were_to_close_a_server_never_leave_it_open(
    command: str,
    arguments: list[str],
    text: str,
    served: list[Settings],
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = [command, "--model_name=m", "--model_path=/m", "--rest_port=1", *arguments]
    assert main.main(line) == 2
    assert text in capsys.readouterr().err
    assert not served


def test_a_port_for_both_is_not_half_encrypted_in_any_dialect(
    served: list[Settings], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TLS_PORTS", "rest")
    ports = ("--port=9000", "--http-enable", "--http-port=9000")
    assert main.as_other("kserving", KIBERNETIKA, ["--model-path=/m", *ports]) == 2
    assert "TLS_PORTS: rest given; expected both" in capsys.readouterr().err
    assert not served


def test_a_variable_for_a_log_that_cannot_be_written_costs_the_file_alone(
    served: list[Settings], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOG_PATH", "/nowhere/log")
    assert main.tensorflow_model_server(["--model_base_path=/m"]) == 0
    assert (
        'LOG_PATH has no effect cause="log file \\"/nowhere/log\\" cannot be'
        in capsys.readouterr().err
    )
    assert served


@pytest.mark.parametrize(
    ("path", "environ"),
    [
        ("ftp://host/m", {}),
        ("s3://bucket/m", {"S3_VERIFY_SSL": "perhaps"}),
    ],
)
def test_a_path_that_cannot_be_prepared_ends_the_original_in_its_words(
    path: str,
    environ: dict[str, str],
    served: list[Settings],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as caught:
        main.tensorflow_model_server([f"--model_base_path={path}"])
    assert caught.value.code == 255
    assert capsys.readouterr().out.startswith("Failed to start server. Error: INVALID_ARGUMENT: ")
    assert not served


@pytest.mark.parametrize(
    ("cause", "told"),
    [("no model\nat /m", "no model at /m"), ("", "the log says why")],
    ids=["cause", "none"],
)
def test_a_server_that_fails_ends_the_original_in_its_words(
    cause: str, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = ServerEnd(1, cause)
    monkeypatch.setattr(main.gunicorn_app, "run", lambda *_, **__: ended)
    with pytest.raises(SystemExit) as caught:
        main.tensorflow_model_server(["--model_base_path=/m"])
    assert caught.value.code == 255
    assert capsys.readouterr().out == f"Failed to start server. Error: UNKNOWN: {told}\n"


def test_the_arbiter_stays_light_when_it_has_read_its_configuration() -> None:
    """It holds the settings for as long as the server runs; workers import what is heavy."""
    script = (
        "import sys; from ie_serving.app import command_line as main\n"
        "main.gunicorn_app.run = lambda *_, **__: main.gunicorn_app.ServerEnd(0)\n"
        "argv = ['config', '--config_path=config/every_key.json', '--rest_port=1']\n"
        "assert main.main(argv) == 0\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(HEAVY).isdisjoint(done.stdout.split())
