"""`ie_serving status`, `predict` and their kin: what they do on a real server, over the wire."""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.config.files.access_file import key_credential, line
from tests.certificates import Authority
from tests.functional.commands import Ran, ie_serving
from tests.functional.servers import ROOT, SAMPLE, SAMPLE_FLAGS, Server, config_flag
from tests.process import COMMANDS, PATIENCE_S, Process, free_ports, until
from tests.terminal import Terminal

REQUEST = ROOT / "examples" / "digits" / "request.json"
IMAGE = json.loads(REQUEST.read_text())["instances"][0]["image"]
DONE, REFUSED, USAGE, UNREACHABLE, TIME_IS_UP = range(5)


class World:
    """A server of two models whose configuration file tests change, and put back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(SAMPLE, folder / "digits")
        (folder / "empty").mkdir()
        self.file = folder / "config.json"
        self.write()
        flags = (f"--config_path={self.file}", "--file_system_poll_wait_seconds=0")
        self.socket = folder / "rest"
        more = ("--allow_unavailable_models", f"--rest_socket_path={self.socket}")
        self.server = Server("ie_serving", *flags, *more).ready()
        self.grpc = f"grpc://127.0.0.1:{self.server.port}"

    def write(self, **more: dict[str, Any]) -> None:
        digits = {"base_path": "digits", "model_version_policy": {"all": {}}}
        models = {"digits": {**digits, "version_labels": {"stable": 1}}, **more}
        config_flag(self.file, *({"name": name, **each} for name, each in models.items()))

    def reset(self) -> None:
        """Let the server read its own file again, as it was at first."""
        self.write()
        self.server.send(signal.SIGHUP)
        labelled = '{"stable": 1}'
        until(lambda: labelled in self.server.rest.get("/v1/config/details").text)

    def run(self, *words: str | Path, data: bytes = b"", url: str = "") -> Ran:
        return ie_serving(*words, env={"IE_SERVING_URL": url or self.server.url}, data=data)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("commands"))
    with closing(made.server):
        yield made


def test_status_shows_versions_states_and_labels(world: World) -> None:
    ran = world.run("status")
    assert (ran.code, ran.err) == (DONE, "")
    rows = [row.split()[:4] for row in ran.out.splitlines()]
    assert rows[:2] == [["MODEL", "VERSION", "STATE", "LABELS"], ["digits", "2*", "AVAILABLE"]]
    assert rows[2] == ["digits", "1", "AVAILABLE", "stable"]
    assert world.run("status", url=f"unix://{world.socket}").out == ran.out
    document = json.loads(world.run("status", "digits", "--label=stable", "--json").out)
    (version,) = document["models"]["digits"]["versions"]
    assert (version["version"], version["default"], version["labels"]) == (1, False, ["stable"])
    (precision,) = version["precisions"].items()
    assert precision[0] == "serving_default"
    assert precision[1] in ("f32", "bf16")  # the machine's own


def test_status_fails_where_something_does_not_serve(world: World) -> None:
    world.write(bare={"base_path": "empty"})
    assert world.run("reload").code == DONE
    ran = world.run("status")
    assert ran.code == REFUSED
    assert "it is empty: copy the files of the model into" in ran.out
    began = world.run("status", "bare", "--wait", "--timeout=0.3")
    assert began.code == TIME_IS_UP
    assert "not AVAILABLE within 0.3 s" in began.err
    shutil.copytree(SAMPLE / "1", world.folder / "empty" / "1")
    assert world.run("poll", "bare").code == DONE
    assert world.run("status", "bare", "--wait").code == DONE
    world.write()
    ran = world.run("reload")
    assert ran.out.startswith("model bare: removed\n")
    assert world.run("reload").out.startswith("no model, state or label has changed\n")


@pytest.mark.parametrize("form", ["npy", "npz", "csv", "json"])
@pytest.mark.parametrize("interface", ["rest", "grpc"])
def test_predict_sends_each_kind_of_file(
    world: World, tmp_path: Path, form: str, interface: str
) -> None:
    file, answer = tmp_path / f"in.{form}", tmp_path / "out.npz"
    rows = np.array([IMAGE, IMAGE])
    if form == "npy":
        np.save(file, rows)
    elif form == "npz":
        np.savez(file, image=rows)
    elif form == "csv":
        np.savetxt(file, rows, delimiter=",", fmt="%g")
    else:
        file.write_text(json.dumps({"instances": [{"image": IMAGE}] * 2}))
    url = world.grpc if interface == "grpc" else ""
    asked = ("predict", "--model_name=digits", f"--file={file}", f"--output={answer}")
    ran = world.run(*asked, "--label=stable", url=url)
    assert (ran.code, ran.out, ran.err) == (DONE, "", "")
    with np.load(answer) as found:
        assert found["digit"].tolist() == [1, 1]
        assert (found["probabilities"].dtype, found["probabilities"].shape) == (
            np.dtype("float32"),
            (2, 10),
        )


def test_json_passes_as_it_is(world: World) -> None:
    sent = REQUEST.read_bytes()
    expected = world.server.rest.post("/v1/models/digits:predict", content=sent).text
    for url in ("", world.grpc):
        ran = world.run("predict", "--model_name=digits", data=sent, url=url)
        assert (ran.code, json.loads(ran.out)) == (DONE, json.loads(expected))
        assert url or ran.out == expected + "\n"


def test_metadata_shows_inputs_and_outputs(world: World) -> None:
    lines = [row.split() for row in world.run("metadata", "digits").out.splitlines()]
    assert lines[0] == ["digits,", "version", "2"]
    assert ["input", "image", "DT_FLOAT", "(-1,", "64)"] in lines


@pytest.mark.parametrize("model", ["digits", "--model_name=digits"])
def test_a_model_is_named_with_a_flag_or_without(world: World, model: str) -> None:
    for words in (
        ("status", model),
        ("metadata", model),
        ("poll", model),
        ("labels", "list", model),
        ("labels", "set", model, "stable=1"),
        ("predict", model, "--format=json"),
    ):
        ran = world.run(*words, data=REQUEST.read_bytes())
        assert (ran.code, ran.err) == (DONE, ""), words


@pytest.mark.parametrize("words", [(), ("digits", "--model_name=empty")])
def test_no_model_or_two_are_refused(world: World, words: tuple[str, ...]) -> None:
    for command in (("metadata",), ("poll",), ("predict",), ("labels", "list")):
        ran = world.run(*command, *words)
        assert ran.code == USAGE
        assert "expected one, as MODEL or as --model_name MODEL" in ran.err


def test_labels_are_set_all_or_none(world: World) -> None:
    ran = world.run("labels", "set", "digits", "canary=2", "stable=2")
    assert (ran.code, ran.out) == (DONE, "canary: none -> 2\nstable: 1 -> 2\n")
    assert world.server.rest.get("/v1/models/digits/labels/stable").json() == (
        world.server.rest.get("/v1/models/digits/versions/2").json()
    )
    refused = world.run("labels", "set", "digits", "canary=1", "next=9")
    assert refused.code == REFUSED
    assert "version 9 of model digits, which is not currently available" in refused.err
    assert world.run("labels", "set", "digits", "canary=", "stable=1").code == DONE
    world.write(digits={"base_path": "digits", "model_version_policy": {"all": {}}})
    assert world.run("reload").out.startswith("model digits, label stable: 1 -> none\n")
    world.reset()
    assert world.run("labels", "list", "digits").out == "stable=1\n"


def test_a_reload_takes_another_configuration(world: World, tmp_path: Path) -> None:
    file = tmp_path / "models.config"
    file.write_text(
        f'model_config_list {{ config {{ name: "digits" base_path: "{world.folder}/digits"'
        ' model_platform: "openvino" model_version_policy { all {} } }'
        f' config {{ name: "twin" base_path: "{SAMPLE}" model_platform: "openvino" }} }}'
    )
    ran = world.run("reload", f"--config={file}", url=world.grpc)
    assert ran.code == DONE, ran.err
    assert ran.out.startswith("model twin: added\nmodel twin, version 2: none -> AVAILABLE\n")
    again = world.run("reload", f"--config={file}", url=world.grpc)
    assert again.out.startswith("no model or state has changed; labels are not told over gRPC\n")
    file.write_text(file.read_text().replace(f"{SAMPLE}", "/nowhere"))
    ran = world.run("reload", f"--config={file}", url=world.grpc)
    assert (ran.code, "did not become available" in ran.err) == (REFUSED, True)
    own = json.loads(world.file.read_text())
    own["model_config_list"][0]["config"]["nireq"] = 2
    richer = tmp_path / "richer.json"
    richer.write_text(json.dumps(own))
    ran = world.run("reload", f"--config={richer}", url=world.grpc)
    assert ran.code == USAGE
    assert "settings that HandleReloadConfigRequest cannot say (engine" in ran.err
    world.reset()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        pytest.param(
            ("status", "digts"), REFUSED, 'did you mean "digits"?', id="a model that is misspelt"
        ),
        pytest.param(
            ("predict", "--model_name=digts"),
            REFUSED,
            'did you mean "digits"?',
            id="a model that is misspelt in a request",
        ),
        pytest.param(
            ("predict", "--model_name=digts", "--url=grpc://127.0.0.1:{grpc}"),
            REFUSED,
            "Latest(digts): no such model; served models: digits",
            id="a model that is misspelt over gRPC",
        ),
        pytest.param(
            ("status", "digits", "--label=stabel"),
            REFUSED,
            'has no label "stabel"; it has stable',
            id="a label that is misspelt",
        ),
        pytest.param(
            ("status", "--label=stable"), USAGE, "belong to a MODEL", id="a label without a model"
        ),
        pytest.param(
            ("status", "--url=ftp://host"), USAGE, "is no address of a server", id="another scheme"
        ),
        pytest.param(
            ("status", "--url=http://127.0.0.1:{closed}"),
            UNREACHABLE,
            "no server listens at",
            id="a closed port",
        ),
        pytest.param(
            ("status", "--url=http://127.0.0.1:{grpc}"),
            UNREACHABLE,
            "is the gRPC port",
            id="the gRPC port for REST",
        ),
        pytest.param(
            ("status", "--url=https://127.0.0.1:{rest}"),
            UNREACHABLE,
            "does not speak TLS",
            id="https without TLS",
        ),
        pytest.param(
            ("status", "--url=unix:///nowhere"),
            UNREACHABLE,
            "no server listens at unix:///nowhere",
            id="a socket that is not there",
        ),
        pytest.param(
            ("labels", "set", "digits", "stable=x"),
            USAGE,
            "expected one such as stable=3",
            id="a version that is no number",
        ),
        pytest.param(
            ("predict", "--model_name=m", "--file=/nowhere.npy"),
            USAGE,
            "cannot be read",
            id="a file that is not there",
        ),
        pytest.param(
            ("predict", "--model_name=digits", "--url=grpc://127.0.0.1:{rest}"),
            UNREACHABLE,
            "it is the REST port",
            id="the REST port for gRPC",
        ),
        pytest.param(
            ("predict", "--model_name=digits", "--url=grpcs://127.0.0.1:{grpc}"),
            UNREACHABLE,
            "does not speak TLS",
            id="grpcs without TLS",
        ),
        pytest.param(
            ("predict", "--model_name=digits", "--url=grpc://127.0.0.1:{closed}"),
            UNREACHABLE,
            "no server that listens",
            id="a closed port over gRPC",
        ),
    ],
)
def test_a_failure_says_what_to_do_in_one_line(
    world: World, words: tuple[str, ...], code: int, text: str
) -> None:
    (closed,) = free_ports(1)
    ports = {"closed": closed, "grpc": world.server.port, "rest": world.server.rest_port}
    ran = world.run(*(word.format(**ports) for word in words), data=REQUEST.read_bytes())
    assert (ran.code, ran.out) == (code, "")
    assert text in ran.err
    assert ran.err.startswith("ie_serving: error: ")
    assert ran.err.count("\n") == 1


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """A server with mutual TLS whose callers have keys, and the folder of its files."""
    folder = tmp_path_factory.mktemp("closed")
    authority = Authority(folder)
    pair = authority.server()
    keys = [
        line("reader", "read", "digits", key_credential("KEY-OF-READER")),
        line("chief", "read,predict,administrate", "*", key_credential("KEY-OF-CHIEF")),
    ]
    (folder / "keys").write_text("\n".join(keys))
    (folder / "chief").write_text("# key of chief\nKEY-OF-CHIEF\n")
    server = Server(
        "ie_serving",
        *("model", *SAMPLE_FLAGS),
        *(f"--tls_certificate={pair.certificate}", f"--tls_key={pair.key}"),
        *(f"--tls_client_ca={authority.path}", f"--api_key_file={folder / 'keys'}"),
    )
    authority.client("friend")
    with closing(server.ready()):
        yield server, folder


def test_status_speaks_tls_and_sends_its_key(closed: tuple[Server, Path]) -> None:
    server, folder = closed
    url, ca = f"https://localhost:{server.rest_port}", f"--ca={folder / 'authority.pem'}"
    shown = (f"--cert={folder / 'friend.crt'}", f"--key={folder / 'friend.key'}")
    anonymous = ie_serving("status", f"--url={url}", ca)
    assert (anonymous.code, "--cert and --key" in anonymous.err) == (UNREACHABLE, True)
    there = (f"--url={url}", ca, *shown)
    reader, chief = {"IE_SERVING_API_KEY": "KEY-OF-READER"}, f"--api_key_file={folder / 'chief'}"
    ran = ie_serving("status", *there, chief)
    assert (ran.code, ran.err) == (DONE, "")
    assert ie_serving("status", "digits", *there, env=reader).code == DONE
    stranger = ie_serving("status", *there)
    assert (stranger.code, "give a key by IE_SERVING_API_KEY" in stranger.err) == (REFUSED, True)
    untrusted = ie_serving("status", f"--url={url}", *shown, chief)
    assert untrusted.code == UNREACHABLE
    assert "is not trusted" in untrusted.err
    assert "name its authority by --ca" in untrusted.err
    forbidden = ie_serving("labels", "set", "digits", "a=2", *there, env=reader)
    assert (forbidden.code, "(403)" in forbidden.err) == (REFUSED, True)
    ran = ie_serving("labels", "set", "digits", "a=2", *there, chief)
    assert (ran.code, ran.out) == (DONE, "a: none -> 2\n")
    unencrypted = ie_serving("status", f"--url=http://localhost:{server.rest_port}", chief)
    assert unencrypted.code == REFUSED
    assert unencrypted.err.endswith("use https://\n")


def test_predict_over_grpc_speaks_tls_and_sends_its_key(closed: tuple[Server, Path]) -> None:
    server, folder = closed
    shown = (f"--cert={folder / 'friend.crt'}", f"--key={folder / 'friend.key'}")
    asked = ("predict", "--model_name=digits", f"--url=grpcs://localhost:{server.port}", *shown)
    believed, chief = f"--ca={folder / 'authority.pem'}", f"--api_key_file={folder / 'chief'}"
    data = REQUEST.read_bytes()
    assert ie_serving(*asked, believed, chief, data=data).code == DONE
    assert ie_serving(*asked, believed, data=data).code == REFUSED
    untrusted = ie_serving(*asked, chief, data=data)
    assert (untrusted.code, "not trusted" in untrusted.err) == (UNREACHABLE, True)
    rest = (f"--url=grpcs://localhost:{server.rest_port}", *shown, believed, chief)
    other = ie_serving("predict", "--model_name=digits", *rest, data=data)
    assert (other.code, "it is the REST port" in other.err) == (UNREACHABLE, True)


EACH = [
    ("status", "digits"),
    ("metadata", "digits"),
    ("predict", "--model_name=digits"),
    ("poll", "digits"),
    ("reload",),
    ("labels", "list", "digits"),
    ("labels", "digits"),
    ("labels", "set", "digits", "b=2"),
]


@pytest.mark.parametrize("words", EACH, ids=" ".join)
def test_each_command_takes_tls_a_certificate_and_a_key(
    closed: tuple[Server, Path], words: tuple[str, ...]
) -> None:
    server, folder = closed
    ways = (
        f"--url=https://localhost:{server.rest_port}",
        f"--ca={folder / 'authority.pem'}",
        f"--cert={folder / 'friend.crt'}",
        f"--key={folder / 'friend.key'}",
    )
    data, file = REQUEST.read_bytes(), f"--api_key_file={folder / 'chief'}"
    assert ie_serving(*words, *ways, file, data=data).code == DONE
    assert ie_serving(*words, *ways, data=data).code == REFUSED


def test_a_made_up_program_speaks_tls_and_sends_its_key(closed: tuple[Server, Path]) -> None:
    server, folder = closed
    url, ca = f"--url=https://localhost:{server.rest_port}", f"--ca={folder / 'authority.pem'}"
    shown = (f"--cert={folder / 'friend.crt'}", f"--key={folder / 'friend.key'}")
    chief = {"AUTHORIZATION": f"Bearer {(folder / 'chief').read_text().split()[-1]}"}

    def made(*how: str, env: Mapping[str, str] = chief) -> Ran:
        return ie_serving("gen", "request", "--model_name=digits", url, *how, env=env)

    assert [*json.loads(made(ca, *shown).out)["inputs"]] == ["image"]
    for how, env, code, cause in (
        ((ca, *shown), {}, REFUSED, "401"),
        (shown, chief, UNREACHABLE, "is not trusted"),
        ((ca,), chief, UNREACHABLE, "may want a certificate|gives no HTTP answer"),
        ((f"--ca={folder / 'absent'}",), chief, USAGE, "certificates cannot be used .*absent"),
    ):
        ended = made(*how, env=env)
        assert (ended.code, bool(re.search(cause, ended.err))) == (code, True), ended.err


def test_a_reload_by_rpc_takes_tls_a_certificate_and_a_key(
    closed: tuple[Server, Path], tmp_path: Path
) -> None:
    server, folder = closed
    file = tmp_path / "models.config"
    file.write_text(
        f'model_config_list {{ config {{ name: "digits" base_path: "{SAMPLE}"'
        ' model_platform: "openvino" } }'
    )
    asked = (
        *("reload", f"--config={file}", f"--url=grpcs://localhost:{server.port}"),
        *(f"--cert={folder / 'friend.crt'}", f"--key={folder / 'friend.key'}"),
        f"--ca={folder / 'authority.pem'}",
    )
    assert ie_serving(*asked, f"--api_key_file={folder / 'chief'}").code == DONE
    reader = ie_serving(*asked, env={"IE_SERVING_API_KEY": "KEY-OF-READER"})
    assert (reader.code, "administrate" in reader.err) == (REFUSED, True)


def test_an_error_does_not_repeat_an_image(world: World) -> None:
    data = json.dumps({"inputs": {"image": {"b64": "QUJD" * 2000}}}).encode()
    ran = ie_serving("predict", "digits", f"--url={world.server.url}", data=data)
    assert ran.code == REFUSED
    assert "..." in ran.err
    assert len(ran.err) < 1000, ran.err


def test_a_wait_shows_its_progress_at_a_terminal_alone(world: World) -> None:
    asked = ["status", "digits", "--version=7", "--wait", "--timeout=0.9"]
    with Terminal() as terminal:
        done = subprocess.run(
            [COMMANDS / "ie_serving", *asked],
            env={**os.environ, "IE_SERVING_URL": world.server.url},
            stdout=subprocess.PIPE,
            stderr=terminal.end,
            timeout=PATIENCE_S,
            check=False,
        )
        written = terminal.until("error: .*\n")
    assert (done.returncode, done.stdout) == (TIME_IS_UP, b"")
    drawn, erased, error = written.rpartition("\r\x1b[K")
    assert drawn.startswith("\r\x1b[Kwaiting until all of it is AVAILABLE ")
    assert erased
    assert error.startswith("ie_serving: error: not AVAILABLE within 0.9 s: model digits has no")


def test_watch_shows_into_a_pipe_what_has_changed(world: World) -> None:
    watching = Process(
        "ie_serving",
        *("status", "digits", "--json", "--watch=0.1"),
        env={"IE_SERVING_URL": world.server.url},
    )
    with closing(watching):
        watching.line('"labels": \\["stable"\\]')
        assert world.run("labels", "set", "digits", "watched=2").code == DONE
        watching.line('"labels": \\["watched"\\]')
        assert world.run("labels", "set", "digits", "watched=").code == DONE
        watching.line('"labels": \\["stable"\\]')
        assert len(watching.lines) == 3
        watching.send(signal.SIGINT)
        assert watching.exit_code() == 130


def test_status_starts_without_what_serves(world: World) -> None:
    """A command that people and probes run often must not load numpy, gRPC or the server."""
    code = (
        "import sys; from ie_serving.app.main import main; main(['status']);"
        "print([m for m in sys.modules if m in ('numpy', 'grpc', 'google.protobuf', 'gunicorn')"
        " or m.startswith('ie_serving.app.') and m != 'ie_serving.app.main'])"
    )
    environ = {**os.environ, "IE_SERVING_URL": world.server.url}
    done = subprocess.run(
        [COMMANDS / "python", "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
