"""Switches, reloads, kills and troubles of repositories, for as long as SOAK_MINUTES says.

The first third kills workers, two in a row each minute: one that has lived for long, and its
replacement. More deaths in a row are replaced after pauses that grow up to 30 s, which is as long
as a client waits. The rest does everything else, so that one worker's memory is compared from its
first minute to its last. `make soak` prints the figures.
"""

import itertools
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from google.protobuf import text_format
from tensorflow_serving.apis import model_management_pb2

from ie_serving.server.process.gunicorn_app import GROWN_UP_S
from tests.functional.load import Load
from tests.functional.servers import READY, SAMPLE, Server
from tests.functional.test_reload import listed
from tests.process import PATIENCE_S, until

MINUTES = float(os.environ.get("SOAK_MINUTES", "30"))
pytestmark = [pytest.mark.soak, pytest.mark.timeout(60 * MINUTES + 300)]

GROWTH = 1.05
"""Of memory, from a worker's first minute to its last: a leak of a version's size at each switch
would be ten times as much within minutes."""

WINDOW_S = min(60.0, 60.0 * MINUTES / 6)
"""What counts as the first and the last minute; less in a short run."""


class Fleet:
    """A server, its models, and what happens to them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = directory / "models.config"
        self.kills = 0
        self.rounds = 0
        self._born = -GROWN_UP_S
        self._version = itertools.count(3)
        for name in ("switched", "here", "there", "shaky"):
            shutil.copytree(SAMPLE / "1", directory / name / "1")
        self.config.write_text(self.models("here"))
        self.server = Server(
            "tensorflow_model_server",
            f"--model_config_file={self.config}",
            "--model_config_file_poll_wait_seconds=1",
            env={"MINIO_ENDPOINT": "127.0.0.1:9"},
        )

    def models(self, place: str, **more: Path) -> str:
        bases = {"moved": self.directory / place, "switched": self.directory / "switched"}
        return listed(digits=SAMPLE, shaky=self.directory / "shaky", **bases, **more)

    def round(self) -> None:
        """Let everything but a kill happen once."""
        self.rounds += 1
        place = ("there", "here")[self.rounds % 2]
        dead = Path("minio://bucket/dead")
        # The dead store's slashes would be folded by Path.
        text = self.models(place, dead=dead).replace("minio:/bucket", "minio://bucket")
        self.config.write_text(text)
        self.server.line("configuration applied")
        self.switch()
        self.reload(self.models(place, added=SAMPLE))
        self.goes_and_comes_back()
        self.server.send(signal.SIGHUP)

    def switch(self) -> None:
        """Add a version, wait until it serves, and remove the one before."""
        base, version = self.directory / "switched", next(self._version)
        before = [path for path in base.iterdir() if path.name.isdecimal()]
        shutil.copytree(SAMPLE / "1", base / "new.tmp")
        (base / "new.tmp").rename(base / str(version))
        path = f"{self.server.url}/v2/models/switched/versions/{version}/ready"
        until(lambda: httpx.get(path, trust_env=False).status_code == 200)
        for each in before:
            shutil.rmtree(each)

    def reload(self, text: str) -> None:
        request = model_management_pb2.ReloadConfigRequest()
        text_format.Parse(text, request.config)
        self.server.model.HandleReloadConfigRequest(request, PATIENCE_S, wait_for_ready=True)

    def goes_and_comes_back(self) -> None:
        """Unmount a volume and mount it again."""
        base, away = self.directory / "shaky", self.directory / "away"
        base.rename(away)
        self.server.line("listing failed, served versions stay model=shaky")
        away.rename(base)
        self.server.line("listing works again model=shaky")

    def kill_if_grown_up(self) -> None:
        """Kill a worker that has lived for long, and the one that replaces it."""
        if time.monotonic() > self._born + GROWN_UP_S:
            self.kill()
            self.round()
            self.kill()

    def kill(self) -> None:
        """Kill the worker, and wait for the one that replaces it."""
        self.kills += 1
        os.kill(self.server.pids()[-1], signal.SIGKILL)
        self.server.line("worker ended and is replaced")
        self.server.line(READY)
        self._born = time.monotonic()

    def memory(self) -> int:
        """Bytes that the worker holds now."""
        return int(psutil.Process(self.server.pids()[-1]).memory_info().rss)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    try:
        fleet.server.ready()
        yield fleet
    finally:
        fleet.server.close()


def test_no_request_fails_and_no_memory_is_kept(
    fleet: Fleet, capfd: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    models = ("digits", "switched", "moved", "shaky")
    with Load(fleet.server, models) as load:
        while time.monotonic() < began + 60 * MINUTES / 3:
            fleet.round()
            fleet.kill_if_grown_up()
        failed_at_kills = len(load.failures)
        held: list[tuple[float, int]] = []
        while time.monotonic() < began + 60 * MINUTES:
            fleet.round()
            held.append((time.monotonic(), fleet.memory()))
    first = max(bytes for at, bytes in held if at < held[0][0] + WINDOW_S)
    last = max(bytes for at, bytes in held if at > held[-1][0] - WINDOW_S)
    with capfd.disabled():
        print(
            f"\n{MINUTES:g} minutes: {fleet.rounds} rounds, {fleet.kills} kills,"
            f" {sum(load.answers.values()):,} answers, {failed_at_kills} failed at a kill,"
            f" {len(load.failures) - failed_at_kills} at any other time;"
            f" memory {first >> 20} MiB in the first minute, {last >> 20} in the last"
        )
    # A kill cuts the request that each of the two clients has under way, and no other.
    assert failed_at_kills <= 2 * fleet.kills, load.failures
    assert load.failures[failed_at_kills:] == []
    assert last <= GROWTH * first
