"""The commands that send requests to a running server: their flags, and their exit codes.

    ie_serving status resnet --wait --url https://models.test:8000 --ca authority.pem
    ie_serving predict --model_name resnet --file cat.jpg
    ie_serving labels set resnet stable=7

Exit codes: 0 done; 1 the server refuses; 2 wrong usage; 3 the server is unreachable; 4 `--wait` ran
out of time. Each command is a module, imported when the command is given.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from ie_serving.commands.remote import server_address
from ie_serving.commands.remote.failures import CommandFailure
from ie_serving.core.values.commands import MEANINGS


def run(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the command; print its result, or the error on standard error. Give the exit code.

    Args:
        argv: arguments without the program's name.
        environ: environment variables of the process.

    Raises:
        SystemExit: `--help`, or flags that do not belong here.
    """
    # gRPC would log the same failures in its own words; it reads this variable when imported.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    given = parser_of(argv[0]).parse_args(_expanded(argv)[1:])
    try:
        address = server_address.address_of(given, environ, warn) if "url" in given else None
        return int(module_of(argv[0]).run(given, address))  # type: ignore[attr-defined]
    except CommandFailure as failure:
        print(f"ie_serving: error: {failure}", file=sys.stderr)
        return failure.code
    except BrokenPipeError:  # such as `| head`, which has read enough
        sys.stderr.close()  # the interpreter's last flush would complain as well
        return 0


def _expanded(argv: Sequence[str]) -> Sequence[str]:
    """Take `labels MODEL` for `labels list MODEL`."""
    if argv[0] != "labels" or argv[1:2] in ([], ["list"], ["set"]) or argv[1].startswith("-"):
        return argv
    return ["labels", "list", *argv[1:]]


def module_of(command: str) -> object:
    """Import the module of a command: it has `add_flags(parser)` and `run(given, address)`."""
    return import_module(f"ie_serving.commands.remote.{command}")


def parser_of(command: str) -> argparse.ArgumentParser:
    """Give the parser of one command."""
    parser = argparse.ArgumentParser(
        prog=f"ie_serving {command}",
        description=f"{MEANINGS[command].capitalize()}." if command in MEANINGS else None,
        allow_abbrev=False,
    )
    add: Callable[[argparse.ArgumentParser], None] = module_of(command).add_flags  # type: ignore[attr-defined]
    add(parser)
    return parser


def warn(text: str) -> None:
    """Print a warning on standard error; the command goes on."""
    print(f"ie_serving: warning: {text}", file=sys.stderr)
