"""Spreads connections: a worker that accepts one hands it to the worker with the fewest.

All workers accept on the same sockets, which the arbiter holds, so that waiting connections outlive
any worker. The kernel gives a connection to the quickest worker, mostly the same one, which hands
the connection on before it reads a byte. A gRPC client keeps its connection for hours, so an uneven
start would stay uneven. Separate sockets (SO_REUSEPORT) spread by chance: of 16 connections, one of
two workers gets 11 or more in every fifth case.
"""

import asyncio
import errno
import math
import socket
from collections.abc import Callable, Sequence
from typing import Final

from ie_serving.core.runtime.accepted_connection import serve_accepted
from ie_serving.core.runtime.waits import Tasks
from ie_serving.server.workers.crew import NOT_ACCEPTING, PORT
from ie_serving.server.workers.member import Member

BACKLOG: Final = 2048
"""Connections that wait to be accepted, as in `server.transport.listener.BACKLOG`."""
NOTICED_S: Final = 0.05
"""Seconds within which a worker that has chosen this one for a connection has sent it: only a few
instructions lie between the two steps."""
ARRIVING_S: Final = 1.0
"""Longest wait for connections in transit, in seconds. The numbers sent and taken stay unequal if a
worker was killed between sending a connection and counting it."""
_NO_ROOM: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
PAUSE_S: Final = 1.0
"""Seconds without accepting after the system lacked resources for a connection, as in asyncio: the
socket stays readable, and the event loop would spin on it."""
AT_ONCE: Final = 32
"""Most connections accepted in one turn of the event loop."""

Connect = Callable[[], asyncio.Protocol]
Shed = Callable[[int], None]
"""Sheds connections, as in `server.transport.listener.SocketSharing`."""


def surplus(numbers: Sequence[int], slot: int) -> int:
    """Return how many connections the worker `slot` has beyond its fair share; 0 for none.

    Args:
        numbers: number of each worker's connections, or NOT_ACCEPTING.
        slot: index of a worker that accepts.
    """
    accepting = [number for number in numbers if number != NOT_ACCEPTING]
    return max(numbers[slot] - math.ceil(sum(accepting) / len(accepting)), 0)


