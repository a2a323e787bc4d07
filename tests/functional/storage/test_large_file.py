"""A large model: bounded memory, resumed after a death of the store, figures for the docs.

The figures are printed (`pytest -s`): seconds from the store, seconds of a plain copy of the same
bytes, and how far the process grew meanwhile. Those of the docs are of `MODEL_MB=300`.
"""

import filecmp
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from ie_serving.config.dialects.environment import storage_options
from ie_serving.core.settings.faults import Faults
from ie_serving.core.values.errors import StorageError
from ie_serving.storage.backends.s3 import S3Options, S3Remote
from ie_serving.storage.base import Location
from ie_serving.storage.mirror import Mirror
from ie_serving.storage.mirror.download import Transfer
from ie_serving.storage.trouble import RetryLimits
from tests.functional.storage.repositories import S3Repository, gcs_admin, s3_admin, s3_environ
from tests.functional.storage.servers import ADMIN, FakeGcs, Fault, Proxy, Weed
from tests.process import output_of
from tests.unit.storage.contract import listed

OpenProxy = Callable[[int], Proxy]
MEGABYTE = 1 << 20
MODEL_MB = int(os.environ.get("MODEL_MB", "40"))
"""Several times what the process grows by."""
PART = Transfer().part_bytes
MEDIUM_PARTS = 3
GROWTH_LIMIT = 25 * MEGABYTE

