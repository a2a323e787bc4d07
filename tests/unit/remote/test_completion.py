"""What completes the words of the command, in the shell itself."""

import subprocess
from pathlib import Path

import pytest

from ie_serving.remote import command

ASK = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(( $# - 1 ))
_ie_serving
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""What bash does when Tab is pressed behind the last of some words."""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "ie_serving.bash"
    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr("builtins.print", lambda text, **_: printed.append(text))
        assert command.run(["completion", "bash"], {}) == 0
    path.write_text("".join(printed))
    return path


def completed(script: Path, *words: str) -> list[str]:
    asked = ["bash", "--norc", "-c", ASK, "bash", script, "ie_serving", *words]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
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
        (("predict", "--format", "np"), ["npy", "npz"]),
        (("predict", "--format", "=", "im"), ["image"]),
        (("predict", "--format", "="), ["json", "npy", "npz", "csv", "image"]),
        (("gen", "client", "--lang", "ja"), ["javascript", "java"]),
        (("predict", "--file", "x"), []),
        (("nonsense", "--x"), []),
    ],
)
def test_bash(script: Path, words: tuple[str, ...], found: list[str]) -> None:
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
