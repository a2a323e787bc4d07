"""Whatever a model or a caller says stands in string literals of a program."""

import ast
import shutil
import subprocess
from pathlib import Path

import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.tensors import DataType, Signature, TensorSpec
from ie_serving.wire.clients.sample import WRITERS, JsonPost, checked_url, predict, program, text_of

HOSTILE = "'; touch owned; \"`$(touch owned)` ${x} \\u0022 \u2028 */ %s {y} \u00e9"
"""Ends strings, comments and templates of every language, or would expand in them."""


def hostile() -> JsonPost:
    specs = {HOSTILE: TensorSpec(HOSTILE, DataType.STRING, (-1,), "")}
    signatures = {HOSTILE: Signature(HOSTILE, specs, {})}
    return predict("http://127.0.0.1:1", ModelSpec(HOSTILE), signatures)


def test_python_sends_what_it_is_to_send() -> None:
    call = hostile()
    tree = ast.parse(program("python", call))
    literals = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert {call.url, text_of(call.body)} <= literals


@pytest.mark.parametrize("language", WRITERS)
def test_nothing_leaves_its_literal(language: str) -> None:
    source = program(language, hostile())
    assert source.isascii()
    assert max(map(len, source.splitlines())) < 1000


def test_bash_runs_nothing_of_a_name(tmp_path: Path) -> None:
    """Curl reaches no server at port 1; were a name run, it would leave a file."""
    (tmp_path / "client.sh").write_text(program("bash", hostile()))
    run = subprocess.run(
        ["bash", "client.sh"], cwd=tmp_path, capture_output=True, timeout=30, check=False
    )
    assert run.returncode != 0
    assert [path.name for path in tmp_path.iterdir()] == ["client.sh"]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_javascript_is_sound(tmp_path: Path) -> None:
    (tmp_path / "client.js").write_text(program("javascript", hostile()))
    subprocess.run(["node", "--check", "client.js"], cwd=tmp_path, check=True, timeout=30)


@pytest.mark.parametrize(
    "url", ["localhost:8501", "http://", "ftp://a", "http://a b", "http://a'", "http://a\n"]
)
def test_a_url_that_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="no address"):
        checked_url(url)


def test_an_address_ends_without_a_slash() -> None:
    assert checked_url("https://[::1]:8501/proxy/") == "https://[::1]:8501/proxy"


def test_an_unknown_language_is_answered_with_the_list() -> None:
    with pytest.raises(InvalidRequest, match="python, bash, javascript, go, java"):
        program("cobol", hostile())