FETCH = """
import json, sys, time
from pathlib import Path
from ie_serving.storage.backends.storage_opener import open_storage
from ie_serving.config.dialects.environment import storage_options
from ie_serving.core.settings.faults import Faults

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024

url, environ, cache = sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])
storage = open_storage(url, storage_options(environ, Faults(), cache_dir=cache))
entries = tuple(storage.list("1"))
before = status("VmRSS")
began = time.monotonic()
with storage.copy("1", entries) as copy:
    seconds = time.monotonic() - began
    grown = status("VmHWM") - before
    print(json.dumps({"seconds": seconds, "grown": grown, "file": str(copy / "model.bin")}))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("large") / "model.bin", MODEL_MB * MEGABYTE)


@pytest.fixture(scope="module")
def medium(tmp_path_factory: pytest.TempPathFactory, weed: Weed) -> Path:
    """Give a file of several parts, which `repository` opens in the store."""
    file = written(tmp_path_factory.mktemp("medium") / "model.bin", MEDIUM_PARTS * PART)
    S3Repository("s3", weed, Proxy(weed.port), "medium", file.parent).put_file("1/model.bin", file)
    return file


@pytest.fixture
def repository(weed: Weed, proxied: OpenProxy, cache_dir: Path, medium: Path) -> S3Repository:
    return S3Repository("s3", weed, proxied(weed.port), "medium", cache_dir)


def written(file: Path, size: int) -> Path:
    """Write a file in which no two megabytes are the same."""
    block = bytes(range(256)) * (MEGABYTE // 256)
    with file.open("wb") as stream:
        for number in range(size // MEGABYTE):
            stream.write(number.to_bytes(8, "big") + block[8:])
    return file


@pytest.fixture(scope="module")
def on_weed(weed: Weed, model: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """URL and environment of the model, by scheme."""
    admin = s3_admin(weed)
    admin.create_bucket(Bucket="large")
    admin.upload_file(str(model), "large", "m/1/model.bin")
    return {
        scheme: (f"{scheme}://large/m", s3_environ(scheme, weed.url, ADMIN))
        for scheme in ("s3", "minio")
    }


@pytest.fixture(scope="module")
def on_gcs(fake_gcs: FakeGcs, model: Path) -> tuple[str, dict[str, str]]:
    """URL and environment of the model."""
    bucket = gcs_admin(fake_gcs).create_bucket("large")
    bucket.blob("m/1/model.bin").upload_from_filename(str(model))
    return "gs://large/m", {"STORAGE_EMULATOR_HOST": fake_gcs.url}


@pytest.mark.parametrize("scheme", ["s3", "minio", "gs"])
def test_memory_does_not_grow_with_the_file(
    scheme: str,
    request: pytest.FixtureRequest,
    model: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    on_gcs_or_weed = request.getfixturevalue("on_gcs" if scheme == "gs" else "on_weed")
    url, environ = on_gcs_or_weed if scheme == "gs" else on_gcs_or_weed[scheme]
    fetched = fetched_by_a_fresh_process(url, environ, tmp_path / "cache")
    began = time.monotonic()
    shutil.copyfile(model, tmp_path / "plain")
    plain_s = time.monotonic() - began
    assert filecmp.cmp(fetched["file"], model, shallow=False)
    with capfd.disabled():
        print(
            f"\n{MODEL_MB} MB from {scheme}: {fetched['seconds']:.2f} s, plain copy "
            f"{plain_s:.2f} s, memory grew by {fetched['grown'] / 1e6:.0f} MB"
        )
    assert fetched["grown"] < GROWTH_LIMIT


def fetched_by_a_fresh_process(url: str, environ: dict[str, str], cache: Path) -> dict[str, Any]:
    """What it reports: `seconds`, bytes it has `grown` by, and the `file`."""
    command = (sys.executable, "-c", FETCH, url, json.dumps(environ), cache)
    report: dict[str, Any] = json.loads(output_of(*command, patience_s=60)[-1])
    return report


def test_a_store_that_dies_on_the_way_costs_only_what_is_missing(
    repository: S3Repository, cache_dir: Path
) -> None:
    entries = listed(repository.storage, "1")
    gets = iter(range(1000))

    def die_after_two_parts(line: str) -> Fault:
        return Fault(status=500) if line.startswith("GET") and next(gets) >= 2 else Fault()

    repository.proxy.choose = die_after_two_parts
    # One thread: else a part that fails may end the download before the first two have come.
    impatient = mirror_of(repository, cache_dir, Transfer(threads=1, tries=RetryLimits(most=2)))
    with pytest.raises(StorageError), impatient.copy("1", entries):
        pass
    repository.proxy.choose = lambda line: Fault()
    repository.proxy.requests.clear()
    with repository.opened().copy("1", entries) as copy:
        assert (copy / "model.bin").stat().st_size == MEDIUM_PARTS * PART
    again = [line for line in repository.proxy.requests if line.startswith("GET")]
    assert len(again) == MEDIUM_PARTS - 2


def test_an_outage_in_mid_download_is_waited_out(repository: S3Repository, medium: Path) -> None:
    """The store is gone for a moment; the download goes on where it was."""
    entries = listed(repository.storage, "1")
    repository.proxy.choose = lambda line: Fault(reset_after=5 * MEGABYTE)
    Timer(1, setattr, (repository.proxy, "choose", lambda line: Fault())).start()
    with repository.storage.copy("1", entries) as copy:
        assert filecmp.cmp(copy / "model.bin", medium, shallow=False)


def test_a_download_that_trickles_is_ended(
    weed: Weed, proxied: OpenProxy, bucket: str, cache_dir: Path
) -> None:
    repository = S3Repository("s3", weed, proxied(weed.port), bucket, cache_dir)
    repository.put("1/model.bin", bytes(4 * MEGABYTE))  # 50 s at the speed of the proxy
    repository.proxy.choose = lambda line: Fault(trickle="model.bin" in line)
    at_least = Transfer(least_bytes_per_s=200_000, least_over_s=1.0)
    mirror = mirror_of(repository, cache_dir, at_least)
    with pytest.raises(StorageError, match="too slow"), mirror.copy("1", listed(mirror, "1")):
        pass


def mirror_of(repository: S3Repository, cache_dir: Path, transfer: Transfer) -> Mirror:
    """Open the repository so that downloads are cut up and tried again in another way."""
    url = repository.storage.url
    options = storage_options(repository.environ, Faults(), cache_dir=cache_dir)
    remote = S3Remote(Location.parse(url, url.removeprefix("s3://")), options.of(S3Options))
    return Mirror(remote, cache_dir, transfer=transfer)
