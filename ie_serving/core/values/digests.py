"""What tells whether a file is still the one that was written."""

import zlib
from pathlib import Path

_BLOCK_BYTES = 1 << 20


def crc32_of(file: Path) -> int:
    """Read `file` and give its CRC-32.

    Against damage, not against attackers: who can write a cache can write its digests as well. It
    is computed at each start, and at 3.6 GB/s, against 1.4 GB/s of SHA-256 where the processor has
    instructions for it and 0.4 GB/s elsewhere.

    Raises:
        OSError: it cannot be read.
    """
    value = 0
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            value = zlib.crc32(block, value)
    return value
