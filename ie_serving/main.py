"""Entry points of the installed commands. Each handles signals before it imports anything heavy.

Commands that only query a running server are typed by people and run by probes, so they start
quickly: they import neither numpy nor the server.
"""

import os
import sys
from collections.abc import Callable, Sequence

from ie_serving.core.runtime.interruption import code_of, heed
from ie_serving.core.runtime.standard_streams import open_missing
from ie_serving.core.values.commands import ASKING, HELP

Command = Callable[[Sequence[str]], int]
"""Takes the arguments after the program's name; returns the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `ie_serving`; return its exit code."""
    given = sys.argv[1:] if argv is None else argv
    while given and given[0] == HELP:
        given = [*given[1:], "-h"]
    return _run(_asked if given and given[0] in ASKING else _served("main"), given)


def tensorflow_model_server() -> int:
    """Run as `tensorflow_model_server` does; return its exit code."""
    return _run(_served("tensorflow_model_server"), sys.argv[1:])


def as_other(command: str, place: str) -> int:
    """Run as the command of another server does; see `app.command_line.as_other`."""

    def run(given: Sequence[str]) -> int:
        from ie_serving.app import command_line

        return command_line.as_other(command, place, given)

    return _run(run, sys.argv[1:])


def _run(command: Command, given: Sequence[str]) -> int:
    open_missing()
    heed()
    return code_of(lambda: command(given))


def _asked(given: Sequence[str]) -> int:
    from ie_serving.commands.remote.command import run

    return run(given, os.environ)


def _served(name: str) -> Command:
    def run(given: Sequence[str]) -> int:
        from ie_serving.app import command_line as commands

        command: Command = getattr(commands, name)
        return command(given)

    return run
