"""Ports are bound before they are listened on, and taken ones are found."""

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from threading import Timer

import pytest

from ie_serving.config.settings import ServerSettings
from ie_serving.server.process.ports import (
    BOTH,
    GRPC,
    REST,
    PortError,
    PortSockets,
    answering,
    bind,
    path_of,
    port_of,
)
from ie_serving.server.transport.grpc.grpcio_server import spelled
from ie_serving.server.transport.listener import allow_listening
from tests.process import free_ports
from tests.tables import named_by


def free_port() -> int:
    (port,) = free_ports(1)
    return port


@contextmanager
def bound(**settings: object) -> Iterator[PortSockets]:
    ports = bind(ServerSettings(**settings))  # type: ignore[arg-type]
    try:
        yield ports
    finally:
        for held in chain.from_iterable(ports.values()):
            held.close()


def connects(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(10)
        result = client.connect_ex(("127.0.0.1", port))
    assert result in (0, errno.ECONNREFUSED)
    return result == 0


def test_a_bound_port_refuses_until_it_listens() -> None:
    port, rest_port = free_port(), free_port()
    with bound(port=port, rest_port=rest_port) as ports:
        assert not connects(port)
        assert not connects(rest_port)
        allow_listening(ports[REST][0])
        ports[REST][0].listen()
        assert connects(rest_port)


def test_the_reservation_takes_no_connection_from_a_workers_socket() -> None:
    """Every one of many connections reaches the socket that listens."""
    port = free_port()
    with bound(port=port), socket.socket() as worker:
        worker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        worker.bind(("127.0.0.1", port))
        worker.listen(100)
        worker.settimeout(10)
        for _ in range(100):
            assert connects(port)
            worker.accept()[0].close()


@pytest.mark.parametrize("interface", ["port", "rest_port"])
def test_two_servers_do_not_share_a_port_before_either_listens(interface: str) -> None:
    ports = {"port": free_port(), "rest_port": free_port()}
    others = {"port": free_port(), "rest_port": free_port(), interface: ports[interface]}
    with bound(**ports), pytest.raises(PortError, match=f"port {ports[interface]}: Address al"):
        bind(ServerSettings(**others))


def test_a_port_that_a_killed_server_is_about_to_close_is_waited_for() -> None:
    port = free_port()
    with ExitStack() as dying:
        dying.enter_context(bound(port=port, rest_port=0))
        closing = Timer(0.2, dying.close)
        closing.start()
        with bound(port=port, rest_port=0) as ports:
            assert GRPC in ports
        closing.join()


def test_one_port_for_both_interfaces_is_bound_once() -> None:
    port = free_port()
    with bound(port=port, rest_port=port) as ports:
        assert list(ports) == [BOTH]
        assert answering(ports, REST) == answering(ports, GRPC) == ports[BOTH]
        with pytest.raises(PortError, match=f"gRPC and REST port {port}: Address already"):
            bind(ServerSettings(port=port, rest_port=port))


def test_one_number_at_two_addresses_is_two_ports() -> None:
    port = free_port()
    with bound(port=port, rest_port=port, rest_host="127.0.0.2", grpc_host="127.0.0.1") as ports:
        assert ports.keys() == {REST, GRPC}


def test_unix_sockets_stay_those_of_one_interface(tmp_path: Path) -> None:
    port, path = free_port(), str(tmp_path / "rest.sock")
    with bound(port=port, rest_port=port, rest_socket_path=path) as ports:
        assert ports.keys() == {BOTH, REST}
        assert path_of(answering(ports, REST)) == path
        assert path_of(answering(ports, GRPC)) is None


def test_nothing_stays_bound_after_a_conflict() -> None:
    port, rest_port = free_port(), free_port()
    with bound(port=port, rest_port=0), pytest.raises(PortError):
        bind(ServerSettings(port=port, rest_port=rest_port))
    with bound(port=port, rest_port=rest_port):
        pass


@named_by(
    "host",
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1:{}"),
        ("::1", "[::1]:{}"),
        ("", "[::]:{}"),
        ("0.0.0.0", "0.0.0.0:{}"),
    ],
)
def test_addresses_are_spelled_for_the_grpc_library(host: str, address: str) -> None:
    if ":" in address[:4] and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    port = free_port()
    with bound(host=host, port=port) as ports:
        assert list(map(spelled, ports[GRPC])) == [address.format(port)]


def test_a_name_is_bound_on_each_of_its_addresses_that_is_here() -> None:
    port = free_port()
    with bound(host="localhost", port=port) as ports:
        assert f"127.0.0.1:{port}" in map(spelled, ports[GRPC])


def test_a_name_that_does_not_resolve_is_refused() -> None:
    with pytest.raises(PortError, match=r'host "no-such-host\.invalid" cannot be resolved'):
        bind(ServerSettings(host="no-such-host.invalid", port=free_port()))


def test_a_port_that_a_predecessor_has_bound_is_taken_as_it_is(tmp_path: Path) -> None:
    """What is at the same address; the rest is closed, and what is new is bound."""
    path = str(tmp_path / "grpc.sock")
    first = {"port": free_port(), "rest_port": free_port()}
    with bound(**first, grpc_socket_path=path) as ports:
        every = [each for sockets in ports.values() for each in sockets]
        for each in every:
            allow_listening(each)
            each.listen()
        copies = [each.dup() for each in every]
        new = {**first, "rest_port": free_port()}
        taken = bind(ServerSettings(**new, grpc_socket_path=path), copies)
        try:
            assert set(taken[GRPC]) < set(copies)
            assert port_of(taken[REST]) == new["rest_port"]
            (rest,) = set(copies) - set(taken[GRPC])
            assert rest.fileno() == -1
        finally:
            for held in chain.from_iterable(taken.values()):
                held.close()


def test_ports_that_are_off_bind_nothing() -> None:
    assert bind(ServerSettings(port=0, rest_port=0)) == {}
