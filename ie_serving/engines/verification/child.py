"""Compares two engines in a child process, so that a crash of an engine does not end the server.

The process reads one model after another from its standard input, pickled, and writes findings as
lines of JSON. Before each inference it writes which one it begins, so that the server knows the
cause of a crash. Without a model for `IDLE_S` it exits, which frees its memory.
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

from ie_serving.core.runtime.scratch import Scratch
from ie_serving.core.values.tensors import Arrays
from ie_serving.engines.base import CompiledModel
from ie_serving.engines.generated_requests import (
    GeneratedRequest,
    Guess,
    ValueKind,
    guesses,
    is_float,
    requests,
    usual,
)
from ie_serving.engines.onnx_file import Node, steps, with_outputs
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.reading.formats import ONNX
from ie_serving.engines.verification.comparison import (
    BY_SUFFIX,
    Comparison,
    Reference,
    ReferenceOutputs,
    RefusedBySecond,
    has_time,
)
from ie_serving.engines.verification.verdict import (
    MORE_SHARE,
    OPENVINO,
    ComparisonTask,
    Findings,
    differences,
)

IDLE_S = 10
"""Seconds without a model after which the process ends: a start costs half a second."""
ASKED_S = 0.5
"""Seconds of inferences after which no further request is sent, which the findings note. A model
smaller than `LARGE_BYTES` answers all of them sooner, unless it takes large inputs."""
GUESSED_S = 1.0
"""Seconds for guessing which inputs a model accepts."""
MOST_GUESSES = 60
"""Guesses tried at most. A model that accepts none of them is not compared, as one that takes
longer than `GUESSED_S`."""
MOST_SIZES = 3
"""Most sizes of open dimensions that are compared."""
SHORT_S = 0.02
"""Seconds of an inference from which other sizes are not tried, to bound the time of a load."""
MEMORY_BYTES = 4 << 30
"""Memory limit of the process: a model of 256 MiB, the largest compared, takes a third of it."""
MOST_BYTES = 1 << 24
"""Most bytes of further requests to a large model, sent to the server with the outputs."""
PLAIN = {"NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": str(min(2, os.cpu_count() or 1))}
"""Properties with which OpenVINO compiles once, without measurements."""

AnsweredGuess = tuple[Guess, GeneratedRequest, Arrays]
"""A guess, the request made from it, and the reference's outputs."""
LOCATE_S = 10
"""Seconds after which the process that searches for the operation is ended; the verdict stays."""
MOST_OPERATIONS = 1000
"""Most operations of a model that is searched: each output takes memory in both engines."""
NO_TENSORS = frozenset(
    {"Constant", "Optional", "OptionalGetElement", "SequenceConstruct", "SequenceEmpty"}
    | {"SequenceErase", "SequenceInsert", "SequenceMap", "SplitToSequence"}
)
"""Operators whose outputs are not tensors, or need no comparison."""


class StepNotes:
    """Numbers inferences, and reports each before it begins."""

    def __init__(self, out: TextIO, skipped: frozenset[int]) -> None:
        self._out = out
        self._skipped = skipped
        self._number = 0

    def begin(self, engine: str, request: GeneratedRequest) -> bool:
        """Report the next inference; False to skip one that ended a process before."""
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
    task: ComparisonTask, steps: StepNotes
) -> tuple[Findings | ReferenceOutputs, GeneratedRequest | None]:
    """Compare the engines on requests generated for the model.

    Returns:
        The findings; for a large model of floats only the second engine's answers, since the server
        runs its own. And the first request of finite values with different answers, if the
        differing operation should be located.

    Raises:
        ServingError: an engine does not accept the model.
    """
    began = time.perf_counter()
    second = BY_SUFFIX[task.file.suffix]
    references = second.opened(task.file)
    # Integers are indices and sizes, which may crash an engine: they are tried only here.
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
        return _all_outputs(
            reference, taken, steps, partial(has_time, began=asked, most_s=more_s)
        ), None
    return _all(task, guessed, steps)


def compiled_program(task: ComparisonTask, file: Path) -> CompiledModel:
    """Compile a file as the server would, without keeping it."""
    # Imported here, since the reference, which imports faster, may refuse the file first.
    from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine

    own = task.options.of(OpenVinoOptions)
    own = replace(own, plugin_config={**PLAIN, **own.plugin_config})
    options = replace(task.options, nireq=1, ahead=False, execution="inline", cache_dir=None)
    options = options.having(own)
    # A second engine may get requests with NaN if OpenVINO differs on them; otherwise a
    # second graph is compiled for them.
    detours = not BY_SUFFIX[file.suffix].takes_odd
    return OpenVinoEngine(detours=detours).compile(file.parent, options)


