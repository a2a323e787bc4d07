"""Makes a program of a signature's graph: guards it, compiles it, makes its infer requests."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import openvino as ov

from ie_serving.core.values.errors import InvalidRequest, LoadFailed, ServingError
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.layer_options import Sequences
from ie_serving.engines.openvino.compiling.lone_row import (
    LoneRowGraph,
    copy_for_one_row,
    fix_to_one_row,
    shape_of,
    unlike,
)
from ie_serving.engines.openvino.compiling.properties import (
    STREAMS,
    THREADS,
    UNKNOWN,
    check_precision,
    precision_of,
    property_of,
)
from ie_serving.engines.openvino.compiling.threads_choice import (
    AS_FAST,
    SLOWER,
    CompiledCandidate,
    compile_cached,
    compile_fastest,
)
from ie_serving.engines.openvino.devices import CPU
from ie_serving.engines.openvino.error_texts import in_words, load_failures
from ie_serving.engines.openvino.faults.element_types import check_range, narrowed
from ie_serving.engines.openvino.faults.fusions import part_absolutes
from ie_serving.engines.openvino.faults.hazards import (
    KEEPING_NONFINITE,
    READ,
    SIZED,
    STRINGS,
    Hazards,
    guard,
)
from ie_serving.engines.openvino.faults.nonfinite import Nonfinite, loses_nonfinite
from ie_serving.engines.openvino.graphs.rules import visit
from ie_serving.engines.openvino.graphs.weightless import WeightlessCopy, weightless_copy
from ie_serving.engines.openvino.interface.draft import Draft
from ie_serving.engines.openvino.interface.tensor_specs import Port, SignaturePorts, prepare, zeros
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.running.release import release
from ie_serving.engines.openvino.running.shape_inference import ShapeInference
from ie_serving.engines.openvino.running.slot import Slot, StatefulSlot, unroll, with_states
from ie_serving.engines.run.detour import Detour, OnDemandResource
from ie_serving.engines.run.latency_model import INLINE_MAX_S, LatencyModel
from ie_serving.engines.run.program import CheckArray, Program
from ie_serving.engines.run.queued_program import LoneRowProgram, QueuedProgram
from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.metrics.inferences import current

log = logging.getLogger(__name__)

FAILED = "Error occurred during inference execution"
"""Phrase of 2020 for whatever the engine raised."""

FLOATS = (DataType.FP16, DataType.BF16, DataType.FP32, DataType.FP64)


class Graph(NamedTuple):
    """The graph of a signature, guarded and ready to be compiled.

    Attributes:
        model: the graph.
        ports: ports of the model.
        hazards: hazards of the model.
        admission: tells which shapes it takes; None where only one combination is.
        is_row: whether it is fixed to one row, beside a graph for batches.
        detour: graph for requests with NaN or infinity; None where this graph keeps these.
    """

    model: ov.Model
    ports: SignaturePorts
    hazards: Hazards
    admission: ShapeInference | None
    is_row: bool = False
    detour: Detour | None = None


def program_of(
    draft: Draft, model: ov.Model, options: EngineOptions, nonfinite: Nonfinite
) -> Program:
    """Compile the graph of a signature; all ranks of its inputs are known.

    Args:
        draft: the signature.
        model: its graph, which is changed.
        options: options of the version.
        nonfinite: treatment of NaN and infinity.

    Raises:
        LoadFailed: the device does not take the graph, or cannot do what an option demands.
    """
    visit(model, READ)
    loses = loses_nonfinite(model)
    if loses and nonfinite.kept:
        visit(model, KEEPING_NONFINITE)
    visit(model, STRINGS)
    ports = prepare(draft, model, options)
    if options.of(Sequences).low_latency_transformation:
        unroll(model)
    # The row is copied before guards are added: they follow from sizes, and one row has its own.
    row = copy_for_one_row(model, ports) if _may_have_lone_rows(options) else None
    graph = _guarded(draft, model, ports, options, keeps_nonfinite=loses and nonfinite.kept)
    if loses and nonfinite.elsewhere:
        other = OnDemandResource(nonfinite.elsewhere, lambda runs: runs.close())
        graph = graph._replace(detour=Detour(_floats(ports), other))
    compiled = _compile(draft, graph, options)
    if not _takes_ahead(graph, compiled, options):
        return _program(graph, compiled, options)
    lone = _lone(draft, graph, compiled, row, options) if row else None
    return _program(graph, compiled, options, partial(QueuedProgram, lone=lone), more=1)


def check_alike(draft: Draft, options: EngineOptions) -> None:
    """Refuse a draft whose graph may give other outputs if its sizes are known, or is too large.

    Raises: LoadFailed.
    """
    if draft.model is None or draft.beside is not None:
        raise LoadFailed(
            "expected a graph that OpenVINO computes whole: the server computes a part of it"
        )
    model = draft.model.clone()
    visit(model, READ)
    visit(model, STRINGS)
    prepare(draft, model, options)
    if cause := unlike(model):
        raise LoadFailed(cause)


def _may_have_lone_rows(options: EngineOptions) -> bool:
    # `compiling/lone_row.py` was measured only on this device.
    is_cpu = options.of(OpenVinoOptions).target_device == CPU
    return options.ahead and options.nireq <= 1 and is_cpu


def _floats(ports: SignaturePorts) -> list[str]:
    return [port.spec.name for port in ports.inputs if port.spec.dtype in FLOATS]


def _guarded(
    draft: Draft,
    model: ov.Model,
    ports: SignaturePorts,
    options: EngineOptions,
    *,
    keeps_nonfinite: bool = False,
) -> Graph:
    with load_failures("the model's operations cannot be examined"):
        visit(model, SIZED)
        from_end = draft.listed is None  # files with declared signatures are TensorFlow's: False
        integers = options.of(OpenVinoOptions).integers
        hazards, twin = guard(
            model,
            ports.inputs,
            from_end=from_end,
            integers=integers,
            keeps_nonfinite=keeps_nonfinite,
        )
        part_absolutes(model)  # by which no shape changes, so the copy still shows them
    return Graph(model, ports, hazards, _shape_inference(model, twin, ports))


def _compile(draft: Draft, graph: Graph, options: EngineOptions) -> CompiledCandidate:
    model, ports, hazards, admission, is_row, _ = graph
    # A lone row must not be slower than on a server without batches. So it has one thread only
    # where that is as fast, although several cost more processor time.
    slower = AS_FAST if is_row else SLOWER
    compiled = compile_fastest(model, ports, options, hazards, admission, slower)
    check_precision(compiled.model, compiled.config, options.of(OpenVinoOptions).target_device)
    _log_choice(draft, graph, compiled, options)
    return compiled


def _program(
    graph: Graph,
    compiled: CompiledCandidate,
    options: EngineOptions,
    make: Callable[..., Program] = Program,
    more: int = 0,
) -> Program:
    """Make a program of infer requests, `more` than run at once."""
    model, ports, hazards, admission, is_row, detour = graph
    latency = LatencyModel(_execution(hazards, options))
    # The first request of each size must not be the one that finds out that it takes a second.
    sample = zeros(ports.inputs, 1)
    if compiled.seconds is not None and sample is not None:
        latency.learn_at_load(sum(array.size for array in sample.values()), compiled.seconds)
    slots = _slots(graph, options, compiled, _nireq(compiled, options) + more)
    record = current()
    record.streams = max(record.streams, _streams(compiled))
    told = precision_of(compiled.model, model)
    signature = replace(
        ports.signature,
        precision="" if told == UNKNOWN else told,
        row_s=compiled.seconds,
        batch_s=compiled.batch_s,
    )
    # A failure of one row means the same for its request as in a batch.
    by_request = admission or is_row or hazards.by_request
    return make(
        with_states(signature, slots),
        slots,
        latency,
        failures=(RuntimeError,),
        blame=partial(_blame, InvalidRequest if by_request else ServingError),
        checks=_checks(ports, compiled.model),
        admission=admission,
        detour=detour,
        freed=partial(release, compiled.model),
    )


def _execution(hazards: Hazards, options: EngineOptions) -> str:
    if hazards.lasting and options.execution == "auto":
        return "async"  # latencies at this size do not predict the next: keep the loop free
    return options.execution


def _streams(compiled: CompiledCandidate) -> int:
    told = property_of(compiled.model, STREAMS)
    return int(told) if told.isdigit() else 0


def _nireq(compiled: CompiledCandidate, options: EngineOptions) -> int:
    return options.nireq or int(compiled.model.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))


def _lone(
    draft: Draft,
    batches: Graph,
    compiled: CompiledCandidate,
    row: LoneRowGraph,
    options: EngineOptions,
) -> LoneRowProgram | None:
    """Compile the graph of one row, too.

    None where the device does not take it, or the two would not refuse the same requests.
    """
    options = replace(options, ahead=False, nireq=1)
    try:
        with load_failures("the model cannot be compiled for one row"):
            return _same_for_one_row(draft, batches, compiled, row, options)
    except LoadFailed as error:
        log.warning(Event("one row is computed as a batch is", signature=draft.name, cause=error))
        return None


def _same_for_one_row(
    draft: Draft,
    batches: Graph,
    compiled: CompiledCandidate,
    row: LoneRowGraph,
    options: EngineOptions,
) -> LoneRowProgram | None:
    shapes = tuple(shape_of(port) for port in row.ports.inputs)
    if batches.admission is None or batches.admission.try_shapes(shapes) != (True, None):
        return None
    fix_to_one_row(row)
    graph = _guarded(draft, row.model, row.ports, options)
    graph = graph._replace(is_row=True, detour=batches.detour)
    if graph.hazards.refused != batches.hazards.refused:
        return None
    own = _compile(draft, graph, options)
    if _narrow(own, graph) != _narrow(compiled, batches):
        return None
    return LoneRowProgram(shapes, _program(graph, own, options))


def _narrow(compiled: CompiledCandidate, graph: Graph) -> set[str]:
    """Name the inputs with values to refuse because the engine would change them."""
    return {port.spec.name for port in narrowed(compiled.model, graph.ports.inputs)}


# Infer requests of one compiled model may share memory for intermediate results: a failure of one
# would corrupt the results of the others that run at the same time.
def _slots(
    graph: Graph, options: EngineOptions, compiled: CompiledCandidate, nireq: int
) -> list[Slot]:
    """Make infer requests; each with a compiled model of its own where a failure spoils that."""
    model, ports, hazards, _, _, detour = graph
    create = compiled.model.create_infer_request
    kind = StatefulSlot if hazards.stateful and options.of(Sequences).stateful else Slot
    watched = detour.names if detour else ()
    if not hazards.spoils:
        return [kind(create, ports.inputs, ports.outputs, hazards, watched) for _ in range(nireq)]
    device = options.of(OpenVinoOptions).target_device
    config = _share(compiled, nireq)
    make = partial(_make, model, device, config)
    # The model that was measured is the first slot's, which compiles another after a failure.
    measured = [create] if config == compiled.config else []
    with load_failures(f"the model cannot be compiled for {device}"):
        return [
            kind(
                lambda: measured.pop()() if measured else make(),
                ports.inputs,
                ports.outputs,
                hazards,
                watched,
            )
            for _ in range(nireq)
        ]


def _takes_ahead(graph: Graph, compiled: CompiledCandidate, options: EngineOptions) -> bool:
    """Tell whether a second infer request can and should start while the first one runs."""
    if not options.ahead or _nireq(compiled, options) > 1:
        return False
    # `start_async` without streams infers in the thread that calls it, here the event loop.
    has_stream = property_of(compiled.model, STREAMS) != "0"
    return has_stream and not (graph.hazards.spoils or graph.hazards.stateful)


def _share(compiled: CompiledCandidate, nireq: int) -> Mapping[str, str]:
    """Give the properties of one of `nireq` compiled models that share the threads of one."""
    if nireq == 1 or THREADS not in compiled.config:
        return compiled.config
    threads = max(1, int(compiled.config[THREADS]) // nireq)
    return {**compiled.config, THREADS: str(threads), STREAMS: "1"}


def _make(model: ov.Model, device: str, config: Mapping[str, str]) -> ov.InferRequest:
    return compile_cached(model, device, config).create_infer_request()


def _blame(kind: type[ServingError], error: Exception) -> ServingError:
    """Blame the request where its shapes or values may be at fault, else the engine."""
    return kind(f"{FAILED}: {in_words(error)}")


def _checks(ports: SignaturePorts, compiled: ov.CompiledModel) -> list[tuple[str, CheckArray]]:
    """Bind the checks that each request needs, and only those."""
    # Each check is Python code on the way of every request, so inputs that cannot be wrong, which
    # are nearly all, have none.
    checks: list[tuple[str, CheckArray]] = [
        (port.spec.name, partial(_check_shape, port)) for port in ports.inputs if port.tighter
    ]
    given = compiled.inputs
    for port in narrowed(compiled, ports.inputs):
        kind = given[port.index].get_element_type()
        checks.append((port.spec.name, partial(check_range, port, kind)))
    return checks


def _check_shape(port: Port, array: Array) -> None:
    port.check_shape(array.shape)


def _shape_inference(
    model: ov.Model, twin: WeightlessCopy | None, ports: SignaturePorts
) -> ShapeInference | None:
    """Give None where only one combination of shapes is taken."""
    if all(port.static for port in ports.inputs):
        return None
    with load_failures("the model's shapes cannot be inferred"):
        return ShapeInference(twin or weightless_copy(model), ports.inputs, ports.keepers)


def _log_choice(
    draft: Draft, graph: Graph, compiled: CompiledCandidate, options: EngineOptions
) -> None:
    seconds = compiled.seconds
    log.info(
        Event(
            "model compiled",
            signature=draft.name,
            device=options.of(OpenVinoOptions).target_device,
            precision=precision_of(compiled.model, graph.model),
            nireq=_nireq(compiled, options),
            threads=property_of(compiled.model, THREADS),
            streams=property_of(compiled.model, STREAMS),
            latency_us="unknown" if seconds is None else round(seconds * 1e6),
            execution=_first_execution(_execution(graph.hazards, options), seconds),
            takes="lone rows" if graph.is_row else "all requests",
        )
    )


def _first_execution(execution: str, seconds: float | None) -> str:
    """Say how the first requests run; with `auto` later ones are measured anew."""
    if execution != "auto":
        return execution
    inline = seconds is not None and seconds <= INLINE_MAX_S
    return "auto:inline" if inline else "auto:async"
