"""simple_tensorflow_serving: its command, configuration files and HTTP API."""

from typing import Final

from ie_serving.app.main import as_other
from ie_serving.core.compat import Additions

STFS: Final = "stfs"
"""Value of `ServerSettings.old_front` where the server is started by this command."""


def register() -> Additions:
    """See `core.compat`."""
    return Additions(
        importing=f"{__name__}.seams:translated", routes=f"{__name__}.seams:with_routes"
    )


def main() -> int:
    """Run as `simple_tensorflow_serving` and `stfs` do; return the exit code."""
    return as_other("simple_tensorflow_serving", f"{__name__}.dialect:parse")
