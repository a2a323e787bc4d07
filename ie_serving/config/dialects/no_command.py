"""Reports a command line of `ie_serving` without a command, and shows a valid one."""

from collections.abc import Collection, Sequence

from ie_serving.core.settings.faults import Faults
from ie_serving.core.values.commands import ASKING, BESIDE
from ie_serving.core.values.nearest import nearest

EXAMPLE = "ie_serving model --model_name resnet --model_path /models/resnet --rest_port 8000"
_ANSWERED_AT_ONCE = ("-h", "--help", "--version")


def check_command(
    argv: Sequence[str], commands: Collection[str], flags: Collection[str], faults: Faults
) -> None:
    """Note that no command is given; argparse would take the value of the first flag for one.

    Args:
        argv: without the program's name.
        commands: all commands.
        flags: of all commands, without dashes.
        faults: takes each unknown flag, and the missing command.
    """
    first = argv[0] if argv else ""
    if first in commands or any(each.startswith(first) for each in _ANSWERED_AT_ONCE if first):
        return
    known = [f"--{flag}" for flag in flags]
    for argument in argv:
        name = argument.partition("=")[0]
        if name.startswith("--") and name not in known:
            faults.add(name, f"no flag has this name{nearest(name, known)}")
    is_word = bool(first) and not first.startswith("-")
    place = f"no command {first!r}" if is_word else "no command"
    meant = nearest(first, [*commands, *ASKING, *BESIDE]) if is_word else ""
    faults.add(
        f"{place}{meant}",
        f"to ask a running server {', '.join(ASKING)}; to serve, expected {', '.join(commands)},"
        f" then its flags, for example: {EXAMPLE}",
    )
