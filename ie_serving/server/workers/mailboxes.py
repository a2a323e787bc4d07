"""A mailbox for each slot: short messages between workers, each with a file descriptor or none.

The arbiter creates the sockets before it forks, so every worker inherits all of them. They have no
name in the file system or elsewhere by which other processes could reach them, and nothing is left
behind when the server ends. A slot keeps its mailbox when its worker is replaced.
"""

import socket
from collections.abc import Iterator
from typing import NamedTuple

LONGEST = 64
"""Most bytes of a message. Longer data goes over a descriptor sent with one (`line.py`)."""


class Message(NamedTuple):
    """A received message.

    Attributes:
        words: as sent.
        descriptor: received with it, and now the receiver's; None without one.
    """

    words: bytes
    descriptor: int | None


class Mailboxes:
    """The mailboxes of all slots. No method waits."""

    def __init__(self, size: int) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(size)]
        for sender, receiver in pairs:
            sender.setblocking(False)
            receiver.setblocking(False)
        self._senders = [sender for sender, _ in pairs]
        self._receivers = [receiver for _, receiver in pairs]

    def receiver(self, slot: int) -> socket.socket:
        """Return the socket that becomes readable when a message for `slot` has come."""
        return self._receivers[slot]

    def send(self, slot: int, words: bytes, descriptor: int | None = None) -> bool:
        """Send a message; False if the mailbox is full, so that its reader has work anyway.

        The sender keeps the descriptor and closes it.
        """
        descriptors = [] if descriptor is None else [descriptor]
        try:
            socket.send_fds(self._senders[slot], [words], descriptors)
        except OSError:  # full; or the system has too many descriptors in transit
            return False
        return True

    def receive(self, slot: int) -> Message | None:
        """Take the next message of `slot`; None if there is none."""
        try:
            words, descriptors, _, _ = socket.recv_fds(self._receivers[slot], LONGEST, 1)
        except OSError:
            return None
        return Message(words, descriptors[0] if descriptors else None)

    def unread(self, slot: int) -> Iterator[Message]:
        """Yield messages that a dead worker has not read. The caller closes each descriptor."""
        while (message := self.receive(slot)) is not None:
            yield message
