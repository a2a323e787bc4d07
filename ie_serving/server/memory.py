"""Keeps freed memory in the process, so that large messages do not pay for fresh pages each time.

glibc serves blocks above a threshold from the kernel and gives them back at once: a 4 MB request
then costs thousands of page faults. What versions leave behind is still given back, when they are
unloaded (`engines/openvino`).
"""

import ctypes

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
LARGEST_KEPT_BYTES = 32 << 20
"""The most that glibc takes as a threshold on 64-bit machines. Source: mallopt(3)."""
MOST_FREE_BYTES = 128 << 20
"""Free memory at the top of the heap above this goes back to the kernel."""


def keep_freed_memory() -> None:
    """Raise glibc's thresholds; on another C library nothing happens."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    mallopt(_M_MMAP_THRESHOLD, LARGEST_KEPT_BYTES)
    mallopt(_M_TRIM_THRESHOLD, MOST_FREE_BYTES)
