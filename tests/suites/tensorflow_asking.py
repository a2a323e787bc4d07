"""What becomes of the tests of TensorFlow's operations: each is loaded, asked and compared.

Run as a program it takes names of tests and says what becomes of each, line by line:
`tensorflow.py` starts another one where it ends, and knows by the last line which test ended it.
"""

import asyncio
import json
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ie_serving.core.values.errors import ServingError
from ie_serving.engines.run.program import CompiledPrograms
from tests.suites.judging import Array, Kind, Outcome, Tolerance, differs
from tests.suites.tensorflow_graphs import NONFINITE, Graph, Request, Test, requests_of, tests
from tests.unit.engines.openvino.models import load, run

EPS32 = float(np.finfo(np.float32).eps)
HALVES = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
"""By type: a step of a number of this type, as a part of it."""
RTOL = 2e-5
"""Of float32, and of float64, which is computed as such."""
ATOL = 3e-7


class Found(NamedTuple):
    """What became of a test: of finite values, and of others."""

    outcome: Outcome
    nonfinite: str


class Refused(Exception):
    """The model does not load."""


def ask(test: Test, sizes: str, operands: str, directory: Path) -> Found | None:
    """Serve and ask one test; None where TensorFlow itself answers none of its requests."""
    outcomes: list[Outcome] = []
    nonfinite = []
    for requests in requests_of(test, sizes):
        shutil.rmtree(directory, ignore_errors=True)
        for request, outcome in _asked(test, sizes, operands, requests, directory):
            if request.values == NONFINITE:
                nonfinite.append(outcome.kind.value)
            else:
                outcomes.append(outcome)
    if not outcomes:
        return None
    return Found(max(outcomes, key=_rank), max(nonfinite, default=""))


_NOISE = re.compile(
    r"saved_model\.pb: signature 'serving_default' |Model wasn't fully converted\.\s*|"
    r"Failed operations detailed log:\s*-- |FrontEnd API failed with OpValidationFailure"
)


def short(cause: str) -> str:
    """Leave out of a cause what is the same in each."""
    return _NOISE.sub("", cause)


def _rank(outcome: Outcome) -> int:
    return list(Kind).index(outcome.kind)


def _asked(
    test: Test, sizes: str, operands: str, requests: Sequence[Request], directory: Path
) -> list[tuple[Request, Outcome]]:
    """Ask one model; what TensorFlow refuses is not asked."""
    graph = Graph.of(test, sizes, operands, requests[0].size)
    if graph is None:
        return []
    with graph.session() as session:
        found = {each: graph.answer(session, each) for each in requests}
        answers = {each: answer for each, answer in found.items() if answer is not None}
        if not answers:
            return []
        graph.save(directory, session)
    try:
        model = _loaded(directory)
    except Refused as error:
        return [(Request("load", requests[0].size), Outcome(Kind.REFUSED, str(error)))]
    try:
        return [(each, _judged(model, graph, each, answers[each])) for each in answers]
    finally:
        model.close()


def _loaded(directory: Path) -> CompiledPrograms:
    try:
        model = load(directory, inference_precision="f32")
    except ServingError as error:
        raise Refused(short(str(error))) from error
    left_out = model.signatures["serving_default"].left_out
    if left_out:
        model.close()
        raise Refused(short(left_out))
    return model


def _judged(
    model: CompiledPrograms, graph: Graph, request: Request, answer: Mapping[str, Array]
) -> Outcome:
    values = graph.values(request, ours=True)
    try:
        got = asyncio.run(run(model, values))
    except ServingError as error:
        outcome = Outcome(Kind.REFUSED, str(error))
    else:
        outcome = compared(got, answer, values, request)
    if outcome.kind is Kind.RIGHT:
        return outcome
    return Outcome(outcome.kind, f"{request.values}, n={request.size}: {outcome.cause}")


def compared(
    got: Mapping[str, Array],
    answer: Mapping[str, Array],
    values: Mapping[str, Array],
    request: Request,
) -> Outcome:
    """Compare an answer to `values` with TensorFlow's; what overflows of finite ones is not."""
    given = max(map(_largest, values.values()), default=0.0)
    is_finite = request.values != NONFINITE
    for name, value in answer.items():
        difference = _difference(got[name], np.asarray(value), given, is_finite)
        if difference:
            return Outcome(Kind.WRONG, f"{name}: {difference}")
    return Outcome(Kind.RIGHT)


def _difference(ours: Array, right: Array, given: float, is_finite: bool) -> str:
    if right.dtype.name == "bfloat16" and ours.dtype == np.float32:  # which it is within
        ours = ours.astype(right.dtype)
    if is_finite and _is_real(right) and ours.shape == right.shape:
        stays = np.isfinite(right.astype(np.float64))
        ours, right = (np.where(stays, each, 0).astype(each.dtype) for each in (ours, right))
    return differs(ours, right, _tolerance(right, given))


def _tolerance(right: Array, given: float) -> Tolerance:
    """Roundings of a type: of float16 and bfloat16 of what cancels, too."""
    name = right.dtype.name
    if not _is_real(right):
        return Tolerance(0, 0)
    largest = _largest(right)
    if name in HALVES:
        return Tolerance(2 * HALVES[name], ATOL + HALVES[name] * max(largest, given))
    return Tolerance(RTOL, ATOL + 8 * EPS32 * largest)


def _is_real(array: Array) -> bool:
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def _largest(array: Array) -> float:
    if not _is_real(array):
        return 0.0
    wide = np.abs(array.astype(np.float64))
    return float(np.max(wide, initial=0, where=np.isfinite(wide)))


def main() -> None:
    """Ask the tests whose names and places are read, one a line."""
    warnings.simplefilter("ignore")
    by_name = {test.name: test for test in tests()}
    with tempfile.TemporaryDirectory() as directory:
        for line in sys.stdin.read().splitlines():
            name, sizes, operands = line.split()
            found = ask(by_name[name], sizes, operands, Path(directory, "model"))
            said = found and (found.outcome.kind.value, found.outcome.cause, found.nonfinite)
            print(f"\n{line} {json.dumps(said)}", flush=True)


if __name__ == "__main__":
    main()
