"""Reads a SavedModel to a draft for each signature; leaves out those that cannot be converted."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import openvino as ov

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import BY_NUMBER, BY_OPENVINO, Array, Signature, TensorSpec
from ie_serving.engines.openvino.error_texts import Operation, load_failures, openvino_text
from ie_serving.engines.openvino.faults.hazards import TENSORFLOW
from ie_serving.engines.openvino.graphs.rules import visit
from ie_serving.engines.openvino.interface.draft import Draft, Drafts, ModelTensor, leaving_out
from ie_serving.engines.openvino.reading.file_operations import operations
from ie_serving.engines.openvino.reading.mapping import Renames, aliases
from ie_serving.engines.openvino.runtime import core
from ie_serving.engines.savedmodel.checkpoint import VARIABLES, check_variables
from ie_serving.engines.savedmodel.conversion_faults import check_graph, check_shape
from ie_serving.engines.savedmodel.file import (
    FILE,
    DeclaredSignature,
    MetaGraph,
    TensorInfo,
    declared,
    read_frozen,
    read_graph,
)
from ie_serving.engines.savedmodel.frames import Frame, Library, NodeOutput, above
from ie_serving.engines.savedmodel.host.needs import hold_first_form, may_need_host
from ie_serving.engines.savedmodel.initial_writes import InitialWrites
from ie_serving.engines.savedmodel.program import PartBeside
from ie_serving.engines.savedmodel.repeats import repeats
from ie_serving.engines.savedmodel.rewrite import (
    OUTPUT,
    PreparedGraph,
    directory_for,
    directory_of_constants,
    frame_of,
    prepare,
    unfold_cases,
)
from ie_serving.engines.savedmodel.sent_shapes import ShapedSignature
from ie_serving.engines.savedmodel.state import kept_between_requests
from ie_serving.telemetry.log.logs import Event

if TYPE_CHECKING:
    from ie_serving.engines.savedmodel.host.host_program import HostPlan

log = logging.getLogger(__name__)

Names = Mapping[str, str]
"""Clients' aliases by the file's."""


def read_signatures(
    directory: Path,
    renames: tuple[Renames, Renames],
    tags: Collection[str],
    as_sent: ShapedSignature | None = None,
) -> Drafts:
    """Convert every signature; the version tells which are left out, and why.

    Args:
        directory: directory of the version.
        renames: renames of `mapping_config.json`.
        tags: tags of the graph.
        as_sent: the one signature to convert, with the shapes of its inputs.

    Raises:
        LoadFailed: the file is no SavedModel, or a file of the variables is damaged.
    """
    with load_failures(FILE):
        meta_graph = read_graph(directory, tags)
        is_unfolded = unfold_cases(meta_graph.graph_def)
        checkpoint = check_variables(directory)
        initial = InitialWrites(meta_graph, checkpoint)
    source = partial(operations, directory / FILE, tags)
    version = _converted(
        directory, meta_graph, renames, source, initial, as_sent, is_changed=is_unfolded
    )
    if checkpoint is None and not version.drafts and _needs_variables(directory, version):
        raise LoadFailed(
            f"{VARIABLES.partition('/')[0]}/ is missing beside {FILE}, and the model has variables:"
            " copy the whole folder of the export"
        )
    return version


def _needs_variables(directory: Path, version: Drafts) -> bool:
    causes = map(str, version.causes.values())
    absent = not Path(f"{directory / VARIABLES}.index").exists()
    return absent and any("is not initialized" in cause for cause in causes)


def read_frozen_graph(file: Path, renames: tuple[Renames, Renames]) -> Drafts:
    """Convert a frozen graph like a SavedModel.

    Raises:
        LoadFailed: the file is no such graph.
    """
    with load_failures(file.name):
        try:
            ports = core().read_model(str(file)).outputs
        except RuntimeError:  # of parts that are then computed beside the model, or refused by name
            ports = []
        types = {
            str(name).removesuffix(":0"): BY_OPENVINO[kind].number
            for port in ports
            for name in port.get_names()
            if (kind := port.get_element_type().get_type_name()) in BY_OPENVINO
        }
        meta_graph = read_frozen(file, types)
        unfold_cases(meta_graph.graph_def)
        initial = InitialWrites(meta_graph)
    return _converted(file.parent, meta_graph, renames, partial(operations, file, ()), initial)


def _converted(
    directory: Path,
    meta_graph: MetaGraph,
    renames: tuple[Renames, Renames],
    source: "partial[Iterator[Operation]]",
    initial: InitialWrites,
    as_sent: ShapedSignature | None = None,
    *,
    is_changed: bool = False,
) -> Drafts:
    definitions = {
        name: bytes(definition.SerializeToString(deterministic=True))
        for name, definition in meta_graph.signature_def.items()
    }
    version = Drafts([], definitions, file=source.args[0].name, operations=source)
    signatures = declared(meta_graph)
    if as_sent is not None:
        signatures = {as_sent.name: signatures[as_sent.name]}
    kept = kept_between_requests(meta_graph, signatures)
    repeated = repeats(meta_graph, signatures)
    given: dict[str, tuple[Names, Names]] = {}
    for name, signature in signatures.items():
        with leaving_out(version, name, "converted"):
            given[name] = names = _names(signature, renames)
            listed = version.declared[name] = _declared_signature(signature, names)
            if name in kept:
                raise LoadFailed(kept[name])
            own = repeated.get(name, "")
            # One that was renamed by its tensors' names has names of its own.
            if own and own not in version.causes and given[own] == names:
                version.repeats[name] = own
                continue
            sent = as_sent and as_sent.declared(meta_graph, signature, names[0])
            conversion = _Conversion(
                directory, meta_graph, sent or signature, names, listed, initial
            )
            version.drafts.append(conversion.draft(copied=is_changed or as_sent is not None))
    for name, own in version.repeats.items():
        _add_names(version, own, signatures[name], given[name])
    return version


def _add_names(
    version: Drafts, own: str, repeat: DeclaredSignature, names: tuple[Names, Names]
) -> None:
    """Let options speak of a draft's tensors by what these are called in one that repeats it."""
    (index,) = [at for at, draft in enumerate(version.drafts) if draft.name == own]
    draft = version.drafts[index]
    inputs, outputs = (
        [
            replace(each, names=each.names | {called.get(each.alias, each.tensor)})
            for each in tensors
        ]
        for tensors, called in (
            (draft.inputs, {names[0][alias]: i.tensor for alias, i in repeat.inputs.items()}),
            (draft.outputs, {names[1][alias]: i.tensor for alias, i in repeat.outputs.items()}),
        )
    )
    version.drafts[index] = replace(draft, inputs=inputs, outputs=outputs)


