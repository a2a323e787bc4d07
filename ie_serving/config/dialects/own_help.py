"""The parser of `ie_serving {config,model,check,tune}`, and the help, printed from the settings."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NoReturn

from ie_serving.config.dialects import ovms
from ie_serving.config.dialects.own_flags import (
    CHECK,
    CONFIG,
    MODEL_COMMAND,
    ONLY_OF_CHECK,
    OWN_FLAGS,
    TUNE_COMMAND,
    add_flag,
    add_others,
    names,
    version_text,
)
from ie_serving.config.schema import foreign
from ie_serving.config.schema.catalogue import SERVER, SETTINGS, TOPICS
from ie_serving.core.settings.declaration import Setting
from ie_serving.core.values.commands import GROUPS, MEANINGS
from ie_serving.core.values.hints import nearest

ALL, FOREIGN, ENVIRONMENT = "all", "openvino-model-server", "environment"
_OTHERS: Final = {
    FOREIGN: "flags of OpenVINO Model Server",
    ENVIRONMENT: "variables, used where the flag is not given",
    ALL: "every topic",
}
_USAGE: Final = {
    CONFIG: "--config_path FILE",
    MODEL_COMMAND: "--model_name NAME --model_path PATH",
    CHECK: "{--config_path FILE | --model_path PATH}",
    TUNE_COMMAND: "{--config_path FILE | --model_path PATH}",
}


def usage(command: str) -> str:
    """Give the line of a command's usage, without the flags that can be left out."""
    return f"ie_serving {command} {_USAGE[command]} [FLAGS]"


def overview() -> str:
    """List all commands by group, and what stands without one."""
    lines = ["usage: ie_serving COMMAND [FLAGS]", ""]
    lines += [
        "Serve models over TensorFlow Serving's API and the Open Inference Protocol, gRPC and"
    ]
    lines += ["REST, with OpenVINO.", ""]
    for title, commands in GROUPS.items():
        lines += [f"{title}:", *_columns(commands.items()), ""]
    return "\n".join([*lines, _WITHOUT_A_COMMAND])


def topics(command: str) -> list[str]:
    """Name the topics of a command's help."""
    used = {setting.topic for setting in _settings(command)}
    return [*(topic for topic in TOPICS if topic in used), *_OTHERS]


def text(command: str, topic: str = "") -> str:
    """Give the help of a command: its common flags and its topics, or the flags of one topic.

    Args:
        command: one of `OWN_FLAGS`.
        topic: one of `topics`, or empty.
    """
    made = argparse.ArgumentParser(
        usage=usage(command),
        description=f"{MEANINGS[command].capitalize()}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    if topic:
        for each in topics(command)[:-1] if topic == ALL else [topic]:
            _add_topic(made, command, each)
    else:
        common = made.add_argument_group("common flags")
        for setting in _settings(command):
            if setting.is_common:
                add_flag(common, setting)
    for switch, meaning in ONLY_OF_CHECK.items() if command == CHECK else ():
        made.add_argument(f"--{switch}", action="store_true", help=meaning)
    if not topic:
        made.epilog = "\n".join(["more flags:", *_columns(_shown_topics(command))])
    return made.format_help()


def _settings(command: str) -> tuple[Setting, ...]:
    return (*OWN_FLAGS[command], *SERVER)


def _shown_topics(command: str) -> Iterator[tuple[str, str]]:
    meanings = {**TOPICS, **_OTHERS}
    return ((f"--help={topic}", meanings[topic]) for topic in topics(command))


def _add_topic(made: argparse.ArgumentParser, command: str, topic: str) -> None:
    if topic == FOREIGN:
        dead = {name: advice.said(names(command)) for name, advice in foreign.FLAGS.items()}
        add_others(made, f"{topic}: {_OTHERS[topic]}", ovms.ALIASES, bare="true")
        add_others(made, f"{topic}: accepted without effect", dead, bare="")
    elif topic == ENVIRONMENT:
        made.epilog = "\n".join([f"{topic}: {_OTHERS[topic]}", *_variables()])
    else:
        group = made.add_argument_group(f"{topic}: {TOPICS[topic]}")
        for setting in _settings(command):
            if setting.topic == topic:
                add_flag(group, setting)


def _variables() -> Iterator[str]:
    for setting in SETTINGS:
        if setting.variables:
            meaning = f"as --{setting.flag}" if setting.flag else setting.meaning
            yield f"  {', '.join(setting.variables)}: {meaning}"


def _columns(rows: Iterable[tuple[str, str]]) -> list[str]:
    listed = [*rows]
    width = max(len(name) for name, _ in listed)
    return [f"  {name:{width}}  {meaning}" for name, meaning in listed]


_WITHOUT_A_COMMAND: Final = """without a command:
  --config_path FILE and --model_path PATH serve as OpenVINO Model Server does
  --list_models, --add_to_config, --remove_from_config: list the models of a repository, or change
    the configuration file, and end
  --help and --version

serve is what Amazon SageMaker starts: everything comes by the environment (docs/guide/sagemaker.md)

ie_serving COMMAND --help shows the flags of a command."""


class _VersionsAction(argparse.Action):
    """Prints the versions and ends. argparse's own action would look them up at every start."""

    def __call__(self, *of_argparse: object) -> NoReturn:
        print(version_text())
        raise SystemExit(0)


class _HelpAction(argparse.Action):
    """Prints the help of a command, or of one topic, and ends."""

    def __call__(
        self, parser: argparse.ArgumentParser, _into: object, topic: object, _flag: object = None
    ) -> NoReturn:
        command = parser.prog.rpartition(" ")[2]
        print(_of_topic(parser, command, str(topic or "")), end="")
        raise SystemExit(0)


class _OverviewAction(argparse.Action):
    """Prints all commands, or one topic's flags of `model`, which has all topics, and ends."""

    def __call__(
        self, parser: argparse.ArgumentParser, _into: object, topic: object, _flag: object = None
    ) -> NoReturn:
        if topic and topic not in MEANINGS:  # `--help status` shows all commands
            print(_of_topic(parser, MODEL_COMMAND, str(topic)), end="")
        else:
            print(overview())
        raise SystemExit(0)


def _of_topic(parser: argparse.ArgumentParser, command: str, topic: str) -> str:
    known = topics(command)
    if topic and topic not in known:
        meant = nearest(topic, known)
        parser.error(f"--help: no topic {topic!r}{meant}; expected one of {', '.join(known)}")
    return text(command, topic)


def parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Build the parser of `argv`; values stay text.

    Args:
        argv: arguments without the program's name. A command that it does not name gets no flags.
    """
    built = argparse.ArgumentParser(prog="ie_serving", add_help=False)
    built.add_argument("-h", "--help", action=_OverviewAction, nargs="?")
    built.add_argument("--version", action=_VersionsAction, nargs=0)
    commands = built.add_subparsers(dest="command", required=True)
    for name in OWN_FLAGS:
        command = commands.add_parser(name, usage=usage(name), add_help=False)
        command.add_argument("-h", "--help", action=_HelpAction, nargs="?")
        if name in argv:  # creating a command's eighty flags takes longer than parsing them
            for setting in (*OWN_FLAGS[name], *SERVER):
                add_flag(command, setting)
            add_others(command, "", ovms.ALIASES, bare="true")
            add_others(command, "", dict.fromkeys(foreign.FLAGS, ""), bare="")
        for switch in ONLY_OF_CHECK if name == CHECK else ():
            command.add_argument(f"--{switch}", action="store_const", const=True)
    return built