def _guessed(reference: Reference, steps: StepNotes) -> list[AnsweredGuess]:
    """Give guesses that the reference accepts: the first, and for fast models some other sizes."""
    began, found = time.perf_counter(), list[AnsweredGuess]()
    for number, guess in enumerate(guesses(reference.inputs)):
        took = time.perf_counter() - began
        if number == MOST_GUESSES or took > GUESSED_S or len(found) == MOST_SIZES:
            break
        if found and (took > SHORT_S or not _is_alike(guess, found[0][0])):
            continue
        request = usual(reference.inputs, guess)
        if outputs := _outputs_of(reference, request, steps):
            found.append((guess, request, outputs))
    return found


def _all_outputs(
    reference: Reference,
    taken: Sequence[AnsweredGuess],
    steps: StepNotes,
    goes_on: Callable[[int], bool],
) -> ReferenceOutputs:
    """Give answers to the guessed requests, and to more while `goes_on` returns true."""
    answered = [(request, outputs) for _, request, outputs in taken]
    for request in _finite(reference, taken[0][0]):
        if not goes_on(len(answered)):
            break
        if outputs := _outputs_of(reference, request, steps):
            answered.append((request, outputs))
    return ReferenceOutputs(reference.release, reference.tensors, answered)


def _finite(reference: Reference, guess: Guess) -> Sequence[GeneratedRequest]:
    """Give further requests of finite values for a large model; none if they are large too."""
    found = [each for each in requests(reference.inputs, guess) if each.kind is ValueKind.FINITE]
    size = sum(array.nbytes for each in found for array in each.inputs.values())
    return found if size < MOST_BYTES else ()


def _is_alike(one: Guess, other: Guess) -> bool:
    """Tell whether guesses differ only in sizes."""
    return (one.integers, one.parameters) == (other.integers, other.parameters)


def _outputs_of(reference: Reference, request: GeneratedRequest, steps: StepNotes) -> Arrays | None:
    """Give the reference's outputs; None if it refuses the request."""
    if not steps.begin(reference.library, request):
        return None
    try:
        return reference.run(request.inputs)
    except RefusedBySecond:
        return None


def _all(
    task: ComparisonTask,
    guessed: Sequence[tuple[Reference, Sequence[AnsweredGuess]]],
    steps: StepNotes,
) -> tuple[Findings, GeneratedRequest | None]:
    """Compare in this process within the time limit; at least one request of each signature."""
    found = Findings(guessed[0][0].release)
    shows: GeneratedRequest | None = None
    with closing(compiled_program(task, task.file)) as model:
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
    taken: Sequence[AnsweredGuess],
    steps: StepNotes,
    until: float,
) -> None:
    """Compare one signature on the guessed requests, and on more while time is left."""
    if comparison.found.refused:
        return
    asked = comparison.found.asked
    for _, request, expected in taken:
        comparison.compare(request, expected)
    guess = taken[0][0]
    if comparison.found.asked == asked:
        guess = _larger(comparison, reference, guess, steps, until) or guess
    for request in requests(reference.inputs, guess):
        if time.perf_counter() > until:
            comparison.found.cut_off = True
            return
        outputs = _outputs_of(reference, request, steps)
        if outputs is not None:
            comparison.compare(request, outputs)


def _larger(
    comparison: Comparison, reference: Reference, refused: Guess, steps: StepNotes, until: float
) -> Guess | None:
    """Compare on larger sizes until OpenVINO takes one, and give that.

    It refuses sizes that the window of a pooling does not fit into; onnxruntime takes them.
    """
    asked, least = comparison.found.asked, max(refused.sizes.values(), default=0)
    larger = [
        (sorted(each.sizes.values(), reverse=True), each)
        for each in guesses(reference.inputs)
        if _is_alike(each, refused) and max(each.sizes.values(), default=0) > least
    ]
    for _, guess in sorted(larger, key=lambda pair: pair[0]):
        if time.perf_counter() > until:
            break
        request = usual(reference.inputs, guess)
        outputs = _outputs_of(reference, request, steps)
        if outputs is not None:
            comparison.compare(request, outputs)
        if comparison.found.asked > asked:
            return guess
    return None


