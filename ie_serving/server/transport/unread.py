"""How long what is sent may wait for a client that does not read, where its connection is alive."""

from typing import Final

UNREAD_S: Final = 75.0
"""Seconds in which a client must read some of what waits for it, as one of REST has."""
LEAST_READ: Final = 4 * 1024
"""Bytes that are some. One that reads a byte now and then would hold its place for ever."""
