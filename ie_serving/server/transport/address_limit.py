"""Limits the open connections of one client address, beside the limit for all addresses.

At the limit, the connection of the same address that has been idle longest is closed; if none is
idle, the new one is refused. Connections of other addresses are not affected.
"""

import logging
from ipaddress import IPv6Address
from typing import Final

from ie_serving.core.values.hints import Hint
from ie_serving.server.transport.connection_limit import QUIET_S, ConnectionLimit, Limited
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

NEVER: Final = float("-inf")
_NETWORK_BITS: Final = 64
"""Bits of an IPv6 address that name a network: providers give a client at least one network (RFC
6177), and the client chooses the other bits freely."""
_HOST_BITS: Final = 128 - _NETWORK_BITS


class AddressLimit(ConnectionLimit):
    """Also counts connections by the address of their client.

    Args of the constructor:
        most: see `ConnectionLimit`.
        most_each: connections that one address may have open.
    """

    def __init__(self, most: int, most_each: int) -> None:
        super().__init__(most)
        self._most_each = most_each
        self._of: dict[str, set[Limited]] = {}
        self._address: dict[Limited, str] = {}
        self._logged_at = NEVER

    def opened(self, connection: Limited) -> None:
        """See `ConnectionLimit`."""
        super().opened(connection)
        given = connection.address()
        if given is not None:
            address = client_of(given)
            theirs = self._of.setdefault(address, set())
            theirs.add(connection)
            self._address[connection] = address
            if len(theirs) > self._most_each:
                self._give_way(connection, address)

    def closed(self, connection: Limited) -> None:
        """See `ConnectionLimit`."""
        self._drop(connection)
        super().closed(connection)

    def _give_way(self, new: Limited, address: str) -> None:
        """Close one connection of an address: the longest idle one, or else the new one."""
        idle = [
            (since, id(each), each)
            for each in self._of[address]
            if each is not new and (since := each.idle_since()) is not None
        ]
        self._tell(address)
        leaving = min(idle)[2] if idle else new
        self._drop(leaving)  # no longer counted, although it may take a while to close
        if idle:
            leaving.end_idle()
        else:
            leaving.abort()

    def _drop(self, connection: Limited) -> None:
        address = self._address.pop(connection, None)
        if address is None:
            return
        theirs = self._of[address]
        theirs.discard(connection)
        if not theirs:
            del self._of[address]

    def _tell(self, address: str) -> None:
        now = self.now()
        if now - self._logged_at < QUIET_S:
            return
        self._logged_at = now
        advice = Hint("find out who that is, or raise {server.max_connections_per_address}")
        most = self._most_each
        log.warning(
            Event(
                "connection limit of an address reached", address=address, limit=most, advice=advice
            )
        )


def client_of(address: str) -> str:
    """Return the part of an address that names a client: of IPv6 the network of 64 bits.

    IPv4 addresses may be written as IPv6, if one socket listens for both.
    """
    if ":" not in address:
        return address
    number = IPv6Address(address.partition("%")[0])
    mapped = number.ipv4_mapped
    if mapped is not None:
        return str(mapped)
    return f"{IPv6Address(int(number) >> _HOST_BITS << _HOST_BITS)}/{_NETWORK_BITS}"


def limit_of(most: int, most_each: int) -> ConnectionLimit:
    """Return the connection limit; `most_each` is the limit of each address, 0 for none."""
    return AddressLimit(most, most_each) if most_each else ConnectionLimit(most)
