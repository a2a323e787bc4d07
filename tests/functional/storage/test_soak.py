"""A served model of 300 MB: seconds to the first answer, and memory while it is fetched.

`make soak` prints the figures of this machine; benchmarks/diary/measurements.md holds those of one.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.functional.load import failure, states
from tests.functional.servers import SAMPLE
from tests.functional.storage.repositories import gcs_admin, s3_admin, s3_environ
from tests.functional.storage.servers import ADMIN, FakeGcs, Weed
from tests.functional.storage.serving import FILES, Launcher, only_at
from tests.process import until
from tests.unit.engines.openvino.models import looked_up

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

ROWS, COLUMNS = 1_228_800, 64  # 300 MiB in FP32
SCHEMES = ("s3", "minio", "gs")
GROWTH_LIMIT = 100 << 20
PATIENCE_S = 120.0

Upload = Callable[[str, Path], None]
"""Puts a file at a key of the bucket `soak` in all stores."""


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    return np.random.default_rng(0).random((ROWS, COLUMNS), np.float32)


@pytest.fixture(scope="module")
def model(table: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of an IR that looks up rows of `table`."""
    directory = tmp_path_factory.mktemp("model")
    looked_up(directory, table)
    assert (directory / "model.bin").stat().st_size >= table.nbytes
    return directory


@pytest.fixture(scope="module")
def upload(weed: Weed, fake_gcs: FakeGcs) -> Upload:
    s3 = s3_admin(weed)
    s3.create_bucket(Bucket="soak")
    gcs = gcs_admin(fake_gcs).create_bucket("soak")

    def put(key: str, file: Path) -> None:
        s3.upload_file(str(file), "soak", key)
        gcs.blob(key).upload_from_filename(str(file), timeout=PATIENCE_S)

    return put


@pytest.fixture
def environ(weed: Weed, fake_gcs: FakeGcs) -> dict[str, str]:
    gcs = {"STORAGE_EMULATOR_HOST": fake_gcs.url}
    return gcs | s3_environ("s3", weed.url, ADMIN) | s3_environ("minio", weed.url, ADMIN)


def test_seconds_to_the_first_answer(
    upload: Upload,
    model: Path,
    table: np.ndarray,
    environ: dict[str, str],
    launcher: Launcher,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    for name in FILES:
        upload(f"m/1/{name}", model / name)
    launcher.environ = environ
    shutil.copytree(model, tmp_path / "m" / "1")
    began = time.monotonic()
    shutil.copyfile(model / "model.bin", tmp_path / "plain")
    lines = [f"plain copy of the same bytes {time.monotonic() - began:.1f} s"]
    lines.append(f"local path {first_answer_s(launcher, str(tmp_path / 'm'), table):.1f} s")
    for scheme in SCHEMES:
        launcher.cache_dir = tmp_path / scheme
        empty, warm = (first_answer_s(launcher, f"{scheme}://soak/m", table) for _ in range(2))
        lines.append(f"{scheme} empty cache {empty:.1f} s, warm cache {warm:.1f} s")
        shutil.rmtree(launcher.cache_dir)
    with capfd.disabled():
        print("\nfirst answer of a 300 MB model after the start:", *lines, sep="\n  ")


def first_answer_s(launcher: Launcher, url: str, table: np.ndarray) -> float:
    """Seconds from the start of the command to a right answer over REST."""
    began = time.monotonic()
    server = launcher.serve(*only_at(url))
    reply = server.rest.post("/v1/models/digits:predict", json={"instances": [ROWS - 1]})
    seconds = time.monotonic() - began
    np.testing.assert_allclose(reply.json()["predictions"], table[-1:], rtol=1e-6)
    server.close()
    return seconds


@pytest.mark.parametrize("scheme", SCHEMES)
def test_memory_grows_little_while_a_new_version_is_fetched(
    scheme: str,
    upload: Upload,
    model: Path,
    environ: dict[str, str],
    launcher: Launcher,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """The new version is none that can be read, so what grows is the download alone."""
    sample = tmp_path / "broken.xml"
    sample.write_text("<net>not a model</net>")
    for name in FILES:
        upload(f"{scheme}/1/{name}", SAMPLE / "1" / name)
    launcher.environ = environ
    server = launcher.serve(*only_at(f"{scheme}://soak/{scheme}"))
    worker = server.pids()[-1]
    Path(f"/proc/{worker}/clear_refs").write_text("5")  # the peak begins anew
    before = psutil.Process(worker).memory_info().rss
    upload(f"{scheme}/2/model.bin", model / "model.bin")
    upload(f"{scheme}/2/model.xml", sample)
    until(lambda: 2 in states(server) and failure(server, 2) != "", PATIENCE_S)
    assert "model.xml" in failure(server, 2)
    growth = peak(worker) - before
    with capfd.disabled():
        print(f"\nfetching 300 MB from {scheme}: the serving worker grew by {growth >> 20} MiB")
    assert growth < GROWTH_LIMIT


def peak(process: int) -> int:
    """Bytes of memory that it has held at most."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
