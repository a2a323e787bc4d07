"""Opens the standard streams that a process was started without, such as by `2>&-`.

Daemons and log shippers close them. Python then has None for `sys.stderr`, and the next file or
socket that is opened gets the number 2, into which libraries and crash reports would write.
"""

import os
import sys

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
"""Name and mode of each, by its descriptor."""


def open_missing() -> None:
    """Open the null device in place of each standard stream that is closed; before other files."""
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
            stream = open(number, mode, closefd=False)  # noqa: SIM115 (for the life of the process)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
