"""`ie_serving completion SHELL`: prints a completion script for `ie_serving` in a shell.

The script contains all words, taken from the parsers, so the Tab key starts no process.
"""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

from ie_serving.commands.remote import parser_of
from ie_serving.commands.remote.server_address import ServerAddress
from ie_serving.core.values.commands import ASKING, HELP, MEANINGS, VERSION

SHELLS: Final = ("bash", "zsh", "fish")


@dataclass
class Words:
    """The words that may follow a command.

    Attributes:
        first: words directly after the command.
        flags: each with its values, if it has a fixed list.
    """

    first: Sequence[str] = ()
    flags: dict[str, Sequence[str]] = field(default_factory=dict)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command."""
    parser.add_argument("shell", choices=SHELLS)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "bash:  source <(ie_serving completion bash)\n"
        "zsh:   source <(ie_serving completion zsh)\n"
        "fish:  ie_serving completion fish | source"
    )


def run(given: argparse.Namespace, _: ServerAddress | None) -> int:
    """Print the script."""
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[given.shell](_words()), end="")
    return 0


def _words() -> Mapping[str, Words]:
    # Imported here: settings take 0.1 s to import, and the other commands do not need them.
    from ie_serving.config.dialects import bridge, kernel_run, keys, own_flags, verify
    from ie_serving.config.schema.catalogue import SERVER

    others = {"key": keys, "kernel": kernel_run, "bridge": bridge, "verify": verify}
    found = {name: _words_of(parser_of(name)) for name in ASKING}
    found |= {name: _words_of(module.parser()) for name, module in others.items()}
    for name, own in own_flags.OWN_FLAGS.items():
        flags = (setting.flag for setting in (*own, *SERVER))
        found[name] = Words(flags={f"--{flag}": () for flag in flags})
    found["config"].first = ("import",)
    found |= {VERSION: Words(), HELP: Words(first=(*found, VERSION))}
    found["check"].flags |= {f"--{switch}": () for switch in own_flags.ONLY_OF_CHECK}
    return found


def _words_of(parser: argparse.ArgumentParser) -> Words:
    words = Words()
    for action in parser._actions:
        choices: Any = action.choices
        if isinstance(action, argparse._SubParsersAction):
            words.first = (*choices,)
            for inner in choices.values():
                words.flags |= _words_of(inner).flags
        elif not action.option_strings:
            words.first = (*words.first, *map(str, choices or ()))
        for flag in action.option_strings:
            if flag.startswith("--"):
                words.flags[flag] = tuple(map(str, choices or ()))
    return words


def _bash(found: Mapping[str, Words]) -> str:
    values = {
        f'"{name} {flag}"': choices
        for name, words in found.items()
        for flag, choices in words.flags.items()
        if choices
    }
    flags = {name: tuple(words.flags) for name, words in found.items()}
    first = {name: words.first for name, words in found.items() if words.first}
    written = {
        "commands": " ".join(sorted(found)),
        "values": _cases(values, 12),
        "flags": _cases(flags, 16),
        "first": _cases(first, 16),
    }
    text = files(__package__).joinpath("completion.bash").read_text("utf-8")
    return re.sub("@([a-z]+)@", lambda match: written[match[1]], text)


def _cases(table: Mapping[str, Sequence[str]], indent: int) -> str:
    return "\n".join(
        f'{" " * indent}{key}) words="{" ".join(words)}" ;;' for key, words in table.items()
    )


def _zsh(found: Mapping[str, Words]) -> str:
    # zsh runs completions of bash; only `mapfile` is missing there.
    begin = "autoload -U +X bashcompinit && bashcompinit\n"
    script = _bash(found).replace("completion bash", "completion zsh")
    read = "mapfile -t COMPREPLY < <(compgen"
    assert read in script
    return begin + re.sub(
        rf"{re.escape(read)} (.*)\)", r'COMPREPLY=( ${(f)"$(compgen \1)"} )', script
    )


def _fish(found: Mapping[str, Words]) -> str:
    return "\n".join(["# Made by `ie_serving completion fish`.", *_fish_lines(found), ""])


def _fish_lines(found: Mapping[str, Words]) -> Iterator[str]:
    first = {name.partition(" ")[0]: meaning for name, meaning in reversed(MEANINGS.items())}
    for name, meaning in sorted(first.items()):
        yield f'complete -c ie_serving -n __fish_use_subcommand -f -a {name} -d "{meaning}"'
    for name, words in found.items():
        given = f'-n "__fish_seen_subcommand_from {name}"'
        if words.first:
            yield f'complete -c ie_serving {given} -f -a "{" ".join(words.first)}"'
        for flag, choices in words.flags.items():
            values = f' -x -a "{" ".join(choices)}"' if choices else ""
            yield f"complete -c ie_serving {given} -l {flag.removeprefix('--')}{values}"
