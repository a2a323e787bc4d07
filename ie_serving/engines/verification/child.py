"""The process that compares two engines: what ends it does not end the server.

It is given one model after another on its standard input, pickled, and writes what it finds as
lines of JSON. Before each inference it says what it is about to run, so that the server knows what
has ended it. It ends by itself when nothing comes for a while, and its memory with it.
"""

import fcntl
import json
import os
import pickle
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, TextIO

from ie_serving.core.values.tensors import Array
from ie_serving.engines.base import CompiledModel
from ie_serving.engines.generated import (
    GeneratedRequest,
    Guess,
    ValueKind,
    guesses,
    is_float,
    requests,
    usual,
)
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.reading.formats import ONNX
from ie_serving.engines.verification.comparison import Answers, Comparison, has_time
from ie_serving.engines.verification.locating import LOCATE_S, first_different
from ie_serving.engines.verification.references import BY_SUFFIX, Reference, Refused
from ie_serving.engines.verification.verdict import MORE_SHARE, OPENVINO, ComparisonTask, Findings

IDLE_S = 10
"""Seconds without a model after which the process ends: a start costs half a second."""
ASKED_S = 0.5
"""Seconds of inferences after which no further request is asked, and the findings say so. Models
below `engine.LARGE_BYTES` answer all of them sooner, unless they take large inputs."""
GUESSED_S = 1.0
"""Seconds of guesses at what a model takes."""
MOST_GUESSES = 60
MOST_SIZES = 3
"""Sizes of open dimensions that are compared."""
SHORT_S = 0.02
"""Seconds of an inference from which on other sizes are not tried: a load would take them."""
MEMORY_BYTES = 4 << 30
"""Memory of the process: a model of 256 MiB, the largest compared, takes a third of it."""
MOST_BYTES = 1 << 24
"""Bytes of the further requests to a large model, which the server is given with the answers."""
PLAIN = {"NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": str(min(2, os.cpu_count() or 1))}
"""Properties with which OpenVINO compiles once, and measures nothing."""


class _Steps:
    """Numbers inferences, and says each before it begins."""

    def __init__(self, out: TextIO, skipped: frozenset[int]) -> None:
        self._out = out
        self._skipped = skipped
        self._number = 0

    def begin(self, engine: str, request: GeneratedRequest) -> bool:
        """Say that an engine is asked; False for what has ended a process before."""
        self._number += 1
        if self._number in self._skipped:
            return False
        step = {"number": self._number, "engine": engine}
        say(self._out, {**step, "kind": request.kind.name, "request": str(request)})
        return True


def say(out: TextIO, line: Mapping[str, object]) -> None:
    """Write one line for the server."""
    print(json.dumps(line), file=out, flush=True)


def compare(
    task: ComparisonTask, steps: _Steps
) -> tuple[Findings | Answers, GeneratedRequest | None]:
    """Compare the engines on requests that are made up for the model.

    Returns:
        Of a large model of floats the answers of the second engine alone: the server asks its own.
        And the first request of finite values whose answers differ, where the operation is looked
        for that differs first.

    Raises:
        ServingError: an engine does not take the model.
    """
    began = time.perf_counter()
    second = BY_SUFFIX[task.file.suffix]
    references = second.opened(task.file)
    # Integers are indices and sizes, by which an engine crashes: they are asked here alone.
    is_asked_there = (
        task.large
        and len(references) == 1
        and all(is_float(each.dtype) for each in references[0].inputs)
    )
    asked = time.perf_counter()
    guessed = [(each, found) for each in references if (found := _guessed(each, steps))]
    if not guessed:
        return Findings(why_not=f"{second.library} takes no request that was made up"), None
    if is_asked_there:
        ((reference, taken),) = guessed
        more_s = MORE_SHARE * (asked - began)
        return _answers(
            reference, taken, steps, partial(has_time, began=asked, most_s=more_s)
        ), None
    return _all(task, guessed, steps)


def _compiled(task: ComparisonTask, file: Path) -> CompiledModel:
    # Here, since the reference may refuse the file before, and is imported faster.
    from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine

    own = task.options.of(OpenVinoOptions)
    own = replace(own, plugin_config={**PLAIN, **own.plugin_config})
    options = replace(task.options, nireq=1, ahead=False, execution="inline", cache_dir=None)
    options = options.having(own)
    # A second engine that serves has the requests with NaN where this one differs, else the second
    # graph that is compiled for them.
    detours = not BY_SUFFIX[file.suffix].serves
    return OpenVinoEngine(detours=detours).compile(file.parent, options)


Answered = tuple[Guess, GeneratedRequest, Mapping[str, Array]]
"""A guess, the request that was made of it, and the reference's outputs."""


def _guessed(reference: Reference, steps: _Steps) -> list[Answered]:
    """Give guesses that the reference takes: the first, and where it is fast some other sizes."""
    began, found = time.perf_counter(), list[Answered]()
    for number, guess in enumerate(guesses(reference.inputs)):
        took = time.perf_counter() - began
        if number == MOST_GUESSES or took > GUESSED_S or len(found) == MOST_SIZES:
            break
        if found and (took > SHORT_S or not _is_alike(guess, found[0][0])):
            continue
        request = usual(reference.inputs, guess)
        if answer := _answer(reference, request, steps):
            found.append((guess, request, answer))
    return found


