"""The driver of LiteRT: for TFLite models that OpenVINO cannot compute, or computes differently.

A model with variables keeps state from one call to the next. Each request begins with the state of
the file: otherwise it would see that of other clients.
"""

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from queue import Empty, LifoQueue
from typing import Any

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import BY_NUMPY, Array, Signature, TensorSpec, without_port
from ie_serving.engines import driver_params
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.reading.lite_signatures import (
    LiteSignature,
    keeps_state,
    refuse_deadly,
    signatures_of,
)
from ie_serving.engines.openvino.unsupported_settings import refuse_unsupported
from ie_serving.engines.run.function import needed, one_line, program
from ie_serving.engines.run.program import CompiledPrograms, Program
from ie_serving.engines.run.threads import threads

NAME, EXTRA, MODULE = "LiteRT", "litert", "ai_edge_litert"
TRIALS = 3
"""Measurements of each way to open a model with variables; the shortest counts."""
LONG_S = 0.02
"""Seconds of a request by the default delegate above which that is kept: opening is little then."""


def load(file: Path, options: EngineOptions) -> CompiledPrograms:
    """Make the model of a file. See `engines.drivers.LoadDirectory`."""
    driver_params.check_known(options, (), EXTRA)
    with needed(MODULE, EXTRA, file.name):
        from ie_serving.engines.litert import interpreters
    data = file.read_bytes()
    signatures = signatures_of(data, file.name)
    refuse_deadly(data, file.name)
    # Several requests may run at once; of a model with variables each has an interpreter.
    is_stateful = keeps_state(data, file.name)
    open_one = partial(interpreters.interpreter, file, threads(), exact=False)
    found = []
    for each in signatures:
        make: Callable[[], Any] = partial(_run, interpreters, open_one, each)
        if is_stateful:
            make = _soonest(interpreters, data, each)
        found.append(_program(each, make, options, is_stateful=is_stateful))
    told = "; its variables as the file has them, for each request" if is_stateful else ""
    runs_on = {each.signature.name: f"{NAME}{told}" for each in found}
    return CompiledPrograms(found, runs_on=runs_on)


def _run(interpreters: Any, open_one: Any, signature: LiteSignature) -> Any:  # noqa: ANN401
    try:
        whole = open_one()
        whole.allocate_tensors()  # which the library refuses once a signature has a runner
        return interpreters.LiteRun(whole, signature)
    except (RuntimeError, KeyError) as error:
        raise LoadFailed(f"{NAME} does not take the file: {one_line(error)}") from error


def _soonest(interpreters: Any, data: bytes, signature: LiteSignature) -> Callable[[], Any]:  # noqa: ANN401
    """Give what opens a model with variables, as each request does, not from a disk.

    The default delegate infers faster, and is opened and closed in a millisecond, with its threads.
    The shorter of both together is chosen; what fails on zeros keeps the delegate.
    """

    def seconds(make: Callable[[], Any]) -> float:
        began = time.perf_counter()
        try:
            run = make()
            run.run({name: np.zeros(d["shape"], d["dtype"]) for name, d in run.inputs.items()})
        except (LoadFailed, RuntimeError, ValueError):
            return math.inf
        del run  # which ends its threads
        return time.perf_counter() - began

    ways = [
        partial(_run, interpreters, partial(interpreters.interpreter, data, count, exact=exact))
        for count, exact in ((threads(), False), (1, True))
    ]
    makes = [partial(way, signature) for way in ways]
    # One row tells nothing of many, for which the delegate takes a third of the time.
    opened = makes[0]().inputs.values()
    if any(-1 in each["shape_signature"] for each in opened) or seconds(makes[0]) > LONG_S:
        return makes[0]
    return min(makes, key=lambda make: min(seconds(make) for _ in range(TRIALS)))


def _program(
    lite: LiteSignature,
    make: Callable[[], Any],
    options: EngineOptions,
    *,
    is_stateful: bool,
) -> Program:
    first = make()
    signature = Signature(
        lite.name,
        _specs(lite.inputs, first.inputs),
        _specs(lite.outputs, first.outputs),
        lite.method,
    )
    refuse_unsupported(options, signature, NAME)
    idle: LifoQueue[Any] = LifoQueue()
    idle.put(first)
    names = {alias: without_port(name) for alias, name in lite.inputs.items()}
    given = {alias: without_port(name) for alias, name in lite.outputs.items()}

    def call(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        own = {names[alias]: array for alias, array in inputs.items()}
        run = make() if is_stateful else _idle_one(idle) or make()
        found = run.run(own)
        if not is_stateful:  # nor after a failure
            idle.put(run)
        return {alias: found[name] for alias, name in given.items()}

    # Never on the event loop, however short: a request may choose the rounds of a loop in a graph.
    return program(signature, call, options, library=NAME, refusals=(ValueError, RuntimeError))


def _idle_one(idle: "LifoQueue[Any]") -> Any:  # noqa: ANN401
    try:
        return idle.get_nowait()  # another thread may have taken the last one meanwhile
    except Empty:
        return None


def _specs(names: Mapping[str, str], details: Mapping[str, Any]) -> dict[str, TensorSpec]:
    return {alias: _spec(alias, name, details[without_port(name)]) for alias, name in names.items()}


def _spec(alias: str, name: str, details: Any) -> TensorSpec:  # noqa: ANN401  untyped
    dtype = BY_NUMPY.get(np.dtype(details["dtype"]))
    if dtype is None:
        raise LoadFailed(
            f'{NAME} has {details["dtype"]} for "{alias}", which no client can send: convert the'
            " model with another type"
        )
    sizes = details["shape_signature"] if len(details["shape_signature"]) else details["shape"]
    return TensorSpec(alias, dtype, tuple(int(size) for size in sizes), name)
