"""Two thousand models of a directory, and of a bucket: what the idle hours cost, and a change then.

Run it by `python -m pytest -m soak -s tests/functional/test_soak_fleet.py`.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.functional.servers import Server
from tests.functional.storage.repositories import BUCKET, s3_admin, s3_environ, send_all
from tests.functional.storage.servers import ADMIN, Proxy, Weed
from tests.functional.storage.serving import serves
from tests.functional.test_many_models import passes
from tests.process import PATIENCE_S, until
from tests.unit.engines.openvino.models import add_one

MODELS = 2000
MOST_IDLE = 0.02
"""Of a processor, at a poll a second."""
MOST_REQUESTS_S = 1.0
SETTLED_S, IDLE_S = 45.0, 60.0

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    add_one(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    with ExitStack() as stack:

        def start(url: str, environ: dict[str, str], *more: str) -> Server:
            flags = (f"--model_repository={url}", f"--cache_dir={tmp_path / 'cache'}", *more)
            server = Server("ie_serving", "config", *flags, env=environ)
            stack.callback(server.close)
            server.ready(300)
            passes(server, SETTLED_S)
            return server

        yield start


def idle(server: Server) -> float:
    """Measure the share of a processor that an idle server takes."""
    spent, began = server.spent_s(), time.monotonic()
    passes(server, IDLE_S)
    return (server.spent_s() - spent) / (time.monotonic() - began)


def seconds_until(holds: Callable[[], bool]) -> float:
    began = time.monotonic()
    until(holds, PATIENCE_S)
    return time.monotonic() - began


def answers(server: Server, model: str) -> bool:
    body = {"instances": [[1.0, 2.0]]}
    return server.rest.post(f"/v1/models/{model}:predict", json=body).status_code == 200


def test_two_thousand_models_on_disk_cost_little_when_idle(
    model: Path,
    tmp_path: Path,
    started: Callable[..., Server],
    capfd: pytest.CaptureFixture[str],
) -> None:
    base = tmp_path / "models"
    for number in range(MODELS):
        directory = base / f"m{number}" / "1"
        directory.mkdir(parents=True)
        for file in model.iterdir():
            (directory / file.name).hardlink_to(file)
    server = started(str(base), {})
    share = idle(server)
    shutil.copytree(model, tmp_path / "new" / "1")
    (tmp_path / "new").rename(base / "new")
    new_s = seconds_until(lambda: serves(server, 1, "new"))
    shutil.copytree(model, tmp_path / "2")
    (tmp_path / "2").rename(base / "m7" / "2")
    version_s = seconds_until(lambda: serves(server, 2, "m7"))
    with capfd.disabled():
        print(f"\n{MODELS} models on disk: idle {share:.2%} of a core")
        print(f"a new model after {new_s:.1f} s, a new version after {version_s:.1f} s")
    assert share <= MOST_IDLE


def test_two_thousand_models_in_a_bucket_cost_little_when_idle(
    model: Path,
    tmp_path: Path,
    started: Callable[..., Server],
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "weed").mkdir()
    with Weed(tmp_path / "weed") as weed, Proxy(weed.port) as proxy:
        s3_admin(weed).create_bucket(Bucket=BUCKET)
        files = {file.name: file.read_bytes() for file in model.iterdir()}

        def put(*versions: str) -> None:
            above = f"/buckets/{BUCKET}/models"
            paths = {f"{above}/{v}/{f}": body for v in versions for f, body in files.items()}
            send_all("PUT", weed.filer, paths)

        put(*(f"m{number}/1" for number in range(MODELS)))
        # On demand: 2,000 loads through the proxy, which is Python, would take half an hour.
        environ = s3_environ("s3", proxy.url, ADMIN)
        server = started(f"s3://{BUCKET}/models", environ, "--load=on_demand")
        before = len(proxy.requests)
        share = idle(server)
        requests = (len(proxy.requests) - before) / IDLE_S
        put("new/1")
        new_s = seconds_until(lambda: answers(server, "new"))
    with capfd.disabled():
        print(f"\n{MODELS} models in a bucket: {requests:.2f} requests a second")
        print(f"idle {share:.2%} of a core, a new model after {new_s:.1f} s")
    assert requests <= MOST_REQUESTS_S * 1.1