def main(given: BinaryIO, out: TextIO) -> None:
    """Compare models until none comes for `IDLE_S`, or the server is gone."""
    while _is_readable(given.fileno(), IDLE_S):
        try:
            task: ComparisonTask = pickle.load(given)
        except EOFError:
            return
        found: Findings | ReferenceOutputs
        shows: GeneratedRequest | None = None
        signal.alarm(task.limit_s)
        try:
            found, shows = compare(task, StepNotes(out, task.skipped))
        except MemoryError:
            found = Findings(why_not=f"it takes more memory than {MEMORY_BYTES >> 30} GiB")
        except Exception as error:  # a defect here says nothing of either engine
            found = Findings(why_not=str(error) or repr(error))
        say(out, _line(found, goes_on=shows is not None))
        if shows is not None and isinstance(found, Findings):
            say(out, _line(_located(task, found, shows)))
        signal.alarm(0)


def _line(found: Findings | ReferenceOutputs, *, goes_on: bool = False) -> Mapping[str, object]:
    return {"found": pickle.dumps(found).hex(), "goes_on": goes_on}


def _located(task: ComparisonTask, found: Findings, shows: GeneratedRequest) -> Findings:
    """Add the first differing operation to the findings, which the server already has."""
    signal.alarm(LOCATE_S)
    opened = BY_SUFFIX[ONNX].opened
    try:
        first = first_different(task, shows, opened, partial(compiled_program, task))
    except Exception:  # the operation is optional
        return found
    if first:
        found.differs[ValueKind.FINITE] += f"; the first operation that differs is {first}"
    return found


def _is_readable(descriptor: int, limit_s: int) -> bool:
    """Wait until there is something to read, or the other end is closed."""
    waiting = select.poll()  # `select` takes no descriptor above 1,023, and a server has thousands
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(limit_s * 1000))


def _begin(lifeline: int) -> None:
    """End with the server, and yield to it: lower CPU priority, and killed first without memory."""
    # The kernel sends SIGIO, which ends the process, when the server's end of the pipe closes. The
    # signal of prctl(2) follows the thread that started the process, and threads of loads end.
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    if _is_readable(lifeline, 0):  # it has closed before
        os._exit(0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    os.nice(5)
    with suppress(OSError):  # /proc is mounted read-only
        Path("/proc/self/oom_score_adj").write_text("1000")


def run(lifeline: int) -> None:
    """Run the process until the other end of the pipe `lifeline` closes."""
    # Libraries may write to standard output: lines for the server use a copy of its descriptor.
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _begin(lifeline)
    with suppress(BrokenPipeError):  # the server has gone
        main(sys.stdin.buffer, lines)
    os._exit(0)


# -- the first operation that differs -----------------------------------------------------------
# Both engines run a copy of the file that outputs the result of every operation. Engines fuse fewer
# operations in it, so the difference may disappear: then no operation is named.


def first_different(
    task: ComparisonTask,
    request: GeneratedRequest,
    opened: Callable[[Path], Sequence[Reference]],
    compiled: Callable[[Path], CompiledModel],
) -> str:
    """Name the operation by its kind and output; empty if none is found.

    Args:
        task: the comparison.
        request: one that the engines answer differently.
        opened: opens a file by the second engine.
        compiled: compiles a file by OpenVINO.
    """
    file = task.file
    nodes = [node for node in steps(file) if node.kind not in NO_TENSORS]
    if len(nodes) > MOST_OPERATIONS:
        return ""
    given = {name for each in opened(file) for name in each.tensors.outputs}
    added = dict.fromkeys(name for node in nodes for name in node.outputs if name)
    with Scratch(path=task.scratch) as folder:
        copy = folder / file.name
        copy.write_bytes(with_outputs(file.read_bytes(), [n for n in added if n not in given]))
        (reference,) = opened(copy)
        expected = reference.run(request.inputs)
        with closing(compiled(copy)) as model:
            found = Comparison(Findings(), reference.tensors, model).outputs_of(request)
            return next(
                filter(None, (_first_different(node, found, expected) for node in nodes)), ""
            )


def _first_different(node: Node, found: Arrays, expected: Arrays) -> str:
    for name in node.outputs:
        if name in found and differences({name: found[name]}, {name: expected[name]}, ""):
            return f'{node.kind} "{name}"'
    return ""
