"""Triton's explicit mode: clients load and unload models of the configuration.

What each call answers over both ports: the rows of the conformance table.
"""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.functional.conftest import Serve
from tests.functional.servers import SAMPLE, Server, config_flag
from tests.process import PATIENCE_S, until

Refused = InferenceServerException
EXPLICIT = "--model-control-mode=explicit"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A configuration of three models: two of one version, and one that does not load."""
    for name in ("one", "two", "broken"):
        shutil.copytree(SAMPLE / "1", tmp_path / name / "1")
    (tmp_path / "broken" / "1" / "model.xml").write_text("<net/>")
    write(tmp_path, "one", "two", "broken")
    return tmp_path


def write(repository: Path, *names: str) -> Path:
    file = repository / "config.json"
    config_flag(file, *({"name": name, "base_path": str(repository / name)} for name in names))
    return file


@pytest.fixture
def explicit(serve: Serve, repository: Path) -> Server:
    file = repository / "config.json"
    return serve("ie_serving", "config", f"--config_path={file}", EXPLICIT, "--load-model=one")


@pytest.fixture
def client(explicit: Server) -> Iterator[Any]:
    with connected("grpc", explicit) as client:
        yield client


def connected(kind: str, server: Server) -> Any:
    module = triton_http if kind == "http" else triton_grpc
    port = server.rest_port if kind == "http" else server.port
    return module.InferenceServerClient(f"127.0.0.1:{port}")


def infer(client: Any, model: str) -> Any:
    module = triton_http if isinstance(client, triton_http.InferenceServerClient) else triton_grpc
    image = module.InferInput("image", [1, 64], "FP32")
    image.set_data_from_numpy(np.ones((1, 64), np.float32))
    return client.infer(model, [image]).as_numpy("digit")


def index(client: Any) -> dict[str, tuple[str, str]]:
    """State and reason of each model."""
    found = client.get_model_repository_index().models
    return {each.name: (each.state, each.reason) for each in found}


def test_the_start_loads_what_it_is_told_to(client: Any) -> None:
    assert client.is_server_ready()
    unloaded = ("UNAVAILABLE", "unloaded")
    assert index(client) == {"one": ("READY", ""), "two": unloaded, "broken": unloaded}
    with pytest.raises(Refused, match="two"):
        infer(client, "two")


def test_the_index_needs_no_whole_configuration_file(client: Any, repository: Path) -> None:
    (repository / "config.json").write_text("{")
    assert index(client) == {"one": ("READY", "")}
    with pytest.raises(Refused, match=r"config\.json"):
        client.load_model("two")
    write(repository, "one", "two")
    assert set(index(client)) == {"one", "two"}


def test_the_file_is_followed_for_what_is_loaded(
    client: Any, explicit: Server, repository: Path
) -> None:
    shutil.copytree(SAMPLE / "1", repository / "three" / "1")
    write(repository, "two", "three")
    until(lambda: not client.is_model_ready("one"), PATIENCE_S)
    assert {*index(client)} == {"two", "three"}
    client.load_model("three")
    assert infer(client, "three").shape == (1,)
    with pytest.raises(Refused, match="two"):
        infer(client, "two")


def test_a_load_again_serves_the_versions_that_are_new(serve: Serve, repository: Path) -> None:
    still = ("--file_system_poll_wait_seconds=0", EXPLICIT, "--load_model=*")
    write(repository, "one", "two")
    server = serve("ie_serving", "config", f"--config_path={repository / 'config.json'}", *still)
    shutil.copytree(SAMPLE / "2", repository / "one" / "2")
    with connected("grpc", server) as client:
        client.load_model("one")
        assert list(client.get_model_metadata("one").versions) == ["2"]


def test_loads_under_load_lose_nothing(serve: Serve, repository: Path) -> None:
    """Clients ask one model while another comes and goes, and while it is loaded again itself."""
    flags = (EXPLICIT, "--load_model=one", "--workers=2")
    server = serve("ie_serving", "config", f"--config_path={repository / 'config.json'}", *flags)
    ended, answers, failures = threading.Event(), [0], list[Exception]()

    def ask() -> None:
        with connected("grpc", server) as own:
            while not ended.is_set():
                try:
                    infer(own, "one")
                except Refused as error:
                    failures.append(error)
                answers[0] += 1

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for thread in asking:
        thread.start()
    with connected("grpc", server) as client:
        for _ in range(3):
            client.load_model("two")
            # Each connection is of one of the two workers, and both must know the model.
            for _ in range(4):
                with connected("http", server) as other:
                    infer(other, "two")
            client.load_model("one")
            client.unload_model("two")
    before = answers[0]
    until(lambda: answers[0] > before, PATIENCE_S)
    ended.set()
    for thread in asking:
        thread.join(PATIENCE_S)
    assert not failures
