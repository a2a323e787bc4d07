"""The process that compares: how it ends, and what that says of the engines."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ie_serving.engines.base import EngineOptions
from ie_serving.engines.generated import Kind
from ie_serving.engines.verification import verifier as module
from ie_serving.engines.verification.verdict import Findings
from ie_serving.engines.verification.verifier import Verifier

READS = "import json, os, pickle, signal, sys; task = pickle.load(sys.stdin.buffer)\n"
STEP = (
    "def step(number, engine):\n"
    "    if number in task.skipped: return False\n"
    "    said = dict(number=number, engine=engine, kind='FINITE', request='ones')\n"
    "    print(json.dumps(said), flush=True)\n"
    "    return True\n"
)
FOUND = (
    "from ie_serving.engines.verification.verdict import Findings\n"
    "found = pickle.dumps(Findings('r 1', asked=2)).hex()\n"
    "print(json.dumps(dict(found=found)), flush=True)\n"
)


@pytest.fixture
def verifier() -> Iterator[Verifier]:
    made = Verifier()
    yield made
    made.close()


def findings(verifier: Verifier, monkeypatch: pytest.MonkeyPatch, program: str) -> Findings:
    """Compare by a process that runs `program` for each model."""
    monkeypatch.setattr(module, "COMMAND", (sys.executable, "-c", READS + STEP + program))
    return verifier.findings(Path("model.onnx"), EngineOptions())


def killing(number: int, engine: str, name: str) -> str:
    return f"if step({number}, {engine!r}): os.kill(os.getpid(), signal.{name})\n"


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGFPE", "SIGABRT"])
def test_an_engine_that_ends_the_process_is_named(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    found = findings(verifier, monkeypatch, killing(1, "OpenVINO", name) + FOUND)
    assert found.asked == 2
    assert found.crashed == {Kind.FINITE: f"OpenVINO ended its process by {name}: ones"}


def test_of_two_that_end_it_openvino_counts(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = killing(1, "OpenVINO", "SIGSEGV") + killing(2, "onnxruntime", "SIGSEGV") + FOUND
    found = findings(verifier, monkeypatch, program)
    assert found.crashed[Kind.FINITE].startswith("OpenVINO")


def test_what_others_end_says_nothing_of_an_engine(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel, when memory runs out."""
    found = findings(verifier, monkeypatch, killing(1, "OpenVINO", "SIGKILL"))
    assert not found.crashed
    assert found.why_not == f"its process was ended, with {-signal.SIGKILL}"


def test_a_crash_before_a_time_out_is_kept(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = killing(1, "OpenVINO", "SIGSEGV") + killing(2, "OpenVINO", "SIGALRM")
    found = findings(verifier, monkeypatch, program)
    assert found.crashed.keys() == {Kind.FINITE}
    assert found.why_not.startswith("it took longer than")


def test_a_process_that_ends_each_time_is_given_up(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "".join(killing(number, "onnxruntime", "SIGFPE") for number in range(1, 9))
    assert findings(verifier, monkeypatch, program).why_not == "its process has ended too often"


def test_a_line_that_is_cut_off_is_the_end(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "print('{', flush=True); sys.stdout.close(); os._exit(3)"
    assert findings(verifier, monkeypatch, program).why_not == "its process was ended, with 3"
