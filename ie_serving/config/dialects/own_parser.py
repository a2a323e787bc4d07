"""The parser of `ie_serving {config,model,check,tune}`; values stay text."""

import argparse
from collections.abc import Sequence
from typing import NoReturn

from ie_serving.config.dialects import ovms, own_help
from ie_serving.config.dialects.own_flags import (
    CHECK,
    MODEL_COMMAND,
    ONLY_OF_CHECK,
    OWN_FLAGS,
    add_flag,
    add_others,
    version_text,
)
from ie_serving.config.schema import foreign
from ie_serving.config.schema.catalogue import SERVER
from ie_serving.core.values.commands import MEANINGS
from ie_serving.core.values.nearest import nearest


class _ShowVersions(argparse.Action):
    """Prints the versions and ends. argparse's own action would look them up at every start."""

    def __call__(self, *of_argparse: object) -> NoReturn:
        print(version_text())
        raise SystemExit(0)


class _ShowHelp(argparse.Action):
    """Prints the help of a command, or of one topic, and ends."""

    def __call__(
        self, parser: argparse.ArgumentParser, _into: object, topic: object, _flag: object = None
    ) -> NoReturn:
        command = parser.prog.rpartition(" ")[2]
        print(_of_topic(parser, command, str(topic or "")), end="")
        raise SystemExit(0)


class _ShowOverview(argparse.Action):
    """Prints all commands, or one topic's flags of `model`, which has all topics, and ends."""

    def __call__(
        self, parser: argparse.ArgumentParser, _into: object, topic: object, _flag: object = None
    ) -> NoReturn:
        if topic and topic not in MEANINGS:  # `--help status` shows all commands
            print(_of_topic(parser, MODEL_COMMAND, str(topic)), end="")
        else:
            print(own_help.overview())
        raise SystemExit(0)


def _of_topic(parser: argparse.ArgumentParser, command: str, topic: str) -> str:
    known = own_help.topics(command)
    if topic and topic not in known:
        meant = nearest(topic, known)
        parser.error(f"--help: no topic {topic!r}{meant}; expected one of {', '.join(known)}")
    return own_help.text(command, topic)


def parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Build the parser of `argv`.

    Args:
        argv: without the program's name. A command that it does not name gets no flags.
    """
    built = argparse.ArgumentParser(prog="ie_serving", add_help=False)
    built.add_argument("-h", "--help", action=_ShowOverview, nargs="?")
    built.add_argument("--version", action=_ShowVersions, nargs=0)
    commands = built.add_subparsers(dest="command", required=True)
    for name in OWN_FLAGS:
        command = commands.add_parser(name, usage=own_help.usage(name), add_help=False)
        command.add_argument("-h", "--help", action=_ShowHelp, nargs="?")
        if name in argv:  # creating a command's eighty flags takes longer than parsing them
            for setting in (*OWN_FLAGS[name], *SERVER):
                add_flag(command, setting)
            add_others(command, "", ovms.ALIASES, bare="true")
            add_others(command, "", dict.fromkeys(foreign.FLAGS, ""), bare="")
        for switch in ONLY_OF_CHECK if name == CHECK else ():
            command.add_argument(f"--{switch}", action="store_const", const=True)
    return built
