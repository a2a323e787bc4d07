"""A call as one command: whatever stands in it, curl is given these very bytes."""

import os
import subprocess
from pathlib import Path

import pytest

from ie_serving.wire.clients.sample import (
    LONGEST_ARGUMENT,
    WRITERS,
    FileContent,
    JsonPost,
    NestedValue,
    SamplePieces,
    command,
    program,
)

URL = "http://h/v1/models/m:predict"
CURL = """#!/bin/sh
while [ $# -gt 1 ]; do
  case $1 in --data-binary) data=$2 ;; *Authorization:*) printf %s "$1" > header ;; esac
  shift
done
if [ "$data" = @- ]; then cat; else printf %s "$data"; fi
"""
"""Stands in for curl: prints the body, and keeps one header."""


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (['{"a": "it\'s $HOME `x` \\\\n"}'], '{"a": "it\'s $HOME `x` \\\\n"}'),
        (['{"b64": "', FileContent("my file.png"), '"}'], '{"b64": "AAEC"}'),
        (['{"x": ', NestedValue("1.0", (2, 2)), "}"], '{"x": [[1.0,1.0],[1.0,1.0]]}'),
        (["[" + "1," * LONGEST_ARGUMENT + "1]"], "[" + "1," * LONGEST_ARGUMENT + "1]"),
    ],
    ids=["quotes", "file", "filled", "long"],
)
def test_the_body_arrives_as_it_is(tmp_path: Path, body: SamplePieces, sent: str) -> None:
    (tmp_path / "curl").write_text(CURL)
    (tmp_path / "curl").chmod(0o755)
    (tmp_path / "call.sh").write_text(command(JsonPost(URL, body)))
    (tmp_path / "my file.png").write_bytes(bytes(range(3)))
    run = subprocess.run(
        ["bash", "call.sh"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "AUTHORIZATION": "Bearer a b"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert run.stdout == sent
    header = (tmp_path / "header").read_text()
    assert header.removeprefix("-H") == "Authorization: Bearer a b"


@pytest.mark.parametrize("language", WRITERS)
def test_a_program_imports_what_reads_a_file_only_where_it_reads_one(language: str) -> None:
    with_file = program(language, JsonPost(URL, ["[", FileContent("f"), "]"]))
    assert "encoded" in with_file
    assert "encoded" not in program(language, JsonPost(URL, ["[]"]))
    assert ("base64" in program(language, JsonPost(URL, ["[]"]))) is False
