"""What the second engine finds by itself, with our rewriting and refusals switched off.

`python -m tests.suites.evidence` asks OpenVINO for each test with nothing that knows of faults of
values or of the front end for ONNX. Where the answer is wrong, the model is compared with
onnxruntime as a load does it, on generated requests: neither the test's own inputs nor the right
answer is known there. It fails where less is found than `LEAST_SHARE` of what can be.
"""

import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from fnmatch import fnmatch
from functools import partial
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import onnx

from tests.suites.asking import BF16
from tests.suites.cases import ILL_POSED, Case, cases
from tests.suites.judging import Array, Kind, Outcome, Tolerance, judge

T = TypeVar("T")

LEAST_SHARE = 0.8
"""Of the wrong answers to which onnxruntime has one: the others have inputs that are parameters,
of which few numbers are legal, or differ for values that nobody guesses."""
PATIENCE_S = 60.0
SHOWN = 160
"""Characters of what was found."""
NOT_FOUND, NO_REFERENCE = "not found", "onnxruntime takes no request"


def main(only: str = "*") -> int:
    """Print a line for each wrong answer; give 1 where too few are found.

    Args:
        only: pattern of the names of tests.
    """
    with tempfile.TemporaryDirectory() as directory:
        carried = [
            case
            for case in cases()
            if case.sets and case.name not in ILL_POSED and fnmatch(case.name, only)
        ]
        alone = _each(partial(_answered, Path(directory)), carried)
        wrong = [case for case in carried if alone[case.name] != Kind.RIGHT.value]
        found = _each(partial(_compared, Path(directory)), wrong)
    for name, words in found.items():
        print(f"{name}: {words[:SHOWN]}")
    judged = [words for words in found.values() if words != NO_REFERENCE]
    caught = len([words for words in judged if words != NOT_FOUND])
    print(
        f"{len(wrong)} of {len(carried)} wrong without guards; onnxruntime has answers to"
        f" {len(judged)}; the comparison finds {caught}"
    )
    return 0 if caught >= LEAST_SHARE * len(judged) else 1


def _each(ask: Callable[[Case], str], given: list[Case]) -> dict[str, str]:
    """Ask in a process, and in another one behind each case that ends it."""
    found: dict[str, str] = {}
    while rest := [case for case in given if case.name not in found]:
        with ProcessPoolExecutor(1, get_context("spawn"), _without_guards) as process:
            try:
                for case in rest:
                    found[case.name] = process.submit(ask, case).result(PATIENCE_S)
            except (BrokenProcessPool, TimeoutError):
                found[case.name] = "ends the process, or does not return"
                for each in (process._processes or {}).values():
                    each.kill()
    return found


def _without_guards() -> None:
    """Switch off what knows of faults of values and of the front end."""
    from ie_serving.engines.openvino.compiling import programs
    from ie_serving.engines.openvino.graphs.rules import Rules
    from ie_serving.engines.openvino.reading import read

    read.refuse_unread = read.mend_onnx = lambda *_: None
    programs.READ = programs.SIZED = Rules()


def _saved(directory: Path, case: Case) -> Path:
    place = directory / case.name
    place.mkdir(exist_ok=True)
    file = place / "model.onnx"
    if not file.exists():
        onnx.save(case.model, str(file))
    return file


def _answered(directory: Path, case: Case) -> str:
    """Say what OpenVINO's answer to the test's own inputs is worth."""
    from ie_serving.core.values.errors import ServingError
    from ie_serving.core.values.tensors import SERVING_DEFAULT
    from ie_serving.engines.base import EngineOptions
    from ie_serving.engines.layers import own_loop
    from ie_serving.engines.layers.joining import copies
    from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
    from ie_serving.engines.openvino.options import OpenVinoOptions

    options = EngineOptions(own=(OpenVinoOptions(inference_precision="f32"),))
    outcome = Outcome(Kind.RIGHT)
    try:
        engine = OpenVinoEngine(detours=False)
        model = engine.compile(_saved(directory, case).parent, options)
        signature = model.signatures[SERVING_DEFAULT]
        for given, right in case.sets:
            got = own_loop.run(model.infer(signature, given, copies))
            got = {name: _as_sent(each, right.get(name)) for name, each in got.items()}
            outcome = judge(got, right, Tolerance(case.rtol, case.atol))
            if outcome.kind is not Kind.RIGHT:
                break
    except (ServingError, KeyError):
        return Kind.RIGHT.value  # refused: no wrong answer
    return Kind.RIGHT.value if outcome.kind is Kind.REFUSED else outcome.kind.value


def _as_sent(found: Array, right: Array | None) -> Array:
    """Give bfloat16 as clients get it; within the server it is float32."""
    is_bf16 = right is not None and right.dtype == BF16
    return found.astype(BF16) if is_bf16 else found


def _compared(directory: Path, case: Case) -> str:
    """Say what the comparison of a load finds."""
    from ie_serving.core.values.errors import LoadFailed
    from ie_serving.engines.base import EngineOptions
    from ie_serving.engines.generated_requests import ValueKind as Values
    from ie_serving.engines.openvino.options import OpenVinoOptions
    from ie_serving.engines.verification.child import _InferenceSteps, compare
    from ie_serving.engines.verification.verdict import ComparisonTask, Findings

    options = EngineOptions(own=(OpenVinoOptions(inference_precision="f32"),))
    task = ComparisonTask(
        _saved(directory, case),
        options,
        large=False,
        limit_s=int(PATIENCE_S),
        scratch=directory / "scratch",
    )
    try:
        found, _ = compare(task, _InferenceSteps(StringIO(), frozenset()))
    except LoadFailed:  # of onnxruntime: OpenVINO has compiled the model before
        return NO_REFERENCE
    assert isinstance(found, Findings)
    if found.why_not and not found.refused:
        return NO_REFERENCE
    shown = sorted(found.differs, key=lambda kind: kind is not Values.FINITE)
    said = [found.differs[kind] for kind in shown]
    return "; ".join([*said, *filter(None, [found.refused])]) or NOT_FOUND


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
