"""Whether a file of LightGBM is whole. The library ends the process on some that were cut.

The head names the bytes of each tree (`tree_sizes`); the trees follow, then `end of trees`.
"""

import re

from ie_serving.core.values.errors import LoadFailed

_SIZES = re.compile(rb"^tree_sizes=([0-9 ]+)\r?$", re.MULTILINE)
_END = b"end of trees"


def check_whole(content: bytes, file: str) -> None:
    """Refuse a file that ends before its trees do. Raises: LoadFailed."""
    head, found, _ = content.partition(b"\nTree=0")
    if _END not in content:
        raise LoadFailed(f'{file} was cut: the line "{_END.decode()}" is missing')
    sizes = _SIZES.search(head)
    if not found or sizes is None:  # without trees, or of an old version, which reads line by line
        return
    at = len(head) + 1
    for number, size in enumerate(map(int, sizes[1].split())):
        if not content.startswith(b"Tree=%d" % number, at):
            raise LoadFailed(f"{file} is damaged: tree {number} is not where its head says")
        at += size
    if not content.startswith(_END, at):
        raise LoadFailed(f"{file} is damaged: its trees do not end where its head says")
