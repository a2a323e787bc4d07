"""Tensors by system shared memory, passed by Triton's own clients and helpers.

What is refused, and which regions there are: the rows of the conformance table.
"""

import asyncio
import json
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from tests.functional.servers import SAMPLE, Server, config_flag

Refused = InferenceServerException
HELD_OUT = json.loads((SAMPLE.parent.parent / "digits" / "held_out.json").read_text())
IMAGES = np.array(HELD_OUT["image"][:8], np.float32)
TRUE = HELD_OUT["digit"][:8]
BYTES = IMAGES.nbytes
TRANSPORTS = ["http2", "grpcio"]
MODULES = {"http": triton_http, "grpc": triton_grpc}


@pytest.fixture(scope="module", params=TRANSPORTS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("models")
    entries = [
        {"name": "digits", "base_path": str(SAMPLE)},
        echo(root, "texts", "string"),
        echo(root, "floats", "float"),
    ]
    flags = (config_flag(root / "config.json", *entries), "--shared_memory=true")
    with Server("ie_serving", "config", *flags, f"--grpc_transport={request.param}") as server:
        yield server.ready()


def echo(root: Path, name: str, dtype: str) -> dict[str, object]:
    """Configure a model that answers what it is asked."""
    (root / name / "1").mkdir(parents=True)
    inputs = {"x": {"dtype": dtype, "shape": [-1]}}
    path = str(root / name)
    return {"name": name, "base_path": path, "driver": "null", "params": {"inputs": inputs}}


@pytest.fixture(params=MODULES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def address(server: Server, kind: str) -> str:
    return f"127.0.0.1:{server.rest_port if kind == 'http' else server.port}"


@pytest.fixture
def client(kind: str, server: Server) -> Iterator[Any]:
    with MODULES[kind].InferenceServerClient(address(server, kind)) as client:
        yield client
        client.unregister_system_shared_memory()


@pytest.fixture
def region() -> Iterator[Any]:
    """The images, with room for the probabilities behind them."""
    name = f"tests-{os.getpid()}"
    region = shm.create_shared_memory_region(name, f"/{name}", 2 * BYTES)
    shm.set_shared_memory_region(region, [IMAGES])
    yield region
    shm.destroy_shared_memory_region(region)


def register(client: Any, region: Any) -> Any:
    return client.register_system_shared_memory("r", f"/tests-{os.getpid()}", 2 * BYTES)


def given(module: Any) -> list[Any]:
    image = module.InferInput("image", list(IMAGES.shape), "FP32")
    image.set_shared_memory("r", BYTES)
    return [image]


def wanted(module: Any) -> list[Any]:
    probabilities = module.InferRequestedOutput("probabilities")
    probabilities.set_shared_memory("r", BYTES, BYTES)
    return [probabilities, module.InferRequestedOutput("digit")]


def check(result: Any, region: Any) -> None:
    """The digits are in the reply, and their probabilities in the region, behind the images."""
    assert result.as_numpy("digit").tolist() == TRUE
    written = shm.get_contents_as_numpy(region, np.float32, (8, 10), offset=BYTES)
    np.testing.assert_allclose(written.sum(1), 1, rtol=1e-3)
    assert written.argmax(1).tolist() == TRUE


def test_an_input_and_an_output_lie_in_a_region(client: Any, kind: str, region: Any) -> None:
    register(client, region)
    module = MODULES[kind]
    result = client.infer("digits", given(module), outputs=wanted(module))
    check(result, region)
    described = result.get_output("probabilities")
    parameters = described["parameters"] if kind == "http" else described.parameters
    assert "shared_memory_region" in parameters
    assert "classification" not in parameters


def test_a_file_that_has_become_shorter_ends_no_process(
    client: Any, kind: str, region: Any
) -> None:
    register(client, region)
    path = Path(f"/dev/shm/tests-{os.getpid()}")
    os.truncate(path, 16)
    try:
        with pytest.raises(Refused, match="has become shorter"):
            client.infer("digits", given(MODULES[kind]))
        assert client.is_server_live()
    finally:
        os.truncate(path, 2 * BYTES)


def test_classes_and_a_region_exclude_each_other(kind: str, client: Any, region: Any) -> None:
    register(client, region)
    module = MODULES[kind]
    outputs = [module.InferRequestedOutput("digit", class_count=2), *wanted(module)[:1]]
    with pytest.raises(Refused, match="classification and shared memory of outputs exclude"):
        client.infer("digits", given(module), outputs=outputs)


def copy(
    client: Any, module: Any, name: str, datatype: str, count: int, size: int, room: int
) -> Any:
    """Ask a model to copy an input at the beginning of region "r" behind it."""
    x = module.InferInput("x", [count], datatype)
    x.set_shared_memory("r", size)
    y = module.InferRequestedOutput("x")
    y.set_shared_memory("r", room, size)
    return client.infer(name, [x], outputs=[y])


def test_texts_lie_in_a_region(client: Any, kind: str, region: Any) -> None:
    register(client, region)
    elements = [b"one", b"", "zwölf".encode()]
    sent = b"".join(struct.pack("<I", len(each)) + each for each in elements)
    Path(f"/dev/shm/tests-{os.getpid()}").write_bytes(sent.ljust(2 * BYTES, b"\0"))
    result = copy(client, MODULES[kind], "texts", "BYTES", 3, len(sent), 100)
    found = shm.get_contents_as_numpy(region, np.object_, [3], offset=len(sent))
    assert found.tolist() == elements
    told = result.get_output("x")
    parameters = told["parameters"] if kind == "http" else told.parameters
    size = parameters["shared_memory_byte_size"]
    assert (size if kind == "http" else size.int64_param) == len(sent)
    for count, taken in ((2, len(sent)), (4, len(sent)), (3, len(sent) - 1), (3, len(sent) + 1)):
        with pytest.raises(Refused, match=f"expected {count} elements of BYTES"):
            copy(client, MODULES[kind], "texts", "BYTES", count, taken, 100)


def test_megabytes_lie_in_a_region(client: Any, kind: str) -> None:
    """They are read in a thread, as they take more than a moment."""
    values, name = np.arange(1 << 20, dtype=np.float32), f"tests-large-{os.getpid()}"
    region = shm.create_shared_memory_region(name, f"/{name}", 2 * values.nbytes)
    try:
        shm.set_shared_memory_region(region, [values])
        client.register_system_shared_memory("r", f"/{name}", 2 * values.nbytes)
        copy(client, MODULES[kind], "floats", "FP32", values.size, values.nbytes, values.nbytes)
        found = shm.get_contents_as_numpy(region, np.float32, [values.size], offset=values.nbytes)
        np.testing.assert_array_equal(found, values)
    finally:
        shm.destroy_shared_memory_region(region)


def test_texts_that_change_while_they_are_read_break_nothing(
    client: Any, kind: str, region: Any
) -> None:
    """Lengths are written anew all the time: a request is answered as it was read, or refused."""
    register(client, region)
    path, ended = Path(f"/dev/shm/tests-{os.getpid()}"), threading.Event()
    good = struct.pack("<I", 4) + b"four"

    def rewrite() -> None:
        with path.open("r+b", buffering=0) as file:
            while not ended.is_set():
                for length in (4, 5, 2**32 - 1):
                    os.pwrite(file.fileno(), struct.pack("<I", length), 0)

    os.truncate(path, 2 * BYTES)
    with path.open("r+b", buffering=0) as file:
        file.write(good)
    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for _ in range(100):
            try:
                copy(client, MODULES[kind], "texts", "BYTES", 1, len(good), len(good))
            except Refused as error:
                assert "expected 1 elements of BYTES" in str(error)
            else:  # what was checked is what was answered
                assert path.read_bytes()[len(good) : 2 * len(good)] == good
    finally:
        ended.set()
        writer.join()


def test_a_reply_in_json_says_where_the_output_is(server: Server, region: Any) -> None:
    with triton_http.InferenceServerClient(address(server, "http")) as client:
        register(client, region)
        place = {"shared_memory_region": "r", "shared_memory_byte_size": 12}
        x = {"name": "x", "datatype": "FP32", "shape": [2]}
        there = {"name": "x", "parameters": {**place, "shared_memory_offset": 16}}
        body = {"inputs": [{**x, "data": [1.5, 2.5]}], "outputs": [there]}
        reply = server.rest.request("POST", "/v2/models/floats/infer", content=json.dumps(body))
        assert reply.headers["content-type"] == "application/json"
        told = {**place, "shared_memory_offset": 16, "shared_memory_byte_size": 8}
        assert reply.json()["outputs"] == [{**x, "parameters": told}]
        found = shm.get_contents_as_numpy(region, np.float32, [2], offset=16)
        assert found.tolist() == [1.5, 2.5]
        client.unregister_system_shared_memory()


async def test_clients_of_an_event_loop_share_memory(
    server: Server, kind: str, region: Any
) -> None:
    module = {"http": triton_http_aio, "grpc": triton_grpc_aio}[kind]
    async with module.InferenceServerClient(address(server, kind)) as client:
        await client.register_system_shared_memory("r", f"/tests-{os.getpid()}", 2 * BYTES)
        own = MODULES[kind]
        asked = (client.infer("digits", given(own), outputs=wanted(own)) for _ in range(8))
        for result in await asyncio.gather(*asked):
            check(result, region)
        await client.unregister_system_shared_memory("r")


def test_a_stream_takes_regions(server: Server, region: Any) -> None:
    answers: list[Any] = []
    with triton_grpc.InferenceServerClient(address(server, "grpc")) as client:
        register(client, region)
        client.start_stream(lambda result, error: answers.append((result, error)))
        client.async_stream_infer("digits", given(triton_grpc), outputs=wanted(triton_grpc))
        client.stop_stream()  # awaits the answers
        client.unregister_system_shared_memory()
    ((result, error),) = answers
    assert error is None
    check(result, region)


def test_by_default_it_is_off_and_its_refusal_names_the_flag(digits: Server) -> None:
    for kind, module in MODULES.items():
        with module.InferenceServerClient(address(digits, kind)) as client:
            found = client.get_server_metadata()
            names = found["extensions"] if isinstance(found, dict) else found.extensions
            assert "system_shared_memory" not in names
            for ask in (
                lambda client=client: register(client, None),
                lambda client=client, module=module: client.infer("digits", given(module)),
                lambda client=client: client.get_system_shared_memory_status(),
            ):
                with pytest.raises(Refused, match="--shared_memory true"):
                    ask()
