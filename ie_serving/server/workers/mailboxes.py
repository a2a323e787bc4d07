"""A mailbox for each slot: short messages between workers, each with a file descriptor or none.

The arbiter makes the sockets before it forks, so every worker inherits all of them: no name in the
file system or elsewhere by which strangers could reach one, and nothing left behind when the server
ends. A slot keeps its mailbox when its worker is replaced.
"""

import socket
from collections.abc import Iterator
from typing import NamedTuple

LONGEST = 64
"""Bytes of a message. What is longer goes over a descriptor that comes with one (`line.py`)."""


class Message(NamedTuple):
    """What has come.

    Attributes:
        words: as they were sent.
        descriptor: that came along, now the receiver's; None without one.
    """

    words: bytes
    descriptor: int | None


class Mailboxes:
    """Those of all slots. Nothing here waits."""

    def __init__(self, size: int) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(size)]
        for sender, receiver in pairs:
            sender.setblocking(False)
            receiver.setblocking(False)
        self._senders = [sender for sender, _ in pairs]
        self._receivers = [receiver for _, receiver in pairs]

    def receiver(self, slot: int) -> socket.socket:
        """Give what becomes readable when a message has come for `slot`."""
        return self._receivers[slot]

    def send(self, slot: int, words: bytes, descriptor: int | None = None) -> bool:
        """Send a message; False where the mailbox is full, which then has plenty to be read.

        The descriptor stays the sender's, who closes it.
        """
        descriptors = [] if descriptor is None else [descriptor]
        try:
            socket.send_fds(self._senders[slot], [words], descriptors)
        except OSError:  # full; or the system has no room for descriptors on their way
            return False
        return True

    def receive(self, slot: int) -> Message | None:
        """Take the next message of `slot`; None when there is none."""
        try:
            words, descriptors, _, _ = socket.recv_fds(self._receivers[slot], LONGEST, 1)
        except OSError:
            return None
        return Message(words, descriptors[0] if descriptors else None)

    def unread(self, slot: int) -> Iterator[Message]:
        """Yield what a worker that died has not read. Who iterates closes each descriptor."""
        while (message := self.receive(slot)) is not None:
            yield message
