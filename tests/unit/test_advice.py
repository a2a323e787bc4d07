"""No text of the server names a flag that the running command does not have."""

import argparse
import ast
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import pytest

from ie_serving.commands import remote as command
from ie_serving.compat.stfs import flags as stfs_flags
from ie_serving.config.dialects import ie_serving, manage, own_flags, tensorflow_model_server
from ie_serving.config.dialects.tfs_flags import FLAGS
from ie_serving.config.schema.catalogue import STORES, names_in_tensorflow_model_server
from ie_serving.core.values.commands import ASKING
from ie_serving.core.values.hints import Hint
from ie_serving.storage.backends.s3 import ENDPOINTS_OF_BOTO3
from tests.tables import named_by

PACKAGE = Path(__file__).resolve().parents[2] / "ie_serving"
MODULES = sorted(PACKAGE.rglob("*.py"))
FLAG = re.compile(r"--[a-z][a-z0-9_]+")
VARIABLE = re.compile(r"\b(?:S3|AWS|GCS|GOOGLE|MINIO|SSL)_[A-Z_]+\b")
COMMANDS: Mapping[str, Mapping[str, str]] = {
    "ie_serving model": own_flags.names("model"),
    "ie_serving config": own_flags.names("config"),
    "ie_serving tune": own_flags.names("tune"),
    "tensorflow_model_server": names_in_tensorflow_model_server(),
}


