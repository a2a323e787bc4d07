"""The flags of `ie_serving {config,model,check,tune}`: which command has which."""

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Final

from ie_serving import __version__
from ie_serving.config.dialects import ovms
from ie_serving.config.schema import foreign
from ie_serving.config.schema.catalogue import (
    CONFIG_PATH,
    FOR_ALL,
    MODEL,
    MODEL_REPOSITORY,
    SERVER,
    TUNE,
    names_in_ie_serving,
)
from ie_serving.core.settings.declaration import BOOLEAN, NAMES, PLACES, Setting
from ie_serving.core.values.errors import ConfigError

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
"""Settings whose flags only one command takes, by command; all commands take those of `SERVER`.
`check` and `tune` count as `config` or `model`, as their flags decide."""


def names(command: str) -> dict[str, str]:
    """Give the name of each setting in `config` or `model`, for `core.values.hints`."""
    return names_in_ie_serving((*OWN_FLAGS[command], *SERVER))


def version_text(more: Sequence[str] = ()) -> str:
    """Give the versions of the server and of OpenVINO, without importing the latter.

    Raises:
        ConfigError: `more` has a word beside the command other than `-h` or `--help`.
    """
    if more and more[0] not in ("-h", "--help"):
        raise ConfigError(
            [f"{more[0]}: unknown argument of ie_serving version, which takes none: leave it out"]
        )
    from importlib import metadata  # here: it takes 8 ms

    try:
        return f"ie_serving {__version__}\nOpenVINO {metadata.version('openvino')}"
    except metadata.PackageNotFoundError:
        return f"ie_serving {__version__}\nOpenVINO is not installed"


class _NamesAction(argparse.Action):
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


def add_others(
    parser: argparse.ArgumentParser, title: str, texts: Mapping[str, str], *, bare: str
) -> None:
    """Add a group of flags that may stand without a value, then meaning `bare`."""
    group = parser.add_argument_group(title)
    for name, text in texts.items():
        group.add_argument(f"--{name}", nargs="?", const=bare, metavar="VALUE", help=text)


def add_flag(group: "argparse.ArgumentParser | argparse._ArgumentGroup", setting: Setting) -> None:
    """Add the flag of a setting, with its help. Values stay text."""
    flag, metavar, text = f"--{setting.flag}", setting.form, setting.help
    if setting.form == BOOLEAN.form:
        # A flag is given bare or with a value, as in TensorFlow Serving.
        group.add_argument(flag, nargs="?", const="true", metavar=metavar, help=text)
    elif setting.form in (NAMES.form, PLACES):
        group.add_argument(flag, action=_NamesAction, metavar=metavar, help=text)
    else:
        group.add_argument(flag, metavar=metavar, help=text)


def known_flags(command: str) -> list[str]:
    """Name every flag of `config` or `model`, without dashes."""
    flags = [setting.flag for setting in (*OWN_FLAGS[command], *SERVER)]
    return [*flags, *ovms.ALIASES, *foreign.FLAGS]
