"""docs/configuration.md says what the code does: every flag, key and variable, each default."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ie_serving.config_file import OVMS_TOP_KEYS, TOP_KEYS
from ie_serving.model_keys import KEYS, OVMS_KEYS, Key
from ie_serving.server_flags import (
    ALIASES,
    FLAGS,
    IGNORED,
    IGNORED_VARIABLES,
    VARIABLES,
    Flag,
    Variable,
)
from ie_serving.tfs_cli import ENTRY_POINT_VARIABLES
from ie_serving.tfs_flags import FLAGS as TFS_FLAGS
from ie_serving.tfs_flags import Kind, TfsFlag

TEXT = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()


def rows() -> Iterator[tuple[str, ...]]:
    """Yield the cells of each table row, without markup."""
    for line in TEXT.splitlines():
        if line.startswith("| `"):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            yield tuple(cell.replace("\\|", "|").replace("`", "").strip() for cell in cells)


ROWS = list(rows())


def row(*start: str) -> tuple[str, ...]:
    """Give the one row that begins so."""
    (found,) = [cells for cells in ROWS if cells[: len(start)] == start]
    return found


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_key(key: Key) -> None:
    flag = f"--{key.flag}" if key.flag else ""
    *said, example = row(key.name, flag)
    assert said == [key.name, flag, key.form, key.default, key.meaning]
    key.parse(example, "example")


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_server_flag(flag: Flag) -> None:
    *said, example = row(f"--{flag.name}", flag.form)
    assert said == [f"--{flag.name}", flag.form, flag.default, flag.meaning]
    flag.parse(example, "example")


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.name)
def test_variable(variable: Variable) -> None:
    _, said, example = row(variable.name)
    assert said == f"--{variable.flag}"
    variable.parse(example, "example")


@pytest.mark.parametrize("flag", TFS_FLAGS, ids=lambda flag: flag.name)
def test_tensorflow_model_server_flag(flag: TfsFlag) -> None:
    default = str(flag.default).lower() if flag.kind is Kind.BOOL else str(flag.default)
    meaning = flag.meaning or "accepted without effect"
    assert row(f"--{flag.name}", flag.kind.value)[2:] == (default or "none", meaning)


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        *((f"--{name}", meaning) for name, meaning in {**ALIASES, **IGNORED}.items()),
        *IGNORED_VARIABLES.items(),
        *ENTRY_POINT_VARIABLES.items(),
        *((name, meaning.replace("`", "")) for name, meaning in TOP_KEYS.items()),
    ],
)
def test_what_has_only_a_meaning(name: str, meaning: str) -> None:
    assert (name, meaning) in ROWS


def test_every_row_is_about_something_there_is() -> None:
    flags = {f"--{name}" for name in (*ALIASES, *IGNORED)}
    flags |= {f"--{flag.name}" for flag in (*FLAGS, *TFS_FLAGS)}
    keys = {key.name for key in KEYS} | set(TOP_KEYS)
    variables = {variable.name for variable in VARIABLES} | {
        *IGNORED_VARIABLES,
        *ENTRY_POINT_VARIABLES,
    }
    assert {cells[0] for cells in ROWS} == flags | keys | variables


def test_ignored_keys_are_named() -> None:
    assert all(f"`{name}`" in TEXT for name in OVMS_KEYS | OVMS_TOP_KEYS)