def place(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def nodes(path: Path) -> Sequence[ast.AST]:
    """Everything in a module that names a flag, a variable or a hint at all."""
    source = path.read_text()
    if FLAG.search(source) or VARIABLE.search(source) or "Hint(" in source:
        return tuple(ast.walk(ast.parse(source)))
    return ()


def texts(path: Path) -> Iterator[str]:
    """Every constant text of a module that is no docstring."""
    docs = {
        id(node.value)
        for node in nodes(path)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def hints() -> Iterator[tuple[str, Hint]]:
    """Every hint of the package, with the module that gives it."""
    for path in MODULES:
        for node in nodes(path):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Hint":
                yield place(path), Hint(ast.literal_eval(node.args[0]))


CLIENTS = (
    *("--lang", "--model_name", "--model_version", "--signature_name", "--url"),
    *("--ca", "--cert", "--key"),
    *("--globoff", "--silent", "--show", "--fail", "--max", "--data"),
)
"""Flags of the command that makes up programs, and those of curl in such a program."""


def flags_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Every flag of a parser and of those below it."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from flags_of(each)


FLAGS_OF: Mapping[str, frozenset[str]] = {
    "core/runtime/installation_faults": frozenset({"--force"}),  # of pip: --force-reinstall
    "wire/clients": frozenset(CLIENTS),
    "commands/remote": frozenset(
        flag for name in ASKING for flag in flags_of(command.parser_of(name))
    )
    | {"--open_ports_early"}  # of the server that they wait for
    | {*CLIENTS}  # of the programs that `gen` makes up
    | {"--model_path", "--port", "--grpc_bind_address"},  # of the server that `replay` starts
}
"""Flags of commands that no dialect parses, by the folder or module of their texts."""

DIALECTS = re.compile(
    r"config/dialects/|compat/\w+/(config_file|container|dialect|flags|translation)\.py"
)
"""Those of other servers, with what `config import` notes, are in `compat`."""


def test_only_a_dialect_names_flags() -> None:
    """Everywhere else a setting is named by its field, in a `Hint`."""
    for path in (path for path in MODULES if not DIALECTS.match(place(path))):
        known = next(
            (flags for where, flags in FLAGS_OF.items() if place(path).startswith(where)),
            frozenset(),
        )
        found = {name for text in texts(path) for name in FLAG.findall(text)}
        assert found <= known, place(path)


def test_a_hint_names_settings_that_there_are() -> None:
    for where, hint in hints():
        assert set(hint.fields) <= set(COMMANDS["ie_serving tune"]), (where, hint)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_hint_names_only_flags_of_the_running_command(command: str) -> None:
    for where, hint in hints():
        found = set(FLAG.findall(hint.said(COMMANDS[command])))
        assert found <= flags(command), (where, hint)


@cache
def flags(command: str) -> frozenset[str]:
    """Those of its help."""
    dialect, *argv = command.split()
    parse = {"ie_serving": ie_serving, "tensorflow_model_server": tensorflow_model_server}[dialect]
    printed = io.StringIO()
    with redirect_stdout(printed), pytest.raises(SystemExit):
        parse.parse([*argv, "--help=all" if argv else "--help"], {})
    return frozenset(FLAG.findall(printed.getvalue()))


OWN_IN_BOTH = {"--version"} | {
    f"--{name}"
    for name in own_flags.known_flags("model")
    if name in own_flags.known_flags("config")
}
MANAGE = {f"--{name}" for name in manage.FLAGS}
TFS = {f"--{flag.name}" for flag in FLAGS} | {"--help"}
STFS = {f"--{flag.name}" for flag in stfs_flags.FLAGS}


@named_by(
    "module",
    ("module", "known"),
    [
        ("environment", set()),
        # `tune` takes a model of a file by its name; `check` says what names its models.
        (
            "ie_serving",
            OWN_IN_BOTH
            | {"--help", "--config_path", "--model_name", "--model_path", "--model_repository"},
        ),
        ("own_flags", OWN_IN_BOTH | {"--help"}),  # of `version`
        # Its help tells what stands without a command.
        (
            "own_help",
            OWN_IN_BOTH | MANAGE | {"--help", "--version", "--model_path", "--model_repository"},
        ),
        ("sagemaker/container", OWN_IN_BOTH),
        # It also tells the two commands apart by these.
        (
            "ovms",
            OWN_IN_BOTH | {"--config_path", "--model_name", "--model_path", "--model_repository"},
        ),
        ("manage", MANAGE),
        # As far as a hyphen: flags of this server have none.
        ("kibernetika/dialect", {"--driver", "--model", "--hooks", "--option", "--port", "--http"}),
        # It reads a file of simple_tensorflow_serving as that command does.
        ("importing", OWN_IN_BOTH | {"--help", "--model_config_file"}),
        ("keys", OWN_IN_BOTH | {"--help", "--rights", "--models"}),
        (
            "kernel_run",
            OWN_IN_BOTH | {"--help", "--input", "--kernel", "--params", "--raw", "--allow_python"},
        ),
        ("verify", {"--help", "--against", "--requests", "--write", "--inference_precision"}),
        ("tensorflow_model_server", TFS),
        ("tfs_flags", TFS),
        ("stfs/dialect", STFS),
        ("stfs/flags", STFS),
    ],
)
def test_a_dialect_names_only_flags_of_its_own(module: str, known: set[str]) -> None:
    home = "compat" if "/" in module else "config/dialects"
    path = PACKAGE / home / f"{module}.py"
    assert {name for text in texts(path) for name in FLAG.findall(text)} <= known


def test_every_dialect_is_held_to_its_flags() -> None:
    held = {"environment", "ie_serving", "keys", "manage", "ovms", "verify"}
    held |= {"bridge", "importing", "kernel_run", "own_flags", "own_help"}
    held |= {"tensorflow_model_server", "tfs_flags"}
    modules = (PACKAGE / "config" / "dialects").glob("*.py")
    assert {path.stem for path in modules} - {"__init__"} == held
    names = ("container", "dialect", "flags")
    others = [path for name in names for path in PACKAGE.glob(f"compat/*/{name}.py")]
    assert {place(path) for path in others} == {
        *("compat/kibernetika/dialect.py", "compat/sagemaker/container.py"),
        *("compat/stfs/dialect.py", "compat/stfs/flags.py"),
    }


def test_variables_of_storage_that_a_text_names_are_declared() -> None:
    declared = {name for setting in STORES for name in setting.variables}
    declared |= {"AWS_PROFILE", *ENDPOINTS_OF_BOTO3}  # which boto3 reads
    for path in MODULES:
        named = {name for text in texts(path) for name in VARIABLE.findall(text)}
        assert named <= declared, place(path)
