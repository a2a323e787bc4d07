"""Credentials that a store refuses, for fifty models of a bucket: what serves notices nothing.

The credentials are of a program that boto3 runs for each client that it makes, so its runs are the
clients that were made.
"""

import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil
import pytest

from tests.functional.load import IMAGE
from tests.functional.servers import PLAIN, SAMPLE, Server
from tests.functional.storage.repositories import BUCKET
from tests.functional.storage.servers import ADMIN, SECRET, Proxy, Weed
from tests.functional.storage.serving import POLL_S, Launcher, several
from tests.process import PATIENCE_S, until

MODELS = 50
ASKED = 400
"""Requests of each measurement: a second."""

MOST_S = 0.1
"""The 99th percentile may be so long, in seconds, on a machine on which it is short otherwise."""
TIMES = 5
"""How much slower the 99th percentile may be: what else runs on the machine changes too."""

GROWTH = 150 << 20
FILES = 60


@pytest.fixture
def runs(tmp_path: Path, launcher: Launcher) -> Path:
    """A file with a line for each client of `s3://` that was made; its credentials are refused."""
    runs, program = tmp_path / "runs", tmp_path / "credentials.py"
    keys = {"Version": 1, "AccessKeyId": ADMIN.key, "SecretAccessKey": f"wrong-{SECRET}"}
    program.write_text(
        f"open({str(runs)!r}, 'a').write('run\\n')\nprint({json.dumps(json.dumps(keys))})\n"
    )
    config = tmp_path / "aws.ini"
    config.write_text(f"[default]\ncredential_process = {sys.executable} {program}\n")
    runs.touch()
    launcher.environ |= {"AWS_CONFIG_FILE": str(config), "AWS_EC2_METADATA_DISABLED": "true"}
    return runs


def test_refused_credentials_of_fifty_models_change_nothing_for_what_serves(
    weed: Weed,
    proxied: Callable[[int], Proxy],
    launcher: Launcher,
    tmp_path: Path,
    runs: Path,
    bucket: str,
) -> None:
    proxy = proxied(weed.port)
    launcher.environ["S3_ENDPOINT"] = proxy.url
    file = tmp_path / "config.json"
    models = {"digits": str(SAMPLE)}
    server = launcher.serve(*several(file, models))
    worker = psutil.Process(server.pids()[1])
    before, memory, files = slowest_of_hundred(server), rss(worker), worker.num_fds()

    began = time.monotonic()
    models |= {f"m{n}": f"s3://{BUCKET}/{bucket}/m{n}" for n in range(MODELS)}
    several(file, models)
    until(lambda: in_trouble(server) == MODELS)
    during = slowest_of_hundred(server)
    rebuilt = len(runs.read_text().splitlines()) - 1
    took_s = time.monotonic() - began
    print(f"p99 {before * 1e3:.1f} -> {during * 1e3:.1f} ms, {rebuilt} rebuilt in {took_s:.1f} s,")
    print(f"{(rss(worker) - memory) >> 20} MiB, {worker.num_fds() - files} descriptors more,")
    print(f"{len(proxy.requests)} requests, at most {MODELS * listings_at_most(took_s)}")
    assert during < max(TIMES * before, MOST_S)
    assert rss(worker) < memory + GROWTH
    assert worker.num_fds() < files + FILES
    assert rebuilt <= 1 + took_s / 30
    assert len(proxy.requests) <= MODELS * listings_at_most(took_s)


def listings_at_most(seconds: float) -> int:
    """How often a model that is refused may be listed: each wait is twice the one before."""
    # The first wait is half of the interval at the least; one listing more is that of all models.
    return 2 + math.ceil(math.log2(1 + seconds / (POLL_S / 2)))


def in_trouble(server: Server) -> int:
    return server.log.count("listing failed, served versions stay model=m")


def rss(process: psutil.Process) -> int:
    return int(process.memory_info().rss)


def slowest_of_hundred(server: Server) -> float:
    """Ask without a pause; give the 99th percentile of the answers' times, in seconds."""
    body, times = json.dumps({"instances": IMAGE}), []
    with httpx.Client(
        base_url=server.url, timeout=PATIENCE_S, trust_env=False, verify=PLAIN
    ) as client:
        for _ in range(ASKED):
            began = time.monotonic()
            client.post("/v1/models/digits:predict", content=body).raise_for_status()
            times.append(time.monotonic() - began)
    return sorted(times)[-ASKED // 100]
