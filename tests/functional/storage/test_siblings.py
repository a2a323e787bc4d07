"""Many models below one prefix of a bucket, in a server of their own: what a poll costs."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.functional.load import Load
from tests.functional.servers import SAMPLE, Server
from tests.functional.storage.repositories import BUCKET, s3_admin, s3_environ
from tests.functional.storage.servers import ADMIN, Fault, Proxy, Weed
from tests.functional.storage.serving import (
    FILES,
    Launcher,
    is_listing_of_the_base,
    serves,
    several,
)
from tests.process import until

MODELS = 12


class Shelf:
    """Models below one prefix, read through a proxy that counts."""

    def __init__(self, scheme: str, weed: Weed, proxy: Proxy, prefix: str) -> None:
        self.proxy = proxy
        self.environ = s3_environ(scheme, proxy.url, ADMIN)
        self.urls = {f"m{n}": f"{scheme}://{BUCKET}/{prefix}/m{n}" for n in range(MODELS)}
        self._prefix = prefix
        self._admin = s3_admin(weed)

    def put(self, name: str, version: int) -> None:
        for file in FILES:
            body = (SAMPLE / "1" / file).read_bytes()
            self.put_object(f"{name}/{version}/{file}", body)

    def put_object(self, path: str, body: bytes) -> None:
        self._admin.put_object(Bucket=BUCKET, Key=f"{self._prefix}/{path}", Body=body)


@pytest.fixture(params=["s3", pytest.param("minio", marks=pytest.mark.soak)])
def shelf(
    request: pytest.FixtureRequest, weed: Weed, proxied: Callable[[int], Proxy], bucket: str
) -> Shelf:
    return Shelf(request.param, weed, proxied(weed.port), bucket)


@pytest.fixture
def server(shelf: Shelf, launcher: Launcher, tmp_path: Path) -> Server:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: shelf.put(name, 1), shelf.urls))
    launcher.environ |= shelf.environ
    return launcher.serve(*several(tmp_path / "models.json", shelf.urls))


def test_models_side_by_side_are_listed_together(server: Server, shelf: Shelf) -> None:
    before = len(shelf.proxy.requests)
    for version in (2, 3):
        shelf.put("m7", version)
        until(lambda version=version: serves(server, version, "m7"))  # type: ignore[misc]
    # Two polls for each version at the least, and each would have listed every model by itself.
    requests = shelf.proxy.requests[before:]
    assert sum(map(is_listing_of_the_base, requests)) < MODELS
    assert sum(map(_is_of_all, requests)) >= 2


@pytest.mark.parametrize("shelf", ["s3"], indirect=True)
def test_models_that_may_be_listed_one_by_one_only_are(server: Server, shelf: Shelf) -> None:
    """Where the listing of all is refused, as by a policy for the models' own prefixes."""
    shelf.proxy.choose = lambda line: Fault(status=403) if _is_of_all(line) else Fault()
    with Load(server, list(shelf.urls)) as load:
        shelf.put("m7", 2)
        until(lambda: serves(server, 2, "m7"))
    assert load.failures == []


def _is_of_all(line: str) -> bool:
    prefix = line.partition("prefix=")[2].partition("&")[0]
    return "list-type=2" in line and "delimiter=%2F" not in line and "%2Fm" not in prefix