def _names(signature: DeclaredSignature, renames: tuple[Renames, Renames]) -> tuple[Names, Names]:
    return (
        _renamed(signature.inputs, renames[0], "inputs"),
        _renamed(signature.outputs, renames[1], "outputs"),
    )


def _renamed(infos: Mapping[str, TensorInfo], renames: Renames, kind: str) -> Names:
    known = [frozenset({alias, info.tensor}) for alias, info in infos.items()]
    return dict(zip(infos, aliases(list(infos), known, renames, kind), strict=True))


def _declared_signature(signature: DeclaredSignature, names: tuple[Names, Names]) -> Signature:
    """Give the signature as the file declares it.

    Raises:
        LoadFailed: a tensor has a dtype that the API cannot carry.
    """
    inputs, outputs = (
        {given[alias]: _spec(given[alias], info) for alias, info in infos.items()}
        for given, infos in zip(names, (signature.inputs, signature.outputs), strict=True)
    )
    return Signature(signature.name, inputs, outputs, signature.method)


def _spec(alias: str, info: TensorInfo) -> TensorSpec:
    if not info.dtype:  # a signature of composite tensors has none for them
        raise LoadFailed(
            f'tensor "{alias}" is ragged or sparse, which no request carries: export its parts, or'
            " what its to_tensor() gives"
        )
    if info.dtype not in BY_NUMBER:
        raise LoadFailed(
            f'tensor "{alias}" has the dtype number {info.dtype} of types.proto, which this server'
            " cannot carry; convert it in the model"
        )
    return TensorSpec(alias, BY_NUMBER[info.dtype], info.shape, info.tensor)


