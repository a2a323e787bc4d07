"""How long data may wait for a client that does not read, while its connection is alive."""

from typing import Final

UNREAD_S: Final = 75.0
"""Seconds in which a client has to read some waiting data, as on REST; then it is dropped."""
LEAST_READ: Final = 4 * 1024
"""Bytes that count as some data: a client that reads single bytes could stay for ever."""
