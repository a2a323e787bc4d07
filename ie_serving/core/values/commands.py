"""First words of the `ie_serving` commands that do not serve."""

ASKING = ("status", "metadata", "predict", "reload", "poll", "labels", "completion")
"""Commands that query a running server, or no server, and need no module of the server."""

BESIDE = ("gen", "key", "kernel", "bridge", "verify")
"""Other commands that are recognised before the flags of a server are parsed."""
