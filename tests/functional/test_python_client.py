"""`ie_serving.client` against real servers: both clients, both interfaces, TLS, deadline, retry."""

import asyncio
import contextlib
import json
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.client import AsyncClient, Client, ClientError, Code, Connection, Unavailable
from ie_serving.client.clients import _BlockingClient
from ie_serving.config.files.access_file import key_credential, line
from tests.certificates import Authority
from tests.functional.servers import ROOT, SAMPLE, SAMPLE_FLAGS, Server, config_flag
from tests.process import PATIENCE_S, free_ports, output_of, until

DIGIT = json.loads((ROOT / "examples/digits/request.json").read_text())
IMAGE = np.array([each["image"] for each in DIGIT["instances"]], np.float32)
CLIENT_OWN = {"grpcio", "httpx", "numpy", "protobuf"}
VALUES = {
    "float32": [[0.1, -2.5e30], [np.nan, np.inf]],
    "float64": [[0.1, 1 / 3], [-0.0, 1e300]],
    "float16": [[0.1, 65504], [1, 2]],
    "int32": [[-(2**31), 1], [2, 3]],
    "int64": [[2**60 + 1, -1], [0, 3]],
    "uint8": [[0, 255], [1, 2]],
    "uint64": [[2**63 + 1, 0], [1, 2]],
    "bool": [[True, False], [False, True]],
}


class Waiting:
    """An AsyncClient whose calls wait, each with a loop and a client of its own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        async def call(*given: Any, **options: Any) -> Any:
            async with AsyncClient(self._connection) as client:
                return await getattr(client, name)(*given, **options)

        return lambda *given, **options: asyncio.run(call(*given, **options))


def url(server: Server, scheme: str) -> str:
    return f"{scheme}://localhost:{server.rest_port if 'http' in scheme else server.port}"


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of models that answer what they are sent, one of each dtype, and of the sample."""
    folder = tmp_path_factory.mktemp("echo")
    (folder / "any" / "1").mkdir(parents=True)
    entries: list[dict[str, Any]] = [
        {"name": "digits", "base_path": str(SAMPLE), "model_version_policy": {"all": {}}}
    ]
    words = {**{each: each for each in VALUES}, "text": "string"}
    for name, word in words.items():
        inputs = {
            "x": {"dtype": word, "shape": [-1, -1]},
            "y_bytes": {"dtype": word, "shape": [-1]},
        }
        params = {"inputs": {"x": inputs["x"]} if name == "bool" else inputs}
        entries.append(
            {"name": name, "base_path": str(folder / "any"), "driver": "null", "params": params}
        )
    server = Server("ie_serving", "config", config_flag(folder / "config.json", *entries))
    with closing(server.ready()):
        yield server


@pytest.fixture(params=["http", "grpc", "http async", "grpc async"])
def client(request: pytest.FixtureRequest, echo: Server) -> Iterator[Any]:
    scheme, _, kind = request.param.partition(" ")
    connection = Connection(url=url(echo, scheme), timeout_s=PATIENCE_S)
    if kind:
        yield Waiting(connection)
    else:
        with Client(connection) as made:
            yield made


@pytest.mark.parametrize("dtype", VALUES)
def test_every_dtype_comes_back(client: Any, dtype: str) -> None:
    x = np.array(VALUES[dtype], dtype)
    inputs = {"x": x} if dtype == "bool" else {"x": x, "y_bytes": x[0]}
    for found in (client.predict(dtype, inputs), client.infer(dtype, inputs)):
        assert found.keys() == inputs.keys()
        for name, array in inputs.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)


def test_texts_and_bytes_come_back_as_bytes(client: Any) -> None:
    inputs = {"x": [["Ä", "b"]], "y_bytes": np.array([b"\x00\xff", b""], object)}
    found = client.infer("text", inputs)
    assert found["x"].tolist() == [["Ä".encode(), b"b"]]
    assert client.predict("text", inputs)["y_bytes"].tolist() == [b"\x00\xff", b""]
    assert client.predict("text", inputs)["x"].tolist() == found["x"].tolist()


def test_a_version_is_chosen_and_described(client: Any) -> None:
    states = {each.version: each.state for each in client.status("digits")}
    assert states == {1: "AVAILABLE", 2: "AVAILABLE"}
    signature = client.metadata("digits", version=1)["serving_default"]
    assert signature.inputs["image"].shape == (-1, 64)
    assert signature.inputs["image"].dtype.numpy == np.float32
    old, new = (client.predict("digits", {"image": IMAGE}, version=n) for n in (1, 2))
    assert old.keys() == new.keys() == set(signature.outputs)
    assert not np.array_equal(old["probabilities"], new["probabilities"])
    named = client.predict("digits", {"image": IMAGE}, version=2, signature="serving_default")
    np.testing.assert_array_equal(named["probabilities"], new["probabilities"])


