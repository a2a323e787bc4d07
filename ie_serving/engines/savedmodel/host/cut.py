"""Rewrite: cuts the host's nodes out of the graph; their results become the model's inputs.

Where the host continues after the model, the values it needs become outputs of the model. A graph

    words -> LookupTableFind -> GatherV2 -> MatMul -> ArgMax -> LookupTableFind -> labels

becomes three parts. The middle one is the graph that OpenVINO reads, with new names at its ends:

    words -> LookupTableFind -> ids                                            (Plan.before)
    ie_serving_host_0 = ids -> GatherV2 -> MatMul -> ArgMax = ie_serving_taken_0   (the model)
    ie_serving_taken_0 -> LookupTableFind -> labels                            (Plan.after)
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import BY_NUMBER, DataType
from ie_serving.engines.savedmodel.constants import tensor_proto
from ie_serving.engines.savedmodel.file import TensorInfo
from ie_serving.engines.savedmodel.frames import (
    CALLS,
    Frame,
    NodeOutput,
    above,
    name_of,
    noted_shape,
    shape_of,
    standing_alone,
    with_port,
)
from ie_serving.engines.savedmodel.host.functional import functional
from ie_serving.engines.savedmodel.host.host_kernel import Attributes, Compute, RunBody
from ie_serving.engines.savedmodel.host.host_program import Function, HostPlan, HostStep
from ie_serving.engines.savedmodel.host.kernels import KERNELS
from ie_serving.engines.savedmodel.host.kernels_loops import gives_list
from ie_serving.engines.savedmodel.host.needs import FIRST_FORM, FUNCTIONS, may_need_host
from ie_serving.engines.savedmodel.host.partition import (
    Id,
    Partition,
    Placement,
    id_of,
    lacking,
    partition,
)
from ie_serving.engines.savedmodel.host.resources import Resources
from ie_serving.engines.savedmodel.initial_writes import InitialWrites
from ie_serving.engines.savedmodel.rewrite import PreparedGraph, nodes_above, own_frame
from ie_serving.wire.protobuf.messages import Proto

_NOTHING = "ie_serving_nothing"
"""Name of the constants in place of values that the model passed on without computing them."""

CutValue = tuple[Id, str, int]
"""One output of a node: the node, the output's name where no kernel numbers it, and its number."""


def leave_to_host(
    prepared: PreparedGraph, directory: Path, meta_graph: Proto, initial: InitialWrites
) -> HostPlan:
    """Divide a signature between host and model, and rewrite the graph for the model.

    Args:
        prepared: its inputs and outputs become those of the model, its graph is changed.
        directory: directory of the version, where its tables lie.
        meta_graph: its graph as the file has it.
        initial: writes made when the version is loaded.

    Raises:
        LoadFailed: a node can run neither here nor there, or a table cannot be read.
    """
    resources = Resources(directory, meta_graph, initial)
    frame = _frame_with_functions(prepared, meta_graph)
    # OpenVINO computes these once, at load, with no host beside it.
    for alias, info in list(prepared.computed.items()):
        node_output = frame.node_output(info.tensor)
        read = list(above([node_output]))
        if may_need_host([info], read) or any(map(resources.initial.sets, read)):
            prepared.constants[alias] = resources.value(node_output)
            del prepared.computed[alias]
    node_outputs = {
        alias: frame.node_output(info.tensor) for alias, info in prepared.outputs.items()
    }
    divided = partition(list(node_outputs.values()), resources.initial.sets)
    made = _SignatureCut(frame, divided, resources, prepared.inputs)
    outputs: dict[str, TensorInfo] = {}
    for alias, info in prepared.outputs.items():
        if divided.of(node_outputs[alias]) is Placement.MODEL:
            outputs[alias] = info
            made.known[_value(node_outputs[alias])] = alias
    for alias in prepared.outputs.keys() - outputs.keys():
        dtype = BY_NUMBER[prepared.outputs[alias].dtype].numpy
        made.plan.outputs[alias] = (made.slot(node_outputs[alias]), dtype)
    made.bind()
    made.rewire()
    made.finish()
    prepared.outputs = outputs | made.extra
    prepared.inputs = made.read(prepared.outputs)
    return made.plan


def _frame_with_functions(prepared: PreparedGraph, meta_graph: Proto) -> Frame:
    """Give the graph for changing, its loops in the form that the host knows."""
    frame = own_frame(prepared, meta_graph)
    ops = {node_output.node.op for node_output in prepared.above if node_output.node is not None}
    if not any(op.startswith(FIRST_FORM) for op in ops):
        return frame
    tensors = [info.tensor for info in prepared.outputs.values()]
    prepared.graph_def = functional(prepared.graph_def, tensors) or prepared.graph_def
    return own_frame(prepared, meta_graph)