@dataclass(frozen=True)
class _Conversion:
    """One signature on its way to a draft."""

    directory: Path
    meta_graph: MetaGraph
    signature: DeclaredSignature
    names: tuple[Names, Names]
    listed: Signature
    initial: InitialWrites

    def draft(self, *, copied: bool) -> Draft:
        """Prepare the graph, convert it, and name its tensors.

        Args:
            copied: whether the graph is not as in the file any more.
        """
        prepared = self._prepared()
        if copied and prepared.graph_def is None:
            prepared.graph_def = self.meta_graph.graph_def
        host = self._host(prepared)
        beside = self._beside(prepared, host)
        signature = self.signature
        if not prepared.outputs:
            return Draft(signature.name, signature.method, None, (), (), beside, self.listed, host)
        frame = frame_of(prepared, self.meta_graph)
        left = [frame.node_output(info.tensor) for info in prepared.outputs.values()]
        check_graph(self.meta_graph, frame.library, above(left))
        index = self.initial.index
        with directory_for(self.directory, self.meta_graph, prepared, index) as source:
            model = core().read_model(str(source))
        visit(model, TENSORFLOW)
        inputs = self._tensors(model.inputs, prepared.inputs, "inputs")
        outputs = self._tensors(model.outputs, prepared.outputs, "outputs")
        for tensor, (alias, info) in zip(outputs, prepared.outputs.items(), strict=True):
            check_shape(alias, info.shape, _shape_of(model.outputs[tensor.index]))
        # An input that OpenVINO found and the signature lacks would stay empty at each request.
        if len({tensor.index for tensor in inputs}) != len(model.inputs):
            raise LoadFailed(_read_beside(model, [tensor.index for tensor in inputs]))
        return Draft(
            signature.name, signature.method, model, inputs, outputs, beside, self.listed, host
        )

    def _prepared(self) -> PreparedGraph:
        prepared = prepare(self.meta_graph, self.signature)
        if hold_first_form(prepared.above):
            from ie_serving.engines.savedmodel.host.inlined_functions import write_loops_out

            write_loops_out(prepared, self.meta_graph)
        return prepared

    def _host(self, prepared: PreparedGraph) -> "HostPlan | None":
        """Give the host's part, by the names that clients use; None where there is none.

        Values that the init op sets become constants of the model.
        """
        if not self._may_need_host(prepared):
            return None
        # The import is here: only models with strings or tables pay for it.
        from ie_serving.engines.savedmodel.host.cut import leave_to_host

        plan = leave_to_host(prepared, self.directory, self.meta_graph, self.initial)
        if not (plan.slots or plan.names()):
            return None
        inputs, outputs = self.names
        plan.inputs = {inputs.get(alias, alias): slot for alias, slot in plan.inputs.items()}
        plan.taken = {outputs.get(alias, alias): slot for alias, slot in plan.taken.items()}
        plan.outputs = {outputs[alias]: value for alias, value in plan.outputs.items()}
        log.info(
            Event(
                "part of a signature runs on the host",
                signature=self.signature.name,
                **plan.operations(),
            )
        )
        return plan

    def _may_need_host(self, prepared: PreparedGraph) -> bool:
        if self._may_need(prepared.outputs.values(), prepared.above):
            return True
        if not prepared.computed:
            return False
        frame = frame_of(prepared, self.meta_graph)
        infos = prepared.computed.values()
        return self._may_need(
            infos, list(above([frame.node_output(info.tensor) for info in infos]))
        )

    def _may_need(self, infos: Iterable[TensorInfo], node_outputs: Sequence[NodeOutput]) -> bool:
        return may_need_host(infos, node_outputs) or any(map(self.initial.sets, node_outputs))

    def _tensors(
        self, ports: Sequence[ov.Output], infos: Mapping[str, TensorInfo], kind: str
    ) -> list[ModelTensor]:
        inputs = kind == "inputs"
        names = self.names[0 if inputs else 1]
        own = self.signature.inputs if inputs else self.signature.outputs
        indices = _indices(ports)
        return [
            ModelTensor(
                names.get(alias, alias),
                own[alias].tensor if alias in own else info.tensor,
                self._index(indices, alias, kind),
                frozenset({alias, names.get(alias, alias), info.tensor}),
                declared=info.shape is not None,
                shape=info.shape,
                parsed=alias not in own,
            )
            for alias, info in infos.items()
        ]

    def _index(self, indices: Mapping[str, int], alias: str, kind: str) -> int:
        # An input that is given out as it is bears the names of those outputs, too.
        for name in (alias,) if kind == "inputs" else (f"{OUTPUT}{alias}", alias):
            if name in indices:
                return indices[name]
        tensors = self.signature.outputs if kind == "outputs" else self.signature.inputs
        frame = Frame(Library(self.meta_graph.graph_def), self.meta_graph.graph_def)
        node = frame.node_output(tensors[alias].tensor).origin().node if alias in tensors else None
        of = f", which is {node.op} {node.name!r}" if node is not None else ""
        raise LoadFailed(
            f"OpenVINO converts the graph without {alias!r}, one of its {kind}{of}: export a"
            " signature without it"
        )

    def _beside(self, prepared: PreparedGraph, host: "HostPlan | None") -> PartBeside | None:
        """Give the part answered beside the model; None where the model is the whole signature."""
        whole = prepared.as_declared and not prepared.defaults and host is None
        if whole and prepared.outputs:
            return None
        inputs, outputs = self.names
        constants = {**prepared.constants, **self._computed(prepared)}
        listed = self.listed
        return PartBeside(
            Signature(
                listed.name,
                listed.inputs,
                listed.outputs,
                listed.method,
                defaults={inputs[alias]: value for alias, value in prepared.defaults.items()},
            ),
            [(inputs[alias], parsing.spec) for alias, parsing in prepared.parsings],
            {outputs[alias]: value for alias, value in constants.items()},
            {outputs[alias]: inputs.get(src, src) for alias, src in prepared.echoes.items()},
            {outputs[alias]: outputs[source] for alias, source in prepared.repeats.items()},
            self._meanings(prepared, host),
        )

    def _meanings(self, prepared: PreparedGraph, host: "HostPlan | None") -> dict[str, str]:
        """Tell how the model's inputs that clients do not see are computed."""
        names = self.names[0]
        meanings = {
            own: f'feature "{feature.key}" of "{names[alias]}"'
            for alias, parsing in prepared.parsings
            for feature in parsing.spec.features
            for own in vars(feature).values()
            if isinstance(own, str) and own in parsing.inputs
        }
        for own, (what, inputs) in host.made.items() if host is not None else ():
            of = [meanings.get(alias, f'"{names.get(alias, alias)}"') for alias in inputs]
            meanings[own] = f"what {what} makes of {' and '.join(of)}" if of else what
        return meanings

    def _computed(self, prepared: PreparedGraph) -> dict[str, Array]:
        """Compute, once, the outputs that depend on no input."""
        if not prepared.computed:
            return {}
        with directory_of_constants(self.directory, self.meta_graph, prepared) as source:
            model = core().read_model(str(source))
        outputs = model.outputs
        indices = _indices(outputs)
        return {
            alias: _evaluated(model, outputs[self._index(indices, alias, "outputs")])
            for alias in prepared.computed
        }


