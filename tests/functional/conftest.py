"""Servers for tests: one on the sample for all that do not change it, others on demand."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.functional.servers import SAMPLE, Server

Serve = Callable[..., Server]


@pytest.fixture(scope="session")
def digits() -> Iterator[Server]:
    """A server of the sample, all versions; tests leave it as it is."""
    server = Server(
        "ie_serving",
        "model",
        "--model_name=digits",
        f"--model_path={SAMPLE}",
        '--model_version_policy={"all": {}}',
    )
    try:
        yield server.ready()
    finally:
        server.close()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers that end with the test; give the command and its arguments."""
    with ExitStack() as stack:

        def start(*command: str, env: dict[str, str] | None = None) -> Server:
            server = Server(*command, env=env)
            stack.callback(server.close)
            return server.ready()

        yield start
