"""The process that compares two engines: what ends it does not end the server.

It is given one model after another on its standard input, pickled, and writes what it finds as
lines of JSON. Before each inference it says what it is about to run, so that the server knows what
has ended it. It ends by itself when nothing comes for a while, and its memory with it.
"""

import json
import os
import pickle
import resource
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, TextIO

from ie_serving.core.errors import ServingError
from ie_serving.core.tensors import SERVING_DEFAULT, Array
from ie_serving.engines.base import CompiledModel
from ie_serving.engines.generated import (
    Guess,
    Kind,
    Request,
    guesses,
    requests,
    usual,
)
from ie_serving.engines.layers import own_loop
from ie_serving.engines.layers.joining import copies
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.verification.onnx_reference import OnnxReference, Refused
from ie_serving.engines.verification.verdict import OPENVINO, Findings, Task, differences

IDLE_S = 10
"""Seconds without a model after which the process ends: a start costs half a second."""
ASKED_S = 0.15
"""Seconds of inferences after which no further request is asked: a load must not take minutes."""
GUESSED_S = 1.0
"""Seconds of guesses at what a model takes."""
MOST_GUESSES = 60
OTHER_SIZES = 2
"""Further sizes of open dimensions that are compared."""
SHORT_S = 0.02
"""Seconds of an inference from which on other sizes are not tried: a load would take them."""
PLAIN = {"NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": str(min(2, os.cpu_count() or 1))}
"""Properties with which OpenVINO compiles once, and measures nothing."""


class _Steps:
    """Numbers inferences, and says each before it begins."""

    def __init__(self, out: TextIO, skipped: frozenset[int]) -> None:
        self._out = out
        self._skipped = skipped
        self._number = 0

    def begin(self, engine: str, request: Request) -> bool:
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


def compare(task: Task, steps: _Steps) -> Findings:
    """Compare the engines on requests that are made up for the model.

    Raises:
        ServingError: an engine does not take the model.
    """
    reference = OnnxReference(task.file)
    guessed = _guessed(reference, steps)
    if not guessed:
        return Findings(why_not=f"{reference.library} takes no request that was made up")
    with closing(_compiled(task)) as model:
        return _Comparison(reference, model, steps).of(guessed)


def _compiled(task: Task) -> CompiledModel:
    # Here, since the reference may refuse the file before, and is imported faster.
    from ie_serving.engines.openvino.compile import OpenVinoEngine

    own = task.options.of(OpenVinoOptions)
    own = replace(own, plugin_config={**PLAIN, **own.plugin_config})
    options = replace(task.options, nireq=1, ahead=False, execution="inline", cache_dir=None)
    options = options.having(own)
    return OpenVinoEngine().compile(task.file.parent, options)


Answered = tuple[Guess, Request, Mapping[str, Array]]
"""A guess, the request that was made of it, and the reference's outputs."""


def _guessed(reference: OnnxReference, steps: _Steps) -> list[Answered]:
    """Give guesses that the reference takes: the first, and where it is fast some other sizes."""
    began, found = time.perf_counter(), list[Answered]()
    for number, guess in enumerate(guesses(reference.inputs)):
        took = time.perf_counter() - began
        if number == MOST_GUESSES or took > GUESSED_S or len(found) > OTHER_SIZES:
            break
        if found and (took > SHORT_S or not _is_alike(guess, found[0][0])):
            continue
        request = usual(reference.inputs, guess)
        if answer := _answer(reference, request, steps):
            found.append((guess, request, answer))
    return found


def _is_alike(one: Guess, other: Guess) -> bool:
    """Tell whether guesses differ in sizes alone."""
    return (one.integers, one.parameters) == (other.integers, other.parameters)


def _answer(
    reference: OnnxReference, request: Request, steps: _Steps
) -> Mapping[str, Array] | None:
    """Give the reference's outputs; None where it refuses the request."""
    if not steps.begin(reference.library, request):
        return None
    try:
        return reference.run(request.inputs)
    except Refused:
        return None


class _Comparison:
    """Asks both engines the same requests."""

    def __init__(self, reference: OnnxReference, model: CompiledModel, steps: _Steps) -> None:
        self._reference = reference
        self._model = model
        self._signature = model.signatures[SERVING_DEFAULT]
        self._names = reference.names_of(self._signature)
        self._steps = steps
        self._found = Findings(reference.release)

    def of(self, guessed: Sequence[Answered]) -> Findings:
        """Compare until the time is over; at least one request."""
        taken = self._signature.ignored.union(self._names.inputs.values())
        if dropped := self._reference.known - taken:
            self._found.refused = f'OpenVINO drops input "{min(dropped)}"'
            return self._found
        until = time.perf_counter() + ASKED_S
        for _, request, expected in guessed:
            self._compare(request, expected)
        for request in requests(self._reference.inputs, guessed[0][0]):
            if time.perf_counter() > until:
                break
            answer = _answer(self._reference, request, self._steps)
            if answer is not None:
                self._compare(request, answer)
        if not self._found.asked:
            self._found.why_not = "OpenVINO takes no request that was made up"
        return self._found

    def _compare(self, request: Request, expected: Mapping[str, Array]) -> None:
        if not self._steps.begin(OPENVINO, request):
            return
        try:
            found = self._infer(request)
        except ServingError as error:
            self._refused(request, error)
            return
        self._found.asked += 1
        shown = {name: found[own] for own, name in self._names.outputs.items()}
        expected = {name: expected[name] for name in shown}
        if text := differences(shown, expected, self._signature.precision):
            self._found.differs.setdefault(request.kind, f"{request}: {text}")

    def _infer(self, request: Request) -> Mapping[str, Array]:
        names = self._names.inputs
        inputs = {name: request.inputs[names[name]] for name in self._signature.inputs}
        return own_loop.run(self._model.infer(self._signature, inputs, copies))

    def _refused(self, request: Request, error: ServingError) -> None:
        if request.kind is Kind.FINITE and not self._found.refused:
            self._found.refused = f"{request}: {error}"


def main(given: BinaryIO, out: TextIO) -> None:
    """Compare models until nothing comes for a while, or the server has gone."""
    while select.select([given], [], [], IDLE_S)[0]:
        try:
            task: Task = pickle.load(given)
        except EOFError:
            return
        signal.alarm(task.limit_s)
        try:
            found = compare(task, _Steps(out, task.skipped))
        except Exception as error:  # a defect here says nothing of either engine
            found = Findings(why_not=str(error) or repr(error))
        signal.alarm(0)
        say(out, {"found": pickle.dumps(found).hex()})


def _begin() -> None:
    """Give way to the server: for processors, and when memory runs out."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(5)
    with suppress(OSError):  # of a /proc that is read alone
        Path("/proc/self/oom_score_adj").write_text("1000")


def run() -> None:
    """Be the process."""
    # Libraries write to standard output as they like: lines for the server have another way.
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _begin()
    with suppress(BrokenPipeError):  # the server has gone
        main(sys.stdin.buffer, lines)
    os._exit(0)
