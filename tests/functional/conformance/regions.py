"""Sends the rows about shared memory: by Triton's clients, with a region as the rows expect it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from tests.functional.conformance.case import KEY, Triton
from tests.functional.servers import Server

NAME = "r"
NUMBERS = 4
"""Of FP32 in the region."""


class Region:
    """The file of the region, by a name of this process's own."""

    def __init__(self) -> None:
        self.key = f"{KEY}-{os.getpid()}"
        self._made = shm.create_shared_memory_region(NAME, self.key, 4 * NUMBERS)

    def close(self) -> None:
        shm.destroy_shared_memory_region(self._made)

    def prepare(self, server: Server) -> None:
        """Register the region alone, with what the rows expect in it."""
        shm.set_shared_memory_region(self._made, [np.array([1, 0, 0, 0], np.float32)])
        with _client(server, triton_http) as client:
            client.unregister_system_shared_memory()
            client.register_system_shared_memory(NAME, self.key, 4 * NUMBERS)

    def check(self, written: Any) -> None:
        """Compare the numbers at the beginning of the region."""
        found = shm.get_contents_as_numpy(self._made, np.float32, [NUMBERS])
        assert found.tolist()[: len(written)] == [*written]


@contextmanager
def _client(server: Server, module: ModuleType) -> Iterator[Any]:
    port = server.rest_port if module is triton_http else server.port
    with module.InferenceServerClient(f"127.0.0.1:{port}") as client:
        yield client


def check_triton(server: Server, case: Triton, region: Region) -> None:
    """Send a row by both clients and compare the answers, and the regions afterwards."""
    for module in (triton_http, triton_grpc):
        region.prepare(server)
        with _client(server, module) as client:
            code, text = _sent(client, module, case, region.key)
            expected = str(case.status) if module is triton_http else f"StatusCode.{case.code}"
            assert code == ("OK" if case.code == "OK" else expected), text
            assert case.phrase in text
            assert _registered(client) == {*case.regions}
        region.check(case.written)


def _sent(client: Any, module: ModuleType, case: Triton, key: str) -> tuple[str, str]:
    given = [
        each.replace(KEY, key, 1) if isinstance(each, str) else each for each in case.arguments
    ]
    try:
        if case.method == "infer":
            given += [_inputs(module, case)]
            return "OK", str(client.infer(*given, outputs=_outputs(module, case)).get_response())
        return "OK", str(getattr(client, case.method)(*given))
    except InferenceServerException as error:
        return str(error.status()), str(error.message())


def _inputs(module: ModuleType, case: Triton) -> list[Any]:
    made = []
    for name, place in case.inputs.items():
        tensor = module.InferInput(name, [1], "FP32")
        tensor.set_shared_memory(place.region, place.size, place.offset)
        made.append(tensor)
    return made


def _outputs(module: ModuleType, case: Triton) -> list[Any]:
    made = []
    for name, place in case.outputs.items():
        output = module.InferRequestedOutput(name)
        output.set_shared_memory(place.region, place.size, place.offset)
        made.append(output)
    return made


def _registered(client: Any) -> set[str]:
    found = client.get_system_shared_memory_status()
    return {each["name"] for each in found} if isinstance(found, list) else {*found.regions}
