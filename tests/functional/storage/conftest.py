"""One server of each kind for these tests, and a bucket or folder of its own for each test.

One handler sees every log line at every level, to search them for secrets.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
import trustme

from tests.functional.storage.repositories import BUCKET, s3_admin
from tests.functional.storage.servers import SECRET, Azurite, FakeGcs, Proxy, Weed
from tests.functional.storage.serving import Launcher
from tests.process import free_ports

_NUMBERS = count(1)


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture(autouse=True)
def log_without_secrets(capfd: pytest.CaptureFixture[str]) -> Iterator[list[str]]:
    """Every test of this directory: no secret in a log line at DEBUG, on stdout or on stderr."""
    collector = _Collector()
    root = logging.getLogger()
    before = root.level
    root.addHandler(collector)
    root.setLevel(logging.DEBUG)
    try:
        yield collector.lines
    finally:
        root.setLevel(before)
        root.removeHandler(collector)
    printed = capfd.readouterr()
    leaks = [line for line in (*collector.lines, printed.out, printed.err) if SECRET in line]
    assert leaks == []


@pytest.fixture(scope="package")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weed]:
    with Weed(tmp_path_factory.mktemp("weed")) as server:
        s3_admin(server).create_bucket(Bucket=BUCKET)
        yield server


@pytest.fixture(scope="package")
def fake_gcs() -> Iterator[FakeGcs]:
    with FakeGcs() as server:
        yield server


@pytest.fixture(scope="package")
def azurite() -> Iterator[Azurite]:
    with Azurite() as server:
        yield server


@pytest.fixture(scope="package")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Files of an own CA, and of a server's certificate and key."""
    directory = tmp_path_factory.mktemp("tls")
    ca, certificate, key = (directory / name for name in ("ca.pem", "server.pem", "server.key"))
    made = trustme.CA()
    made.cert_pem.write_to_path(str(ca))
    server = made.issue_cert("127.0.0.1", "localhost")
    for blob in server.cert_chain_pems:
        blob.write_to_path(str(certificate), append=True)
    server.private_key_pem.write_to_path(str(key))
    return ca, certificate, key


@pytest.fixture(scope="package")
def proxy_ports() -> dict[tuple[int, int], int]:
    """Where the proxies of each test listen, by the port behind them and their place.

    The same for all tests: for a new address boto3 makes a new client, which takes 0.15 s of
    processor time.
    """
    return {}


@pytest.fixture
def proxied(proxy_ports: dict[tuple[int, int], int]) -> Iterator[Callable[[int], Proxy]]:
    """Puts a proxy in front of a port, until the test ends."""
    opened: list[Proxy] = []

    def open_proxy(port: int) -> Proxy:
        key = port, len(opened)
        own_port = proxy_ports.get(key) or proxy_ports.setdefault(key, free_ports(1)[0])
        opened.append(Proxy(port, own_port=own_port).__enter__())
        return opened[-1]

    yield open_proxy
    for proxy in opened:
        proxy.__exit__()


@pytest.fixture
def bucket() -> str:
    """A name that no other test uses."""
    return f"models-{next(_NUMBERS)}"


@pytest.fixture
def cache_dir(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def launcher(cache_dir: Path) -> Iterator[Launcher]:
    """Servers of this test."""
    with closing(Launcher(cache_dir)) as launched:
        yield launched
