"""What completes the words of the command, in the shells themselves."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ie_serving.commands import remote as command
from tests.process import until
from tests.tables import named_by
from tests.terminal import Terminal

pytestmark = pytest.mark.deployed

ASK = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(( $# - 1 ))
_ie_serving
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""What bash does when Tab is pressed behind the last of some words."""


def written(folder: Path, shell: str) -> Path:
    """Write what the command prints for a shell into a file."""
    path = folder / f"ie_serving.{shell}"
    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr("builtins.print", lambda text, **_: printed.append(text))
        assert command.run(["completion", shell], {}) == 0
    path.write_text("".join(printed))
    return path


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("completion"), "bash")


def completed(script: Path, *words: str) -> list[str]:
    asked = ["bash", "--norc", "-c", ASK, "bash", script, "ie_serving", *words]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@named_by(
    "words",
    ("words", "found"),
    [
        (("sta",), ["status"]),
        (("labels", ""), ["list", "set"]),
        (("labels", "s"), ["set"]),
        (("completion", "z"), ["zsh"]),
        (("gen", ""), ["client", "request"]),
        (("config", "im"), ["import"]),
        (("status", "--wat"), ["--watch"]),
        (("labels", "set", "m", "--api_key_f"), ["--api_key_file"]),
        (("model", "--model_na"), ["--model_name"]),
        (("check", "--js"), ["--json"]),
        (("check", "--le"), ["--lenient"]),
        (("predict", "--format", "np"), ["npy", "npz"]),
        (("predict", "--format", "=", "im"), ["image"]),
        (("predict", "--format", "="), ["json", "npy", "npz", "csv", "image"]),
        (
            (
                "predict",
                "--format=im",
            ),
            ["--format=image"],
        ),  # as zsh gives it
        (("gen", "client", "--lang", "ja"), ["javascript", "java"]),
        (("predict", "--file", "x"), []),
        (("nonsense", "--x"), []),
    ],
)
def test_bash_completes_words(script: Path, words: tuple[str, ...], found: list[str]) -> None:
    assert completed(script, *words) == found


def test_bash_offers_files_where_there_are_no_words(script: Path) -> None:
    shown = subprocess.run(
        ["bash", "--norc", "-c", 'source "$0"; complete -p ie_serving', script],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert shown.stdout.strip() == "complete -o default -F _ie_serving ie_serving"


# The line as it is typed, what the first Tab makes of it in zsh, and all that fish offers.
TYPED = [
    ("sta", "status ", ["status"]),
    ("labels ", "labels list", ["list", "set"]),
    ("labels s", "labels set ", ["set"]),
    ("status --wat", "status --watch ", ["--watch"]),
    ("model --model_na", "model --model_name ", ["--model_name"]),
    ("predict --format im", "predict --format image ", ["image"]),
    ("predict --format=im", "predict --format=image ", ["--format=image"]),
    ("gen client --lang ja", "gen client --lang java", ["java", "javascript"]),
    ("predict --file /etc/os-re", "predict --file /etc/os-release ", ["/etc/os-release"]),
    ("nonsense --x", "nonsense --x", []),
]


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish: apt-get install fish")
@named_by("typed", ("typed", "_", "offered"), TYPED)
def test_fish_completes_words(tmp_path: Path, typed: str, _: str, offered: list[str]) -> None:
    code = f"source {written(tmp_path, 'fish')}; complete --do-complete 'ie_serving {typed}'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", code],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    found = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert found == offered
    assert done.stderr == ""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh: apt-get install zsh")
@named_by("typed", ("typed", "becomes", "_"), TYPED)
def test_zsh_completes_words(tmp_path: Path, typed: str, becomes: str, _: list[str]) -> None:
    line = tmp_path / "line"
    (tmp_path / ".zshrc").write_text(
        f"autoload -U compinit && compinit -D && source {written(tmp_path, 'zsh')}\n"
        "setopt menu_complete\n"
        f'tell() {{ print -r -- "$BUFFER" > {line} }}; zle -N tell; bindkey "^X" tell\n'
    )
    assert typed_into(["zsh", "-i"], f"ie_serving {typed}\t\x18", tmp_path, line) == (
        f"ie_serving {becomes}\n"
    )


def typed_into(shell: list[str], keys: str, home: Path, told: Path) -> str:
    """Type keys into a shell at a terminal, and give the line that it then writes into a file."""
    environ = {**os.environ, "ZDOTDIR": str(home), "HOME": str(home), "TERM": "dumb"}
    with Terminal() as terminal:
        process = subprocess.Popen(
            shell,
            stdin=terminal.end,
            stdout=terminal.end,
            stderr=terminal.end,
            env=environ,
            start_new_session=True,
        )
        try:
            terminal.type(keys)
            until(lambda: told.exists() and told.read_text().endswith("\n"))
        finally:
            process.kill()
            process.wait()
    return told.read_text()
