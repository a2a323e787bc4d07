"""The process that compares: how it ends, and what that says of the engines."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import wait
from pathlib import Path

import pytest

from ie_serving.engines.base import EngineOptions
from ie_serving.engines.generated_requests import ValueKind
from ie_serving.engines.verification import verifier as module
from ie_serving.engines.verification.comparison import ReferenceOutputs
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
    "print(json.dumps(dict(found=found, goes_on=False)), flush=True)\n"
)


@pytest.fixture
def verifier() -> Iterator[Verifier]:
    made = Verifier()
    yield made
    made.close()


def findings(verifier: Verifier, monkeypatch: pytest.MonkeyPatch, program: str) -> Findings:
    """Compare by a process that runs `program` for each model."""
    monkeypatch.setattr(module, "COMMAND", (sys.executable, "-c", READS + STEP + program))
    found = verifier.findings(Path("model.onnx"), EngineOptions())
    assert isinstance(found, Findings)
    return found


def killing(number: int, engine: str, name: str) -> str:
    return f"if step({number}, {engine!r}): os.kill(os.getpid(), signal.{name})\n"


@pytest.mark.parametrize(
    ("program", "told"),
    [
        pytest.param([("OpenVINO", "SIGABRT")], "OpenVINO by SIGABRT", id="one"),
        pytest.param(
            [("OpenVINO", "SIGSEGV"), ("onnxruntime", "SIGFPE")],
            "OpenVINO by SIGSEGV; onnxruntime by SIGFPE",
            id="OpenVINO first",
        ),
        pytest.param(
            [("onnxruntime", "SIGSEGV"), ("OpenVINO", "SIGFPE")],
            "OpenVINO by SIGFPE; onnxruntime by SIGSEGV",
            id="OpenVINO second",
        ),
    ],
)
def test_engines_that_end_the_process_are_named_and_openvino_first(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch, program: list[tuple[str, str]], told: str
) -> None:
    kills = "".join(killing(number, *each) for number, each in enumerate(program))
    found = findings(verifier, monkeypatch, kills + FOUND)
    assert found.asked == 2
    expected = "; ".join(f"{each}: ones" for each in told.split("; "))
    assert found.crashed == {ValueKind.FINITE: expected.replace(" by", " ended its process by")}


def test_a_crash_before_the_answers_to_a_large_model_is_kept(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = (
        "import ie_serving.engines.verification.comparison as made\n"
        "signature = made.ComparedSignature(*[frozenset()] * 2)\n"
        "found = pickle.dumps(made.ReferenceOutputs('r 1', signature, [])).hex()\n"
        "print(json.dumps(dict(found=found, goes_on=False)), flush=True)\n"
    )
    program = killing(1, "onnxruntime", "SIGSEGV") + answers
    monkeypatch.setattr(module, "COMMAND", (sys.executable, "-c", READS + STEP + program))
    found = verifier.findings(Path("model.onnx"), EngineOptions(), large=True)
    assert isinstance(found, ReferenceOutputs)
    assert found.crashed.keys() == {ValueKind.FINITE}


def test_a_process_that_others_end_says_nothing_of_an_engine(
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
    assert found.crashed.keys() == {ValueKind.FINITE}
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


def test_models_are_compared_beside_each_other(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each waits for the file of the other one."""
    program = (
        "import time; Path = __import__('pathlib').Path; until = time.monotonic() + 10\n"
        f"(Path({str(tmp_path)!r}) / task.file.name).touch()\n"
        f"while len(os.listdir({str(tmp_path)!r})) < 2: assert time.monotonic() < until\n"
    )
    monkeypatch.setattr(module, "COMMAND", (sys.executable, "-c", READS + STEP + program + FOUND))
    with ThreadPoolExecutor(2) as loads:
        files = [Path("a.onnx"), Path("b.onnx")]
        found = list(loads.map(lambda each: verifier.findings(each, EngineOptions()), files))
    assert [each.asked for each in found if isinstance(each, Findings)] == [2, 2]


BEGUN = (
    "import os, sys, time\n"
    "from ie_serving.engines.verification.child import _begin\n"
    "_begin(int(sys.argv[1]))\n"
)


def test_the_process_ends_with_the_server() -> None:
    """In the midst of a comparison, when it reads nothing, although the server is killed."""
    busy = BEGUN + "print(os.getpid(), flush=True); time.sleep(60)"
    program = (
        "import sys\n"
        "from ie_serving.engines.verification import verifier\n"
        f"verifier.COMMAND = (sys.executable, '-c', {busy!r})\n"
        "print(verifier._Child()._running().stdout.readline().decode(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    server = subprocess.Popen(
        (sys.executable, "-c", program), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with server:
        assert server.stdout is not None
        ended = os.pidfd_open(int(server.stdout.readline()))
        server.kill()
    assert wait([ended], 10)
    os.close(ended)


def test_the_memory_of_the_process_is_bounded() -> None:
    program = (
        BEGUN
        + "import numpy\ntry: numpy.zeros(4 << 30, 'u1')\nexcept MemoryError: print('too much')\n"
    )
    reads, writes = os.pipe()
    command = (sys.executable, "-c", program, str(reads))
    said = subprocess.run(command, pass_fds=[reads], capture_output=True, timeout=60, check=True)
    os.close(reads)
    os.close(writes)
    assert said.stdout == b"too much\n"


def test_output_of_libraries_is_part_of_the_cause(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    found = findings(verifier, monkeypatch, "print('no room', file=sys.stderr); sys.exit(3)")
    assert found.why_not == "its process was ended, with 3: no room"
    assert not capfd.readouterr().err


def test_a_search_beyond_the_findings_may_end_the_process(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The findings count, and the next model has another process."""
    program = FOUND.replace("goes_on=False", "goes_on=True") + "os.kill(os.getpid(), 14)\n"
    assert findings(verifier, monkeypatch, program).asked == 2
    assert findings(verifier, monkeypatch, FOUND).asked == 2