@pytest.mark.parametrize(
    ("call", "code"),
    [
        pytest.param(lambda c: c.predict("none", {"x": IMAGE}), Code.NOT_FOUND, id="no such model"),
        pytest.param(
            lambda c: c.infer("digits", {"image": IMAGE}, version=9),
            Code.NOT_FOUND,
            id="no such version",
        ),
        pytest.param(
            lambda c: c.infer("digits", {"image": IMAGE[:, :3]}),
            Code.INVALID_ARGUMENT,
            id="another shape",
        ),
        pytest.param(
            lambda c: c.predict("digits", {"image": [{}]}),
            Code.INVALID_ARGUMENT,
            id="a value of no type",
        ),
        pytest.param(
            lambda c: c.predict("digits", {}, version=1, label="a"),
            Code.INVALID_ARGUMENT,
            id="version and label",
        ),
        pytest.param(lambda c: c.predict("", {}), Code.INVALID_ARGUMENT, id="no name"),
    ],
)
def test_errors_have_the_same_codes_over_both_interfaces(
    client: Any, call: Any, code: Code
) -> None:
    with pytest.raises(ClientError) as caught:
        call(client)
    assert caught.value.code is code


@pytest.mark.parametrize("kind", [Client, Waiting])
@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_server_that_does_not_answer_ends_with_the_deadline(kind: Any, scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        made = kind(Connection(url=f"{scheme}://127.0.0.1:{port}", timeout_s=0.5))
        with pytest.raises(ClientError) as caught:
            made.infer("m", {"x": IMAGE})
    assert caught.value.code is Code.DEADLINE_EXCEEDED


@pytest.mark.parametrize("kind", [Client, Waiting])
def test_the_deadline_is_that_of_the_whole_call_and_not_of_each_wait_for_bytes(kind: Any) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    done = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(head)
            while not done.wait(0.05):
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as slow:
        thread = threading.Thread(target=drip, args=(slow,))
        thread.start()
        made = kind(Connection(url=f"http://127.0.0.1:{slow.getsockname()[1]}", timeout_s=0.5))
        stop = threading.Timer(PATIENCE_S, done.set)
        stop.start()
        with pytest.raises(ClientError) as caught:
            made.infer("m", {"x": IMAGE})
        assert not done.is_set()
        stop.cancel()
        done.set()
        thread.join(PATIENCE_S)
    assert caught.value.code is Code.DEADLINE_EXCEEDED


@pytest.mark.parametrize("kind", [Client, Waiting])
@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_without_a_server_the_call_ends_when_the_retries_do(kind: Any, scheme: str) -> None:
    (port,) = free_ports(1)
    made = kind(Connection(url=f"{scheme}://127.0.0.1:{port}", retry_s=0.3))
    with pytest.raises(Unavailable):
        made.infer("m", {"x": IMAGE})


@pytest.mark.thinned
@pytest.mark.parametrize("kind", [Client, Waiting])
@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_server_that_starts_again_is_asked_again(kind: Any, scheme: str) -> None:
    ports = free_ports(2)
    digits = ("ie_serving", "model", *SAMPLE_FLAGS)
    with closing(Server(*digits, ports=ports).ready()) as first:
        made = kind(Connection(url=url(first, scheme), retry_s=PATIENCE_S))
        before = made.predict("digits", {"image": IMAGE})
    found: list[Mapping[str, Any]] = []
    asks = threading.Thread(target=lambda: found.append(made.predict("digits", {"image": IMAGE})))
    asks.start()
    with closing(Server(*digits, ports=ports).ready()):
        asks.join(PATIENCE_S)
    assert not asks.is_alive()
    np.testing.assert_array_equal(found[0]["probabilities"], before["probabilities"])


def test_metadata_that_an_answer_does_not_fit_is_asked_for_again(tmp_path: Path) -> None:
    def write(*inputs: str) -> str:
        params = {"inputs": {name: {"dtype": "int32", "shape": [-1]} for name in inputs}}
        entry = {"name": "m", "base_path": str(tmp_path / "m"), "driver": "null", "params": params}
        return config_flag(tmp_path / "c.json", entry)

    (tmp_path / "m" / "1").mkdir(parents=True)
    server = Server("ie_serving", "config", write("x"))
    with closing(server.ready()), Client(server.url) as client:
        assert client.predict("m", {"x": [7]})["x"].tolist() == [7]
        write("x", "y")
        assert server.rest.post("/v1/config/reload").is_success
        until(lambda: "y" in server.rest.get("/v1/models/m/metadata").text)
        found = client.predict("m", {"x": [7], "y": [8]})
        assert {name: each.tolist() for name, each in found.items()} == {"x": [7], "y": [8]}


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """A server with mutual TLS whose callers have keys, and the folder of its files."""
    folder = tmp_path_factory.mktemp("closed")
    authority = Authority(folder)
    pair = authority.server()
    authority.client("friend")
    (folder / "keys").write_text(line("friend", "predict,read", "*", key_credential("THE-KEY")))
    server = Server(
        *("ie_serving", "model", *SAMPLE_FLAGS),
        *(f"--tls_certificate={pair.certificate}", f"--tls_key={pair.key}"),
        *(f"--tls_client_ca={authority.path}", f"--api_key_file={folder / 'keys'}"),
    )
    with closing(server.ready()):
        yield server, folder


@pytest.mark.parametrize("kind", [Client, Waiting])
@pytest.mark.parametrize("scheme", ["https", "grpcs"])
def test_the_client_speaks_tls_and_sends_its_key(
    closed: tuple[Server, Path], kind: Any, scheme: str
) -> None:
    server, folder = closed
    shown = {"certificate": folder / "friend.crt", "private_key": folder / "friend.key"}
    where: dict[str, Any] = {"url": url(server, scheme), **shown, "timeout_s": PATIENCE_S}
    believed = {**where, "ca": folder / "authority.pem"}
    friend = kind(Connection(**believed, key="THE-KEY"))
    assert friend.predict("digits", {"image": IMAGE})["digit"].tolist() == [1]
    for key in ("", "ANOTHER"):
        with pytest.raises(ClientError) as caught:
            kind(Connection(**believed, key=key)).infer("digits", {"image": IMAGE})
        assert caught.value.code is Code.UNAUTHENTICATED
    with pytest.raises(ClientError) as caught:
        kind(Connection(**where, key="THE-KEY")).infer("digits", {"image": IMAGE})
    assert not isinstance(caught.value, Unavailable), "a wrong certificate is asked once"


def test_it_imports_none_of_the_servers_dependencies(echo: Server) -> None:
    tomllib = pytest.importorskip("tomllib")  # of Python 3.11
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {each.split(">")[0] for each in project["optional-dependencies"]["client"]} == CLIENT_OWN
    needed = {each.split(">")[0].lower() for each in project["dependencies"]} - CLIENT_OWN
    modules = sorted(
        name
        for name, owners in packages_distributions().items()
        if name != "google" and {each.lower() for each in owners} <= needed | {"tensorflow"}
    )
    assert {"openvino", "orjson", "falcon", "uvloop"} <= set(modules)
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({modules!r}))\n"
        "from ie_serving.client import Client\n"
        f"for url in {[url(echo, 'http'), url(echo, 'grpc')]!r}:\n"
        "    with Client(url) as client:\n"
        "        x = [[1.5, 2.0]]\n"
        "        assert client.infer('float32', {'x': x, 'y_bytes': x[0]})['x'].tolist() == x\n"
        "        assert client.predict('bool', {'x': [[True]]})['x'].tolist() == [[True]]\n"
    )
    output_of(sys.executable, "-c", program)


@pytest.fixture
def files(echo: Server, tmp_path: Path) -> list[Path]:
    """The programs of the page."""
    page = (ROOT / "docs/guide/python-client.md").read_text()
    programs = [part.partition("\n```")[0] for part in page.split("```python\n")[1:]]
    files = [tmp_path / f"program{number}.py" for number in range(2)]
    for file, program in zip(files, programs, strict=True):
        text = program.replace("grpc://localhost:9000", url(echo, "grpc"))
        file.write_text(text.replace("http://localhost:8000", url(echo, "http")))
    return files


def test_the_programs_of_the_page_run(files: list[Path]) -> None:
    for file in files:
        assert output_of(sys.executable, file, cwd=ROOT)[-1] == "[1]"


@pytest.mark.deployed
def test_the_pages_programs_have_types(files: list[Path]) -> None:
    output_of(sys.executable, "-m", "mypy", "--strict", "--config-file=", *files, cwd=ROOT)


def test_both_clients_have_the_same_calls() -> None:
    def calls(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert calls(Client) == calls(AsyncClient) == calls(_BlockingClient)
