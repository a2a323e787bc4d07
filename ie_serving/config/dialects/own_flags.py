"""The flags of `ie_serving {config,model,check,tune}`: which command has which, and their help."""

import argparse
import re
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Final, NoReturn

from ie_serving import __version__
from ie_serving.config.dialects import ovms
from ie_serving.config.schema import foreign
from ie_serving.config.schema.catalogue import (
    CONFIG_PATH,
    FOR_ALL,
    MODEL,
    MODEL_REPOSITORY,
    SERVER,
    SETTINGS,
    TUNE,
    names_in_ie_serving,
)
from ie_serving.core.settings.declaration import Setting
from ie_serving.core.settings.kinds import BOOLEAN, NAMES, PLACES

CONFIG, MODEL_COMMAND, CHECK, TUNE_COMMAND = "config", "model", "check", "tune"
JSON = "json"
LENIENT = "lenient"
ONLY_OF_CHECK: Mapping[str, str] = {
    JSON: "for programs",
    LENIENT: "only warn of settings without effect and of an expired certificate",
}
"""Switches of `check`, which are not settings, with their help."""

OWN_FLAGS: Mapping[str, tuple[Setting, ...]] = {
    CONFIG: (CONFIG_PATH, MODEL_REPOSITORY, *FOR_ALL),
    MODEL_COMMAND: tuple(setting for setting in MODEL if setting.flag),
    CHECK: (CONFIG_PATH, MODEL_REPOSITORY, *(setting for setting in MODEL if setting.flag)),
    TUNE_COMMAND: (CONFIG_PATH, *TUNE, *(setting for setting in MODEL if setting.flag)),
}
"""By command: settings whose flags only it takes; all commands take those of `SERVER`. `check` and
`tune` count as `config` or `model`, as their flags decide."""


def names(command: str) -> dict[str, str]:
    """Give the name of each setting in `config` or `model`, for `core.values.hints`."""
    return names_in_ie_serving((*OWN_FLAGS[command], *SERVER))


def version_text() -> str:
    """Give the versions of the server and of OpenVINO, without importing the latter."""
    try:
        return f"ie_serving {__version__}\nOpenVINO {metadata.version('openvino')}"
    except metadata.PackageNotFoundError:
        return f"ie_serving {__version__}\nOpenVINO is not installed"


class _ShowVersions(argparse.Action):
    """Prints the versions and ends. argparse's own action would look them up at every start."""

    def __call__(self, *of_argparse: object) -> NoReturn:
        print(version_text())
        raise SystemExit(0)


class _Joined(argparse.Action):
    """Takes a flag of names that stands several times, as Triton's `--load-model` may."""

    def __call__(
        self, _parser: object, into: argparse.Namespace, value: object, _flag: object = None
    ) -> None:
        before = getattr(into, self.dest)
        setattr(into, self.dest, f"{before},{value}" if before else value)


def with_underscores(argv: Sequence[str]) -> list[str]:
    """Spell flags as ours are, where they come as Triton's are: `--load-model`."""
    return [_DASHED.sub(_underscored, each) for each in argv]


_DASHED: Final = re.compile(r"^--([a-z]+(?:-[a-z0-9]+)+)(?=$|=)")


def _underscored(flag: re.Match[str]) -> str:
    return flag[0] if flag[1] in foreign.REFUSED_FLAGS else "--" + flag[1].replace("-", "_")


def parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Build the parser of `argv`. Values stay text, which the settings' own parsers read later.

    Args:
        argv: without the program's name. A command that it does not name gets no flags.
    """
    built = argparse.ArgumentParser(
        prog="ie_serving",
        description="Serve models over the TensorFlow Serving API (gRPC and REST) with OpenVINO.",
        epilog=f"{_WITHOUT_A_COMMAND}\n\n{_variables_text()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    built.add_argument("--version", action=_ShowVersions, nargs=0, help="show versions and exit")
    commands = built.add_subparsers(
        dest="command", required=True, metavar="{config,model,check,tune}"
    )
    for name, meaning in (
        (CONFIG, "serve the models of a configuration file, or of a directory"),
        (MODEL_COMMAND, "serve one model"),
        (CHECK, "say what of a model, or of a file's models, would be served, and by what"),
        (TUNE_COMMAND, "measure which settings of one model win on this machine, and print them"),
    ):
        command = commands.add_parser(name, help=meaning)
        if name in argv:  # creating a command's eighty flags takes longer than parsing them
            _add_flags(command, name)
        for switch, text in ONLY_OF_CHECK.items() if name == CHECK else ():
            command.add_argument(f"--{switch}", action="store_const", const=True, help=text)
    return built


def _add_flags(command: argparse.ArgumentParser, name: str) -> None:
    for setting in OWN_FLAGS[name]:
        _add_flag(command, setting)
    _add_server_flags(command, names(name))


def _add_server_flags(parser: argparse.ArgumentParser, called: Mapping[str, str]) -> None:
    server = parser.add_argument_group("server")
    for setting in SERVER:
        _add_flag(server, setting)
    dead = {name: advice.said(called) for name, advice in foreign.FLAGS.items()}
    _add_others(parser, "for users of OpenVINO Model Server", ovms.ALIASES, bare="true")
    _add_others(parser, "accepted without effect", dead, bare="")


def _add_others(
    parser: argparse.ArgumentParser, title: str, texts: Mapping[str, str], *, bare: str
) -> None:
    """Add a group of flags that may stand without a value, then meaning `bare`."""
    group = parser.add_argument_group(title)
    for name, text in texts.items():
        group.add_argument(f"--{name}", nargs="?", const=bare, metavar="VALUE", help=text)


def _add_flag(group: "argparse.ArgumentParser | argparse._ArgumentGroup", setting: Setting) -> None:
    flag, metavar, text = f"--{setting.flag}", setting.form, setting.help
    if setting.form == BOOLEAN.form:
        # As in TensorFlow Serving: bare, or with a value.
        group.add_argument(flag, nargs="?", const="true", metavar=metavar, help=text)
    elif setting.form in (NAMES.form, PLACES):
        group.add_argument(flag, action=_Joined, metavar=metavar, help=text)
    else:
        group.add_argument(flag, metavar=metavar, help=text)


_WITHOUT_A_COMMAND = """without one of these words:
  --config_path, --model_repository and --model_path tell config from model
  --list_models, --add_to_config, --remove_from_config: list the models of a repository, or change
    the configuration file, and end; with --help they say more

serve is what Amazon SageMaker starts: everything comes by the environment (docs/guide/sagemaker.md)

gen client and gen request print a program, or a request, for a model that a server serves;
    ie_serving gen client --help says more

config import FILE prints a configuration of another server as one of ours: Konduit Serving's,
    simple_tensorflow_serving's, pipelines of OpenVINO Model Server, a repository of Triton

key new NAME and key password NAME print credentials for --api_key_file; ie_serving key --help says
    more

kernel run DIR runs a kernel on one request without a server; ie_serving kernel run --help says
    more

status, metadata, predict, reload, poll and labels ask a running server; completion prints what
    completes all these words in a shell; ie_serving status --help says more"""


def _variables_text() -> str:
    lines = ["environment, where the flag is not given:"]
    for setting in SETTINGS:
        if setting.variables:
            meaning = f"as --{setting.flag}" if setting.flag else setting.meaning
            lines.append(f"  {', '.join(setting.variables)}: {meaning}")
    return "\n".join(lines)


def known_flags(command: str) -> list[str]:
    """Name every flag of `config` or `model`, without dashes."""
    flags = [setting.flag for setting in (*OWN_FLAGS[command], *SERVER)]
    return [*flags, *ovms.ALIASES, *foreign.FLAGS]
