"""The commands of `ie_serving`, in the groups in which help lists them."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, whose import would delay `heed` (`main.py`)
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "serve": {
        "model": "serve one model",
        "config": "serve the models of a configuration file, or of a directory",
    },
    "before serving": {
        "check": "say what would be served, and by what, or why not",
        "tune": "measure which settings of one model win on this machine, and print them",
        "verify": "compare a version with the framework that made it",
        "kernel run": "run a kernel on one request without a server",
        "config import": "print another server's configuration as one of ie_serving",
        "key new": "make an API key, and the line of its hash for the file of keys",
        "key password": "read a password, and print the line of its hash",
    },
    "ask a running server": {
        "status": "show models, versions, their states with causes, labels and memory",
        "metadata": "show the signatures of a model",
        "predict": "ask a model by a file: JSON, .npy, .npz, CSV or an image",
        "replay": "send recorded requests again, and compare the answers",
        "reload": "let the server read its configuration and repositories, or give it another one",
        "poll": "let the server list the repository of a model now",
        "labels": "show the labels of a model, or set them",
        "gen client": "print a client program for a model, in one of several languages",
        "gen request": "print the body of a request to a model",
        "bridge mqtt": "take messages of an MQTT broker to a model",
    },
    "other": {
        "completion": "print what completes these commands in bash, zsh or fish",
        "version": "print the versions of ie_serving and of OpenVINO",
        "help": "show the help of a command: ie_serving help status",
    },
}

MEANINGS: Final = {name: text for group in GROUPS.values() for name, text in group.items()}

ASKING: Final = (
    *("status", "metadata", "predict", "replay", "reload", "poll", "labels", "gen"),
    "completion",
)
"""Commands that query a running server, or no server, and need no module of the server."""

BESIDE = ("key", "kernel", "bridge", "verify")
"""Other commands that are recognised before the flags of a server are parsed."""

EDITING = LIST, ADD, REMOVE = ("list_models", "add_to_config", "remove_from_config")
"""Flags of OpenVINO Model Server that take the place of a command."""

HELP: Final = "help"
VERSION: Final = "version"


def edits(given: Sequence[str]) -> bool:
    """Tell whether a command line manages the configuration instead of serving."""
    # Detected before parsing: these flags have no command, which the parser requires.
    names = {argument.partition("=")[0] for argument in given}
    return not names.isdisjoint(f"--{name}" for name in EDITING)


def is_tool(given: Sequence[str]) -> bool:
    """Tell whether a command line neither serves nor loads the models of a configuration."""
    command = " ".join(given[:1])
    named = command == VERSION or command in BESIDE or list(given[:2]) == ["config", "import"]
    return named or edits(given)