def _answers(
    reference: Reference,
    taken: Sequence[Answered],
    steps: _Steps,
    goes_on: Callable[[int], bool],
) -> Answers:
    """Give answers to what the guesses have shown, and to more while `goes_on` tells so."""
    answered = [(request, answer) for _, request, answer in taken]
    for request in _finite(reference, taken[0][0]):
        if not goes_on(len(answered)):
            break
        if answer := _answer(reference, request, steps):
            answered.append((request, answer))
    return Answers(reference.release, reference.tensors, answered)


def _finite(reference: Reference, guess: Guess) -> Sequence[GeneratedRequest]:
    """Give further requests of finite values for a large model; none where each is large, too."""
    found = [each for each in requests(reference.inputs, guess) if each.kind is ValueKind.FINITE]
    size = sum(array.nbytes for each in found for array in each.inputs.values())
    return found if size < MOST_BYTES else ()


def _is_alike(one: Guess, other: Guess) -> bool:
    """Tell whether guesses differ in sizes alone."""
    return (one.integers, one.parameters) == (other.integers, other.parameters)


def _answer(
    reference: Reference, request: GeneratedRequest, steps: _Steps
) -> Mapping[str, Array] | None:
    """Give the reference's outputs; None where it refuses the request."""
    if not steps.begin(reference.library, request):
        return None
    try:
        return reference.run(request.inputs)
    except Refused:
        return None


def _all(
    task: ComparisonTask, guessed: Sequence[tuple[Reference, Sequence[Answered]]], steps: _Steps
) -> tuple[Findings, GeneratedRequest | None]:
    """Compare here, within the limit of time; at least one request of each signature."""
    found = Findings(guessed[0][0].release)
    shows: GeneratedRequest | None = None
    with closing(_compiled(task, task.file)) as model:
        until = time.perf_counter() + ASKED_S
        for reference, taken in guessed:
            if not model.signatures[reference.tensors.signature].left_out:
                begins = partial(steps.begin, OPENVINO)
                comparison = Comparison(found, reference.tensors, model, begins)
                _ask(comparison, reference, taken, steps, until)
                shows = shows or comparison.shows
    if not found.asked:
        found.why_not = "OpenVINO takes no request that was made up"
    return found, None if task.large or task.file.suffix != ONNX else shows


def _ask(
    comparison: Comparison,
    reference: Reference,
    taken: Sequence[Answered],
    steps: _Steps,
    until: float,
) -> None:
    """Compare one signature: on what the guesses have shown, and on more while there is time."""
    if comparison.found.refused:
        return
    for _, request, expected in taken:
        comparison.compare(request, expected)
    for request in requests(reference.inputs, taken[0][0]):
        if time.perf_counter() > until:
            comparison.found.cut_off = True
            return
        answer = _answer(reference, request, steps)
        if answer is not None:
            comparison.compare(request, answer)


def main(given: BinaryIO, out: TextIO) -> None:
    """Compare models until nothing comes for a while, or the server has gone."""
    while select.select([given], [], [], IDLE_S)[0]:
        try:
            task: ComparisonTask = pickle.load(given)
        except EOFError:
            return
        found: Findings | Answers
        shows: GeneratedRequest | None = None
        signal.alarm(task.limit_s)
        try:
            found, shows = compare(task, _Steps(out, task.skipped))
        except MemoryError:
            found = Findings(why_not=f"it takes more memory than {MEMORY_BYTES >> 30} GiB")
        except Exception as error:  # a defect here says nothing of either engine
            found = Findings(why_not=str(error) or repr(error))
        say(out, _line(found, goes_on=shows is not None))
        if shows is not None and isinstance(found, Findings):
            say(out, _line(_located(task, found, shows)))
        signal.alarm(0)


def _line(found: Findings | Answers, *, goes_on: bool = False) -> Mapping[str, object]:
    return {"found": pickle.dumps(found).hex(), "goes_on": goes_on}


def _located(task: ComparisonTask, found: Findings, shows: GeneratedRequest) -> Findings:
    """Add to the findings which operation differs first; the server has them already."""
    signal.alarm(LOCATE_S)
    opened = BY_SUFFIX[ONNX].opened
    try:
        first = first_different(task, shows, opened, partial(_compiled, task))
    except Exception:  # it is more than was asked for
        return found
    if first:
        found.differs[ValueKind.FINITE] += f"; the first operation that differs is {first}"
    return found


def _begin(lifeline: int) -> None:
    """End with the server, and give way to it: for processors, and when memory runs out."""
    # The kernel sends SIGIO, which ends the process, when the server's end of the pipe closes. What
    # prctl(2) offers follows the thread that has started the process, and loads come and go.
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    if select.select([lifeline], [], [], 0)[0]:  # it has closed before
        os._exit(0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    os.nice(5)
    with suppress(OSError):  # of a /proc that is read alone
        Path("/proc/self/oom_score_adj").write_text("1000")


def run(lifeline: int) -> None:
    """Be the process; it ends when the other end of the pipe `lifeline` closes."""
    # Libraries write to standard output as they like: lines for the server have another way.
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _begin(lifeline)
    with suppress(BrokenPipeError):  # the server has gone
        main(sys.stdin.buffer, lines)
    os._exit(0)
