"""Manages the configuration as OpenVINO Model Server does: lists models, edits the file, and ends.

    ie_serving --list_models --model_repository_path /models
    ie_serving --add_to_config --config_path /models/config.json --model_name resnet
        --model_path /models/resnet
    ie_serving --remove_from_config --config_path /models/config.json --model_name resnet

Source: its documentation, "Config management". A directory counts as its `config.json`; with
`--model_repository_path` a model lies below that under its name, and so does the file by default.
"""

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ie_serving.config.files.file_edits import add, remove
from ie_serving.core.values.commands import ADD, LIST, REMOVE
from ie_serving.core.values.errors import ConfigError

REPOSITORY_VARIABLE = "OVMS_MODEL_REPOSITORY_PATH"
"""Variable with the directory of the models, used without the flag."""
FILE = "config.json"
FLAGS = (LIST, ADD, REMOVE, "config_path", "model_name", "model_path", "model_repository_path")
DEEPEST = 8
"""Deepest directory level that is searched for models: a model's name may have slashes, as
`organisation/model`, and links may form a cycle."""


def run(argv: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """List models or edit the file; give the lines to print.

    Raises:
        ConfigError: a fault of the command line, the file or the repository.
        SystemExit: flags that do not belong here.
    """
    given = _parser().parse_args(argv)
    repository = given.model_repository_path or environ.get(REPOSITORY_VARIABLE, "")
    if given.list_models:
        return sorted(_models(Path(_needed(repository, "--model_repository_path"))))
    name = _needed(given.model_name, "--model_name")
    path = _file(given, repository)
    if given.remove_from_config is not None:  # empty where --config_path names the file
        remove(path, name)
        return [f"model {name} removed from {path}"]
    model_path = given.model_path or (repository and str(Path(repository, name)))
    add(path, name, _from(path, _needed(model_path, "--model_path")))
    return [f"model {name} added to {path}"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ie_serving", allow_abbrev=False)
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument(f"--{LIST}", action="store_true", help="print the models of the repository")
    for name, meaning in ((ADD, "add a model to the file"), (REMOVE, "take one out of it")):
        # The path may stand here, as earlier versions have it.
        asked.add_argument(f"--{name}", nargs="?", const="", metavar="FILE", help=meaning)
    for name, meaning in (
        ("config_path", f"the file, or the directory of its {FILE}"),
        ("model_name", "name of the model"),
        ("model_path", "where its versions lie"),
        ("model_repository_path", "directory above models"),
    ):
        parser.add_argument(f"--{name}", default="", help=meaning)
    return parser


def _needed(value: str, flag: str) -> str:
    if not value:
        raise ConfigError([f"{flag}: missing; give it a value"])
    return value


def _file(given: argparse.Namespace, repository: str) -> Path:
    named = given.config_path or given.add_to_config or given.remove_from_config
    path = Path(_needed(named or repository, "--config_path")).absolute()
    return path / FILE if path.is_dir() else path


def _from(file: Path, model_path: str) -> str:
    """Give the path for the file, in which a relative path begins at the file's directory."""
    if "://" in model_path or os.path.isabs(model_path):
        return model_path
    return os.path.relpath(Path.cwd() / model_path, file.parent)


def _models(repository: Path) -> Iterator[str]:
    if not repository.is_dir():
        raise ConfigError([f"{repository}: is no directory; name the one above the models"])
    for directory, inner, _ in os.walk(repository, followlinks=True):
        path = Path(directory).relative_to(repository)
        if any(name.isdecimal() and _holds_any(Path(directory, name)) for name in inner):
            inner.clear()  # a model: nothing below it is another one
            # The repository itself would have no name as a model.
            yield from [str(path)] if path.parts else []
        if len(path.parts) >= DEEPEST:
            inner.clear()


def _holds_any(directory: Path) -> bool:
    """Tell whether a version directory has entries; without permission it counts as empty."""
    with suppress(OSError), os.scandir(directory) as found:
        return next(found, None) is not None
    return False
