"""Servers for tests: one on the sample for all that do not change it, others on demand."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.functional.servers import SAMPLE_FLAGS, Server
from tests.functional.tiny import Gate, Start, Tiny

Serve = Callable[..., Server]


@pytest.fixture(scope="session")
def digits() -> Iterator[Server]:
    """A server of the sample, all versions; tests leave it as it is.

    In f32: where the CPU has bf16, the server would choose between them by what it measures.
    """
    with Server(
        "ie_serving",
        "model",
        *SAMPLE_FLAGS,
        '--model_version_policy={"all": {}}',
        "--inference_precision=f32",
        executed=True,
    ) as server:
        yield server.ready()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers that end with the test; give the command and its arguments."""
    with ExitStack() as stack:

        def start(*command: str, **options: Any) -> Server:
            server = Server(*command, **options)
            stack.callback(server.close)
            return server.ready()

        yield start


@pytest.fixture
def start() -> Iterator[Start]:
    """Start servers that do not outlive the test."""
    with ExitStack() as stack:

        def _start(environment: dict[str, str] | None = None, **options: Any) -> Tiny:
            server = Tiny(environment or {}, **options)
            stack.callback(server.kill)
            return server

        yield _start


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    with closing(Gate(tmp_path / "gate")) as gate:
        yield gate
