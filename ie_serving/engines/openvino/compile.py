"""The OpenVINO engine: a version directory becomes a compiled model."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import openvino as ov

from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino import formats, probe
from ie_serving.engines.openvino.infer import OpenVinoModel, Program
from ie_serving.engines.openvino.pace import INLINE_MAX_S, Pace, size_of
from ie_serving.engines.openvino.properties import CACHE, PRECISION, THREADS, properties
from ie_serving.engines.openvino.read import Draft, read
from ie_serving.engines.openvino.runtime import core, load_failures, one_line
from ie_serving.engines.openvino.shape_inference import ShapeInference
from ie_serving.engines.openvino.specs import Ports, prepare, zeros
from ie_serving.engines.openvino.threads import thread_limit
from ie_serving.telemetry.logs import Event

log = logging.getLogger(__name__)

TINY_S = 0.001
"""Models below this may run on one thread.

The engine's other threads go on spinning for about 300 us after each inference: more CPU time than
all of a small request takes, and where cores are few, it is the event loop's or the client's.
"""
SLOWER = 1.3
"""How much slower a request may become by one thread."""
REQUEST_S = 0.0001
"""What a request takes at least beside its inference."""
MANY_ROWS = 64
"""Size of open dimensions with which one thread has to keep up as well."""


class OpenVinoEngine:
    """Compiles OpenVINO IR, TensorFlow SavedModels and ONNX. See `engines.base.Engine`."""

    name = "openvino"

    def missing(self, files: Collection[str]) -> str | None:
        """See `engines.base`."""
        return formats.missing(files)

    def compile(self, directory: Path, options: EngineOptions) -> OpenVinoModel:
        """See `engines.base`."""
        return OpenVinoModel([_program(draft, options) for draft in read(directory)])


@dataclass(frozen=True)
class _Compiled:
    """A compiled model and how long one inference takes; None when that is not known."""

    model: ov.CompiledModel
    seconds: float | None
    one_thread: bool = False


def _program(draft: Draft, options: EngineOptions) -> Program:
    ports = prepare(draft, options)
    compiled = _compile(draft, ports, options)
    pace = Pace(options.execution)
    sample = zeros(ports.inputs, 1)
    if compiled.seconds is not None and sample is not None:
        pace.learn_at_load(size_of(sample), compiled.seconds)
    nireq = options.nireq or int(compiled.model.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))
    _log_choice(draft, compiled, options, nireq)
    return Program(ports, compiled.model, _shape_inference(draft, ports), nireq, pace)


def _shape_inference(draft: Draft, ports: Ports) -> ShapeInference | None:
    """Give None where only one combination of shapes is taken."""
    if all(port.static for port in ports.inputs):
        return None
    with load_failures("the model's shapes cannot be inferred"):
        return ShapeInference(draft.model, ports.inputs)


def _compile(draft: Draft, ports: Ports, options: EngineOptions) -> _Compiled:
    config = properties(options, thread_limit())
    by_user = set(properties(options, None))
    device = options.target_device
    with load_failures(f"the model cannot be compiled for {device}"):
        model = _compile_cached(draft, device, config)
        several = _Compiled(model, probe.latency(ports, model))
        may_choose = device == "CPU" and not by_user & {THREADS, "NUM_STREAMS", "PERFORMANCE_HINT"}
        if not may_choose or several.seconds is None or several.seconds > TINY_S:
            return several
        model = _compile_cached(draft, device, {**config, THREADS: "1"})
        single = _Compiled(model, probe.latency(ports, model), one_thread=True)
    return single if _keeps_up(ports, single, several) else several


def _compile_cached(draft: Draft, device: str, config: Mapping[str, str]) -> ov.CompiledModel:
    """Compile; without the cache of compiled models when that is what fails, as on a full disk."""
    try:
        return core().compile_model(draft.model, device, config)
    except RuntimeError as error:
        if CACHE not in config:
            raise
        uncached = {name: value for name, value in config.items() if name != CACHE}
        model = core().compile_model(draft.model, device, uncached)
        why = one_line(error)
        log.warning(
            Event("compiled model not kept: check --cache_dir", path=config[CACHE], why=why)
        )
        return model


def _keeps_up(ports: Ports, single: _Compiled, several: _Compiled) -> bool:
    """Tell whether one thread is about as fast, for many rows too where they may come."""
    pairs = [(single.seconds, several.seconds)]
    if not all(port.static for port in ports.inputs):
        many = [probe.latency(ports, c.model, MANY_ROWS) for c in (single, several)]
        pairs.append((many[0], many[1]))
    return all(s is not None and m is not None and about_as_fast(s, m) for s, m in pairs)


def about_as_fast(single_s: float, several_s: float) -> bool:
    """Tell whether one thread is to be preferred, from the seconds of one inference."""
    return REQUEST_S + single_s <= SLOWER * (REQUEST_S + several_s)


def _log_choice(draft: Draft, compiled: _Compiled, options: EngineOptions, nireq: int) -> None:
    precision = _property(compiled.model, PRECISION)
    if options.inference_precision not in ("", precision):
        asked = options.inference_precision
        log.warning(Event("inference_precision is not to be had", asked=asked, used=precision))
    seconds = compiled.seconds
    inline = seconds is not None and seconds <= INLINE_MAX_S
    log.info(
        Event(
            "model compiled",
            signature=draft.name,
            device=options.target_device,
            precision=precision,
            nireq=nireq,
            threads=1 if compiled.one_thread else _property(compiled.model, THREADS),
            streams=_property(compiled.model, "NUM_STREAMS"),
            latency_us="unknown" if seconds is None else round(seconds * 1e6),
            execution=f"auto:{'inline' if inline else 'async'}"
            if options.execution == "auto"
            else options.execution,
        )
    )


def _property(model: ov.CompiledModel, name: str) -> str:
    """Give a property as text; not every device has every one."""
    try:
        value = model.get_property(name)
    except RuntimeError:
        return "unknown"
    return value.get_type_name() if isinstance(value, ov.Type) else str(value)
