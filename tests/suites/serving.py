"""Models of a suite, served by a real process."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import onnx

from tests.functional.servers import Server
from tests.process import until

LONGEST_LOAD_S = 60.0
"""From one version that settles to the next of the group; beyond it the rest hangs."""

PAUSE_S = 0.05
"""Between two questions for the states of all models."""

KILLS = "its load has ended the server's process"
"""In the status of a version that is not tried again, after it has killed two processes."""

SUSPECT = "it was loading when the server's process was killed"
"""In the status of a version that waits for its turn, to be loaded again without others."""

DEATH_S = 5.0
"""From the end of a connection to the line in the log that the process has died."""

REPLACED = "worker ended and is replaced"
"""In the log, when the process that serves has died."""

FAILED = "Error occurred while loading version: "
"""Before the cause, in the status of a version."""

FLAGS = ("--open_ports_early", "--file_system_poll_wait_seconds=0")
"""What fails to load fails beside the others; nothing changes while it is served."""


def write(directory: Path, name: str, model: onnx.ModelProto) -> None:
    """Write the version directory of one model."""
    version = directory / name / "1"
    version.mkdir(parents=True)
    onnx.save(model, version / "model.onnx")


@contextmanager
def serving(
    command: Sequence[str], directory: Path, names: Sequence[str], env: Mapping[str, str]
) -> Iterator[Server]:
    """A server of these models, whose ports are open; it may still load."""
    entries = [{"config": {"name": name, "base_path": str(directory / name)}} for name in names]
    config = directory / "config.json"
    config.write_text(json.dumps({"model_config_list": entries}))
    own = (f"--config_path={config}", f"--cache_dir={directory / 'cache'}", *FLAGS)
    server = Server(*command, *own, env=dict(env))
    try:
        yield server.ready()
    finally:
        server.kill()  # it has nothing to lose, and may hang
        server.close()


def settled(server: Server, count: int) -> dict[str, str]:
    """Wait until each of `count` models serves or has failed to load.

    Returns:
        Why a model does not serve, empty where it does, by name; a model whose load hangs is
        left out.
    """
    causes, most, began = _causes(server), 0, time.monotonic()
    while len(causes) < count and time.monotonic() - began < LONGEST_LOAD_S:
        time.sleep(PAUSE_S)
        causes = _causes(server)  # anew: all are loaded again after one has killed the process
        if len(causes) > most:
            most, began = len(causes), time.monotonic()
    return causes


def deaths(server: Server) -> int:
    """How often the process that serves has died so far."""
    return server.log.count(REPLACED) + (not server.runs)


def dies(server: Server, before: int) -> bool:
    """Tell whether there is one more death than `before`, or soon will be."""
    try:
        until(lambda: deaths(server) > before, DEATH_S)
    except AssertionError:
        return False
    return True


def _causes(server: Server) -> dict[str, str]:
    try:
        pages = server.rest.get("/v1/config").json()
    except httpx.HTTPError:  # while the process is replaced
        return {}
    causes = {}
    for name, page in pages.items():
        status = (page.get("model_version_status") or [{}])[0]
        cause = status.get("status", {}).get("error_message", "")
        if (cause and SUSPECT not in cause) or status.get("state") == "AVAILABLE":
            causes[name] = cause.removeprefix(FAILED)
    return causes
