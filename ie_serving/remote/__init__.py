"""Commands that ask a running server over the wire."""

from typing import Final

COMMANDS: Final = ("status", "metadata", "predict", "reload", "poll", "labels", "completion")
"""Words behind `ie_serving` that need no server in this process."""
