"""Words behind `ie_serving` by which a command begins that serves nothing."""

from typing import Final

ASKING: Final = ("status", "metadata", "predict", "reload", "poll", "labels", "completion")
"""They ask a running server, or nobody, and need none of what serves."""

BESIDE: Final = ("gen", "key", "kernel", "bridge", "verify")
"""Others that are told apart before the flags of a server are read."""