def _value(node_output: NodeOutput) -> CutValue:
    origin = node_output.origin()
    if origin.node.op in KERNELS:
        return id_of(origin), "", _position(origin)
    return id_of(origin), origin.output, origin.index


def _position(origin: NodeOutput) -> int:
    return KERNELS[origin.node.op].position(origin.node, origin.output, origin.index)


@dataclass
class _SignatureCut:
    """A signature on its way."""

    frame: Frame
    divided: Partition
    resources: Resources
    inputs: Mapping[str, TensorInfo]
    plan: HostPlan = field(default_factory=HostPlan)
    known: dict[CutValue, str] = field(default_factory=dict)
    extra: dict[str, TensorInfo] = field(default_factory=dict)

    fed: dict[str, TensorInfo] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._slots: dict[CutValue, int] = {}
        self._bound: list[tuple[Placement, NodeOutput, Compute, tuple[int, ...]]] = []
        self._arguments: dict[tuple[int, CutValue], str] = {}
        self._names = {name_of(info.tensor): name for name, info in self.inputs.items()}

    def slot(self, node_output: NodeOutput) -> int:
        """Give the slot of a value that the host needs, and see that something fills it."""
        value, origin = _value(node_output), node_output.origin()
        if value in self._slots:
            return self._slots[value]
        slot = self._slots[value] = len(self.plan.slots)
        part = self.divided.of(origin)
        held = self.resources.value(origin) if part is Placement.CONSTANT else None
        self.plan.slots.append(held)
        if part is Placement.INPUT:
            self.plan.inputs[self._input(origin)] = slot
        if part is Placement.MODEL:
            self.plan.taken[self._given_out(node_output, origin)] = slot
        return slot

    def _input(self, origin: NodeOutput) -> str:
        name: str = origin.node.name
        if name not in self._names:
            raise LoadFailed(
                f"the signature needs {name!r}, which is none of its inputs:"
                " export the signature with it as an input"
            )
        return self._names[name]

    def _inputs_of(self, origin: NodeOutput) -> list[str]:
        """Name the inputs that a value depends on."""
        read = [each for each in above([origin]) if each.node is not None]
        return sorted(
            {
                self._input(each)
                for each in read
                if self.divided.parts.get(id_of(each)) is Placement.INPUT
            }
        )

    def _given_out(self, node_output: NodeOutput, origin: NodeOutput) -> str:
        """Let the model give a value, unless the signature has it as an output already."""
        value = _value(node_output)
        if value not in self.known:
            name = self.known[value] = f"ie_serving_taken_{len(self.extra)}"
            tensor = origin.frame.give_out(_reference(origin.frame, origin), DataType.FP32.number)
            self.extra[name] = TensorInfo(with_port(tensor), None, DataType.FP32.number)
        return self.known[value]

    def bind(self) -> None:
        """Bind the kernels of all nodes that the host runs, and the sources of each."""
        # The order puts each node behind those that it reads, so the steps run as they stand.
        for node_output in self.divided.order:
            part = self.divided.parts[id_of(node_output)]
            if part in (Placement.BEFORE, Placement.AFTER):
                kernel = KERNELS[node_output.node.op]
                attributes = Attributes(node_output.node, self._programs(node_output))
                sources = tuple(self.slot(source) for source in node_output.sources())
                kernel.check(attributes, [self.plan.slots[slot] for slot in sources])
                self._bound.append((part, node_output, kernel.make(attributes), sources))

    def _programs(self, node_output: NodeOutput) -> dict[str, RunBody]:
        """Make the functions of a loop or branch ready to run."""
        return {
            attribute: _function(
                node_output, node_output.node.attr[attribute].func.name, self.resources
            )
            for attribute in FUNCTIONS.get(node_output.node.op, ())
        }

    def finish(self) -> None:
        """Write the steps, now that it is known which outputs of each node are read."""
        results: dict[Id, list[tuple[int, int]]] = {}
        for (node, _, number), slot in self._slots.items():
            results.setdefault(node, []).append((number, slot))
        for part, node_output, compute, sources in self._bound:
            what = _what(node_output.node)
            read = tuple(results.get(id_of(node_output), ()))
            step = HostStep(what, compute, sources, read, KERNELS[node_output.node.op].in_thread)
            (self.plan.before if part is Placement.BEFORE else self.plan.after).append(step)

    def rewire(self) -> None:
        """Let the model's nodes read inputs and constants in place of the host's results."""
        for node_output in list(self.divided.order):
            if self.divided.parts[id_of(node_output)] is not Placement.MODEL:
                continue
            for at, reference in enumerate(node_output.node.input):
                if not reference.startswith("^"):
                    self._rewire(node_output, at, node_output.frame.node_output(reference))
        for frame in _frames(self.frame):
            self._blank(frame)

    def _rewire(self, node_output: NodeOutput, at: int, source: NodeOutput) -> None:
        origin = source.origin()
        part = self.divided.of(origin)
        if part is Placement.INPUT and _is_text(origin.node):
            raise lacking(node_output.node)
        if part is Placement.CONSTANT and id_of(origin) in self.divided.folded:
            value = self.resources.value(origin)
            name = f"ie_serving_folded_{len(self.plan.slots)}_{at}_{node_output.node.name}"
            new = node_output.frame.add_constant(name.replace("/", "_"), tensor_proto(value))
        elif part is Placement.BEFORE:
            new = self._argument(node_output, source, origin)
        else:
            return
        # A copy of the function for this call alone: others may read something else there.
        node_output.frame.own()
        node_output.frame.nodes[node_output.node.name].input[at] = new

    def _argument(self, reader: NodeOutput, source: NodeOutput, origin: NodeOutput) -> str:
        """Feed a value to a frame, once."""
        frame = reader.frame
        key = (id(frame), _value(source))
        if key not in self._arguments:
            kernel, attributes = KERNELS[origin.node.op], Attributes(origin.node)
            if gives_list(origin.node, _position(origin)):
                raise lacking(reader.node)
            dtype = kernel.dtype(attributes, _position(origin))
            if dtype is DataType.STRING:
                raise lacking(reader.node)
            name = f"ie_serving_host_{len(self.fed)}"
            shape = noted_shape(origin.node, _position(origin))
            self._arguments[key] = frame.add_argument(name, dtype.number, shape)
            self.plan.feeds[name] = (self.slot(source), dtype.numpy)
            self.plan.made[name] = (_what(origin.node), self._inputs_of(origin))
            self.fed[name] = TensorInfo(f"{name}:0", shape_of(shape), dtype.number)
        return self._arguments[key]

    def _blank(self, frame: Frame) -> None:
        """Pass on nothing that the model does not compute: the front end would convert it."""
        for name, node_output in frame.outputs():
            if self._is_foreign(node_output):
                frame.return_instead(name, frame.add_constant(_NOTHING, tensor_proto(_ZERO)))
        # A list, since a constant that is added is a node as well.
        for node in list(frame.nodes.values()):
            if node.op not in CALLS:
                continue
            for at, reference in enumerate(node.input):
                if not reference.startswith("^") and self._is_foreign(frame.node_output(reference)):
                    nothing = frame.add_constant(_NOTHING, tensor_proto(_ZERO))
                    frame.nodes[node.name].input[at] = nothing

    def _is_foreign(self, node_output: NodeOutput) -> bool:
        """Tell whether a value is the host's; an unused value is not."""
        origin = node_output.origin()
        part = self.divided.parts.get(id_of(origin))
        if part is Placement.CONSTANT:
            return id_of(origin) in self.divided.folded
        if part is Placement.INPUT:
            return _is_text(origin.node)
        return part in (Placement.BEFORE, Placement.AFTER)

    def read(self, outputs: Mapping[str, TensorInfo]) -> dict[str, TensorInfo]:
        """Give those inputs that the model still reads."""
        read = nodes_above(outputs, self.frame)
        known = {**self.inputs, **self.fed}
        return {name: info for name, info in known.items() if name_of(info.tensor) in read}


def _what(node: Proto) -> str:
    return f"{node.op} {node.name!r}"


def _is_text(placeholder: Proto) -> bool:
    return bool(placeholder.attr["dtype"].type == DataType.STRING.number)


def _function(node_output: NodeOutput, name: str, resources: Resources) -> RunBody:
    frame, arguments, returned = standing_alone(node_output.frame.library, name)
    inputs = {each: TensorInfo(f"{each}:0", None, 0) for each in arguments}
    made = _SignatureCut(frame, partition(returned), resources, inputs)
    slots = [made.slot(each) for each in returned]
    made.bind()
    made.finish()
    return Function(made.plan, arguments, slots)


_ZERO = np.zeros((), np.float32)


def _frames(frame: Frame) -> Iterator[Frame]:
    """Give a frame and those of all calls that were walked."""
    yield frame
    for inner in frame.walked():
        yield from _frames(inner)


def _reference(frame: Frame, node_output: NodeOutput) -> str:
    """Write how nodes of its frame refer to a node output."""
    name: str = node_output.node.name
    if frame.parent is not None:
        return f"{name}:{node_output.output}:{node_output.index}"
    return f"{name}:{node_output.index}" if node_output.index else name
