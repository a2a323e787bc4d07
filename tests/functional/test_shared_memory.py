"""Tensors by system shared memory, passed by Triton's own clients and helpers."""

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
import tritonclient.utils.shared_memory as shm
from google.protobuf.json_format import MessageToDict
from tritonclient.utils import InferenceServerException

from tests.functional.servers import SAMPLE, Server

Refused = InferenceServerException
DIGITS = ("--model_name=digits", f"--model_path={SAMPLE}")
HELD_OUT = json.loads((SAMPLE.parent.parent / "digits" / "held_out.json").read_text())
IMAGES = np.array(HELD_OUT["image"][:8], np.float32)
TRUE = HELD_OUT["digit"][:8]
BYTES = IMAGES.nbytes
TRANSPORTS = ["http2", "grpcio"]
MODULES = {"http": triton_http, "grpc": triton_grpc}


@pytest.fixture(scope="module", params=TRANSPORTS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    flags = ("--shared_memory=true", f"--grpc_transport={request.param}")
    with closing(Server("ie_serving", "model", *DIGITS, *flags)) as server:
        yield server.ready()


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


def register(client: Any, region: Any, size: int = 2 * BYTES, offset: int = 0) -> Any:
    key = f"/tests-{os.getpid()}"
    return client.register_system_shared_memory("r", key, size, offset)


def given(module: Any, size: int = BYTES, offset: int = 0, region: str = "r") -> list[Any]:
    image = module.InferInput("image", list(IMAGES.shape), "FP32")
    image.set_shared_memory(region, size, offset)
    return [image]


def wanted(module: Any, size: int = BYTES, offset: int = BYTES) -> list[Any]:
    probabilities = module.InferRequestedOutput("probabilities")
    probabilities.set_shared_memory("r", size, offset)
    return [probabilities, module.InferRequestedOutput("digit")]


def plain(found: Any) -> Any:
    return found if isinstance(found, (list, dict)) else MessageToDict(found).get("regions", {})


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


def test_regions_are_listed_and_left(client: Any, kind: str, region: Any) -> None:
    register(client, region, BYTES, 4)
    assert len(plain(client.get_system_shared_memory_status())) == 1
    (only,) = [plain(client.get_system_shared_memory_status("r"))]
    told = only[0] if isinstance(only, list) else only["r"]
    assert told["name"] == "r"
    assert told["key"] == f"/tests-{os.getpid()}"
    with pytest.raises(Refused, match="is registered already") as again:
        register(client, region)
    assert again.value.status() in ("400", "409", "StatusCode.ALREADY_EXISTS")
    client.unregister_system_shared_memory("r")
    assert not plain(client.get_system_shared_memory_status())
    with pytest.raises(Refused, match='region "r" is not registered'):
        client.infer("digits", given(MODULES[kind]))


@pytest.mark.parametrize(
    ("size", "offset", "text"),
    [
        (BYTES, BYTES + 4, "are not in region"),
        (BYTES - 4, 0, "bytes"),
        (0, 0, "bytes"),
        (2**62, 2**62, "are not in region"),
    ],
)
def test_a_place_that_does_not_fit_is_refused(
    client: Any, kind: str, region: Any, size: int, offset: int, text: str
) -> None:
    register(client, region)
    module = MODULES[kind]
    with pytest.raises(Refused, match=text):
        client.infer("digits", given(module, size, offset))
    check(client.infer("digits", given(module), outputs=wanted(module)), region)


def test_an_output_that_is_larger_than_its_place_is_refused(
    client: Any, kind: str, region: Any
) -> None:
    register(client, region)
    module = MODULES[kind]
    with pytest.raises(Refused, match=r'output "probabilities" has 320 bytes .*319'):
        client.infer("digits", given(module), outputs=wanted(module, 319))


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


@pytest.mark.parametrize("key", ["/../etc/passwd", "none", "a/b", "", "sem.a"])
def test_another_file_is_not_opened(client: Any, key: str) -> None:
    with pytest.raises(Refused):
        client.register_system_shared_memory("other", key, 16)
    assert not plain(client.get_system_shared_memory_status())


def test_classes_and_a_region_exclude_each_other(kind: str, client: Any, region: Any) -> None:
    register(client, region)
    module = MODULES[kind]
    output = module.InferRequestedOutput("probabilities", class_count=2)
    with pytest.raises(Refused, match="classification"):
        output.set_shared_memory("r", BYTES, BYTES)


async def test_clients_of_an_event_loop(server: Server, kind: str, region: Any) -> None:
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


def test_the_servers_metadata_names_the_extension(client: Any) -> None:
    found = client.get_server_metadata()
    names = found["extensions"] if isinstance(found, dict) else found.extensions
    assert "system_shared_memory" in names
    assert "cuda_shared_memory" not in names


def test_by_default_it_is_off_and_its_refusal_names_the_flag() -> None:
    with closing(Server("ie_serving", "model", *DIGITS)) as server:
        server.ready()
        for kind, module in MODULES.items():
            with module.InferenceServerClient(address(server, kind)) as client:
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
