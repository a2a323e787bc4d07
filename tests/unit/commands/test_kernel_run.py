"""`ie_serving kernel run`: a kernel, a request, an answer, an exit code."""

import io
import sys
from pathlib import Path

import pytest

from ie_serving.app.command_line import main

SCALE = """
import numpy as np
class Scale:
    def load(self, ctx):
        self.factor = np.float32(ctx.params.get("factor", 2))
    def metadata(self):
        x = {"dtype": "float32", "shape": [-1]}
        return {"inputs": {"x": x}, "outputs": {"y": x}}
    def execute(self, inputs):
        print("not on standard output", file=__import__("sys").stderr)
        return {"y": self.factor / inputs["x"] if inputs["x"][0] else {}["zero"]}
"""
UPPER = """
def metadata():
    text = {"dtype": "string", "shape": []}
    return {"inputs": {"body": text}, "outputs": {"body": text}}
def upper(body):
    return body.item().upper()
"""


@pytest.fixture
def version(tmp_path: Path) -> Path:
    (tmp_path / "kernel.py").write_text(SCALE)
    (tmp_path / "upper.py").write_text(UPPER)
    (tmp_path / "x.json").write_text('{"instances": [1, 4]}')
    return tmp_path


def test_the_answer_is_that_of_the_rest_api(
    version: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["kernel", "run", str(version), "--input", str(version / "x.json")]) == 0
    assert capsysbinary.readouterr().out == b'{\n    "predictions": [2.0, 0.5\n    ]\n}\n'


def test_params_and_standard_input_are_given_to_the_kernel(
    version: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"inputs": {"x": [2]}}')))
    params = '--params={"factor": 6}'
    assert main(["kernel", "run", str(version), "--kernel=kernel.py:Scale", params]) == 0
    assert capsysbinary.readouterr().out.split() == b'{ "outputs": [ 3.0 ] }'.split()


def test_raw_bytes_are_given_to_the_kernel(
    version: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    line = ["kernel", "run", str(version), "--kernel=upper.py:upper", "--raw"]
    assert main([*line, f"--input={version / 'x.json'}"]) == 0
    assert capsysbinary.readouterr().out == b'{"INSTANCES": [1, 4]}'


EDI = """
import redhareapiversion
from redhareapi import Kernel

class Echo(Kernel):
    def on_kernel_start(self, kernel_context):
        pass
    def on_task_invoke(self, task_context):
        while task_context != None:
            task_context.set_output_data(task_context.get_input_data())
            task_context = task_context.next()

if __name__ == "__main__":
    Echo().run()
"""


def test_a_package_of_edi_runs_on_its_input(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "kernel.py").write_text(EDI)
    (tmp_path / "model.json").write_text('{"name": "echo", "kernel_path": "kernel.py"}')
    body = b'{"id": 1, "inputs": [{"name": "x", "data": "aGk="}], "outputs": []}'
    (tmp_path / "input.json").write_bytes(body)
    assert main(["kernel", "run", str(tmp_path), "--input", str(tmp_path / "input.json")]) == 0
    assert capsysbinary.readouterr().out == body


@pytest.mark.parametrize(
    ("body", "line", "code", "said"),
    [
        pytest.param(
            '{"inputs": [0]}',
            [],
            1,
            "kernel Scale failed: KeyError: 'zero'",
            id="a value that the kernel cannot use",
        ),
        pytest.param("{", [], 1, "JSON Parse error", id="a body that is cut"),
        pytest.param('{"inputs": {"z": [0]}}', [], 1, "Missing named input: x", id="another input"),
        pytest.param("", ["--kernel=no.py"], 1, "kernel no.py is neither", id="no such kernel"),
        pytest.param("", ["--raw"], 1, "it takes no bytes", id="bytes"),
        pytest.param(
            "",
            ["--kernel=no.txt"],
            2,
            "--kernel: 'no.txt' given; expected FILE.py",
            id="a kernel that is no Python",
        ),
        pytest.param("", ["--params=3"], 2, "--params: '3' given", id="params that are no object"),
        pytest.param(
            "",
            ["--allow_python=false"],
            2,
            "--allow_python: a kernel is Python code",
            id="Python not allowed",
        ),
        pytest.param(
            "",
            ["--input=/proc/self/mem"],
            1,
            "/proc/self/mem cannot be read: Input/output",
            id="a file that cannot be read",
        ),
        pytest.param(
            "", ["--input=no.json"], 2, "--input: there is no file no.json", id="no such file"
        ),
    ],
)
def test_each_failure_has_its_exit_code(
    version: Path,
    capsys: pytest.CaptureFixture[str],
    body: str,
    line: list[str],
    code: int,
    said: str,
) -> None:
    (version / "x.json").write_text(body)
    assert main(["kernel", "run", str(version), f"--input={version / 'x.json'}", *line]) == code
    found = capsys.readouterr()
    assert found.out == ""
    assert f"ie_serving: error: {said}" in found.err


def test_a_directory_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "run", "/nowhere/1", "--input=-"]) == 2
    assert "DIR: /nowhere/1 is no directory" in capsys.readouterr().err
