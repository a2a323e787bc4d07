"""The command `ie_serving`: what asks a server over the wire begins without what serves.

Those commands are typed by people and run by probes: they import neither numpy nor the server.
"""

import os
import sys
from collections.abc import Sequence

from ie_serving.core.commands import ASKING


def main(argv: Sequence[str] | None = None) -> int:
    """Run `ie_serving`; return its exit code."""
    given = sys.argv[1:] if argv is None else argv
    if given and given[0] in ASKING:
        from ie_serving.remote.command import run

        return run(given, os.environ)
    from ie_serving.main import main as run_all

    return run_all(argv)