def _evaluated(model: ov.Model, output: ov.Output) -> Array:
    """Compute one output of a graph whose inputs are the zeros of `directory_of_constants`.

    OpenVINO's reference implementation computes in the dtypes of the graph, but lacks some
    operations; the CPU plugin computes 64 bits in 32, as for served doubles.

    Raises:
        LoadFailed: only the plugin computes it, and 32 bits may not hold its integers.
    """
    inputs = model.get_parameters()
    zeros = [np.zeros((), BY_NUMBER[_dtype(each.output(0))].numpy) for each in inputs]
    alone = ov.Model([output.node], inputs)
    result = ov.Tensor(output.get_element_type(), ov.Shape([]))
    try:
        if alone.evaluate([result], [ov.Tensor(zero) for zero in zeros]):
            return np.array(result.data)
    except RuntimeError as error:
        cause = openvino_text(error)
    else:
        cause = "an operation has no reference"
    if output.get_element_type() in _CUT:
        raise LoadFailed(
            "an output that depends on no input is an integer that 32 bits may not hold, and"
            f" cannot be computed otherwise ({cause}): save its value in the model instead"
        )
    compiled = core().compile_model(alone, "CPU", _EXACT)
    return np.array(compiled.create_infer_request().infer(dict(enumerate(zeros)))[0])


_EXACT = {"INFERENCE_PRECISION_HINT": "f32"}
_CUT = (ov.Type.i64, ov.Type.u64, ov.Type.u32)


def _dtype(port: ov.Output) -> int:
    """Read the number of a dtype from the name of an input that `directory_of_constants` added."""
    return int(next(iter(port.get_names())).partition(":")[0].rpartition("_")[2])


def _shape_of(port: ov.Output) -> tuple[int, ...] | None:
    """Give a shape with -1 in open dimensions; None for an open rank."""
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic:
        return None
    return tuple(dim.get_length() if dim.is_static else -1 for dim in shape)


def _indices(ports: Iterable[ov.Output]) -> Mapping[str, int]:
    """Index ports by each of their names, once: there may be thousands. The first one counts."""
    found: dict[str, int] = {}
    for index, port in enumerate(ports):
        node = port.get_node()
        # The front end names no tensor of a branch that is known at load, but only its Result.
        own = [node.get_friendly_name()] if node.get_type_name() == "Result" else []
        for name in (*port.get_names(), *own):
            found.setdefault(name, index)
    return found


def _read_beside(model: ov.Model, known: Collection[int]) -> str:
    """Say which inputs of a graph are none of its signature's."""
    read = [_names_of(port) for at, port in enumerate(model.inputs) if at not in known]
    return (
        f"the graph reads {' and '.join(read)}, which is no input of the signature: export a"
        " signature that takes it"
    )


def _names_of(port: ov.Output) -> str:
    return repr(min(port.get_names(), default=port.get_node().get_friendly_name()))