class Spread:
    """Accepts connections and hands them over. Lives on one event loop.

    Args of the constructor:
        member: this worker.
        count: returns this worker's number of connections.
    """

    def __init__(self, member: Member, count: Callable[[], int]) -> None:
        self._member = member
        self._crew = member.crew
        self._slot = member.slot
        self._count = count
        self._making = 0  # accepted, and not counted yet
        # The key is the file number of the listening socket, which all workers have inherited.
        self._connects: dict[int, Connect] = {}
        self._accepting: set[int] = set()
        self._sheds: list[Shed] = []
        self._known: set[int] = set()
        self._is_expecting = False
        # Received for a socket on which this worker does not accept yet.
        self._early: list[tuple[int, socket.socket]] = []
        self._tasks = Tasks()
        member.take(PORT, self._take_connection)
        member.watch(self._even_out)

    def expect(self) -> None:
        """Start to receive connections from other workers; keep them until `listen`.

        Workers that start together open their ports a tenth of a second apart.
        """
        self._is_expecting = True
        self.tell()

    def may_shed(self, shed: Shed) -> None:
        """See `server.transport.listener.SocketSharing`."""
        self._sheds.append(shed)

    def listen(self, bound: socket.socket, connect: Connect) -> None:
        """Accept connections on `bound` for all workers."""
        bound.listen(BACKLOG)
        number = bound.fileno()
        self._connects[number] = connect
        self._accepting.add(number)
        self.tell()
        asyncio.get_running_loop().add_reader(number, self._accept, bound)
        for _, connection in self._early_of(number):
            self._keep(connection, connect)

    def stop(self, bound: socket.socket) -> None:
        """Accept what the kernel has queued on `bound`, then stop accepting.

        When the last worker closes the socket, the kernel resets connections that are still queued.
        Connections sent by other workers are taken until `arrived` returns.
        """
        number = bound.fileno()
        asyncio.get_running_loop().remove_reader(number)
        self._accepting.discard(number)
        self._is_expecting = False
        for _ in range(BACKLOG // AT_ONCE):
            if not self._accept(bound):
                break
        self.tell()

    async def arrived(self) -> None:
        """See `server.transport.listener.SocketSharing`."""
        loop = asyncio.get_running_loop()
        end = loop.time() + ARRIVING_S
        await asyncio.sleep(NOTICED_S)
        while self._is_awaiting() and loop.time() < end:
            await asyncio.sleep(NOTICED_S)

    def _is_awaiting(self) -> bool:
        on_the_way = self._crew.given_to(self._slot) != self._crew.taken[self._slot]
        return bool(self._making) or on_the_way

    def _early_of(self, number: int) -> list[tuple[int, socket.socket]]:
        found = [each for each in self._early if each[0] == number]
        self._early = [each for each in self._early if each[0] != number]
        return found

    def tell(self) -> None:
        """Publish this worker's number of connections."""
        is_here = self._accepting or self._is_expecting
        number = self._count() + self._making + len(self._early) if is_here else NOT_ACCEPTING
        self._crew.connections[self._slot] = number

    def _even_out(self) -> None:
        """Close connections beyond this worker's share when another worker has started.

        The clients of a dead worker reconnect to the remaining ones meanwhile, and stay there.
        """
        numbers = self._crew.connections.all()
        accepting = {slot for slot, number in enumerate(numbers) if number != NOT_ACCEPTING}
        has_come = accepting - self._known and self._known
        self._known = accepting
        if has_come and self._slot in accepting and (beyond := surplus(numbers, self._slot)):
            for shed in self._sheds:
                shed(beyond)

    def _accept(self, bound: socket.socket) -> bool:
        """Accept up to `AT_ONCE` connections; return whether more may wait."""
        for _ in range(AT_ONCE):
            try:
                connection, _ = bound.accept()
            except OSError as error:
                # Any other error: another worker was quicker, or the client has left.
                if error.errno in _NO_ROOM:
                    self._pause(bound)
                return False
            number = bound.fileno()
            if not self._handed(connection, number):
                self._keep(connection, self._connects[number])
        return True

    def _pause(self, bound: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(bound.fileno())
        loop.call_later(PAUSE_S, self._go_on, bound)

    def _go_on(self, bound: socket.socket) -> None:
        if bound.fileno() in self._accepting:  # not stopped meanwhile
            asyncio.get_running_loop().add_reader(bound.fileno(), self._accept, bound)

    def _handed(self, connection: socket.socket, number: int) -> bool:
        """Hand a connection to the worker with the fewest; False if that is this worker."""
        slot = self._idlest()
        if slot == self._slot:
            return False
        words = b"%s %d" % (PORT, number)
        if not self._crew.mailboxes.send(slot, words, connection.fileno()):
            return False
        self._crew.given[self._slot * self._crew.size + slot] += 1
        connection.close()
        return True

    def _idlest(self) -> int:
        crew = self._crew
        found, fewest = self._slot, self._count() + self._making
        for slot, number in enumerate(crew.connections.all()):
            if slot == self._slot or number == NOT_ACCEPTING or self._member.is_silent(slot):
                continue
            load = crew.load(slot)
            if load < fewest:
                found, fewest = slot, load
        return found

    def _take_connection(self, words: bytes, descriptor: int | None) -> None:
        # Lost ones count too: otherwise they would count as in transit for ever.
        self._crew.taken[self._slot] += 1
        if descriptor is None:
            return
        number = int(words.split()[1])
        connect, connection = self._connects.get(number), socket.socket(fileno=descriptor)
        if connect:
            self._keep(connection, connect)
        else:
            self._early.append((number, connection))
            self.tell()

    def _keep(self, connection: socket.socket, connect: Connect) -> None:
        self._making += 1
        self.tell()
        self._tasks.begin(self._serve_taken(connection, connect))

    async def _serve_taken(self, connection: socket.socket, connect: Connect) -> None:
        try:
            await serve_accepted(connection, connect)
        finally:
            self._making -= 1
            self.tell()
