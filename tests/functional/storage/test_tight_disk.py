"""A disk with little room for the cache: a small tmpfs, which goes with the server's process."""

from collections.abc import Callable
from pathlib import Path
from subprocess import run
from threading import Event

import pytest

from tests.functional.load import LOADING, failure, states
from tests.functional.servers import Server
from tests.functional.storage.repositories import S3Repository
from tests.functional.storage.servers import Fault, Proxy, Weed
from tests.functional.storage.serving import only, put, serves
from tests.process import COMMANDS, PATIENCE_S, until

RESERVE = 64 << 20
"""Bytes of the disk that copies never take (`ie_serving/storage/mirror/cache.py`)."""

FILE = 12 << 20
"""Bytes of each of two files beside the model: less than the 16 MiB of a part."""

DISK = RESERVE + 2 * FILE + (8 << 20)
"""Room for both files, and not for both beside one that is there already."""

OFTEN = "--file_system_poll_wait_seconds=0.3"
PRIVATE = ("/usr/bin/env", "unshare", "--user", "--map-root-user", "--mount")


@pytest.fixture
def mounted(tmp_path: Path) -> tuple[str, ...]:
    """The beginning of a command that sees a small disk at `tmp_path / "disk"`, alone."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size={DISK} tmpfs '{disk}' && exec \"$@\""
    command = (*PRIVATE, "sh", "-c", mount, "sh")
    if run((*command, "true"), check=False, capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted in this sandbox")
    return command


def test_a_download_that_broke_off_is_finished_where_the_whole_would_not_fit(
    weed: Weed,
    proxied: Callable[[int], Proxy],
    bucket: str,
    tmp_path: Path,
    mounted: tuple[str, ...],
) -> None:
    repository = S3Repository("s3", weed, proxied(weed.port), bucket, tmp_path / "unused")
    first_arrived = Event()

    def refuse_the_second(line: str) -> Fault:
        """The checksum of a file is asked for when it is here."""
        if line.startswith("HEAD") and "model.bin.first" in line:
            first_arrived.set()
        if "model.bin.second" not in line:
            return Fault()
        first_arrived.wait(PATIENCE_S)
        return Fault(status=403)

    repository.proxy.choose = refuse_the_second
    for name in ("first", "second"):
        repository.put(f"1/model.bin.{name}", bytes(FILE))
    put(repository, 1)
    command = (*mounted, str(COMMANDS / "ie_serving"), *only(repository), OFTEN)
    cache = f"--cache_dir={tmp_path / 'disk'}"
    with Server(*command, cache, env=repository.environ) as server:
        server.ready()
        until(lambda: "permission denied" in failure(server, 1))
        repository.proxy.choose = lambda line: Fault()
        until(lambda: serves(server, 1))
        fetched = [line for line in repository.proxy.requests if "GET" in line and "first" in line]
        assert len(fetched) == 1, "what had arrived was kept"

        repository.put("2/model.bin.first", bytes(FILE))
        put(repository, 2)
        until(lambda: states(server).get(2) == LOADING and failure(server, 2) != "")
        assert f"bytes are to be fetched and {RESERVE} kept free" in failure(server, 2)
        assert "--cache_dir" in failure(server, 2)
        assert serves(server, 1)
