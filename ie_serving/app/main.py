"""Entry points of the installed commands. Each handles signals before it imports anything heavy.

Commands that only query a running server are typed by people and run by probes, so they start
quickly: they import neither numpy nor the server.

Each also opens the standard streams that its process was started without, such as by `2>&-`.
Daemons and log shippers close them. Python then has None for `sys.stderr`, and the next file or
socket that is opened gets the number 2, into which libraries and crash reports would write.
"""

from __future__ import annotations

import gc
import os
import sys

from ie_serving.core.runtime.interruption import code_of, heed
from ie_serving.core.values.commands import ASKING, HELP

TYPE_CHECKING = False  # as in `typing`, whose import would delay `heed`
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Command = Callable[[Sequence[str]], int]
    """Takes the arguments after the program's name; returns the exit code."""
BROKEN_PIPE = 141
"""Exit code of a command whose reader has gone, as shells expect: 128 and SIGPIPE. Never 0: the
command was cut short."""
FAILED = 1
"""Exit code where this machine or installation lacks what the command needs."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `ie_serving`; return its exit code."""
    given = sys.argv[1:] if argv is None else argv
    while given and given[0] == HELP:
        given = [*given[1:], "-h"]
    return _run(_remote_command if given and given[0] in ASKING else _served("main"), given)


def tensorflow_model_server() -> int:
    """Run as `tensorflow_model_server` does; return its exit code."""
    return _run(_served("tensorflow_model_server"), sys.argv[1:])


def as_other(command: str, parser: str) -> int:
    """Run as the command of another server does; see `app.command_line.as_other`."""

    def run(given: Sequence[str]) -> int:
        from ie_serving.app import command_line

        return command_line.as_other(command, parser, given)

    return _run(run, sys.argv[1:])


def _run(command: Command, given: Sequence[str]) -> int:
    open_missing()
    heed()
    return code_of(lambda: _explained(command, given))


def _explained(command: Command, given: Sequence[str]) -> int:
    """Run a command; say in one line what this machine or installation lacks for it."""
    try:
        code = command(given)
        sys.stdout.flush()  # here, where a full disk still counts
        return code
    except BrokenPipeError:  # such as `| head`, which has read enough
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())  # the interpreter flushes once more, and would complain
        return BROKEN_PIPE
    except Exception as error:
        from ie_serving.core.runtime.installation_faults import explained

        cause = explained(error)
        if not cause:
            raise
        print(f"ie_serving: error: {cause}", file=sys.stderr)
        return FAILED


def _remote_command(given: Sequence[str]) -> int:
    from ie_serving.commands.remote import run

    return run(given, os.environ)


def _served(name: str) -> Command:
    def run(given: Sequence[str]) -> int:
        gc.disable()  # the collector would visit the modules again and again as they are imported
        from ie_serving.app import command_line as commands

        gc.enable()
        command: Command = getattr(commands, name)
        return command(given)

    return run


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
