"""The OpenVINO engine: compiles a version directory to a model."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import openvino as ov
import openvino.opset15 as op

from ie_serving.core.runtime.spare_cpu import SPARE_CPU
from ie_serving.core.values.errors import LoadFailed, NoSignatureServed
from ie_serving.core.values.tensors import Signature
from ie_serving.engines import driver_params
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.compiling import properties
from ie_serving.engines.openvino.compiling.programs import check_alike, program_of
from ie_serving.engines.openvino.error_texts import Operation, among, load_failures
from ie_serving.engines.openvino.faults.nonfinite import Nonfinite
from ie_serving.engines.openvino.graphs.constants import int64
from ie_serving.engines.openvino.graphs.rules import replace_node
from ie_serving.engines.openvino.graphs.walk import operations
from ie_serving.engines.openvino.interface import preprocess
from ie_serving.engines.openvino.interface.draft import Draft, Drafts, leaving_out
from ie_serving.engines.openvino.interface.tensor_specs import check_shapes, prepare
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.reading import formats
from ie_serving.engines.openvino.reading.file_operations import operations as operations_of
from ie_serving.engines.openvino.reading.read import read
from ie_serving.engines.openvino.runtime import extend
from ie_serving.engines.preprocessing import Preprocessing
from ie_serving.engines.run.program import CompiledPrograms, Fallback, Program, RunnableSignature
from ie_serving.engines.run.rank_programs import MORE, OpenRankProgram, RankForm, ones
from ie_serving.engines.run.shape_programs import SentShapeProgram
from ie_serving.telemetry.log.logs import Event

if TYPE_CHECKING:
    from ie_serving.engines.savedmodel.host.host_program import HostPlan
    from ie_serving.engines.savedmodel.program import PartBeside

log = logging.getLogger(__name__)

_RANKED_BY_SIZES = frozenset({"If", "Squeeze"})
"""Operations whose output has another rank where a size of the input is 1; `If` in exports of
`torch.squeeze`."""


class OpenVinoEngine:
    """Compiles OpenVINO IR, TensorFlow SavedModels and ONNX. See `engines.base.Engine`.

    Args of the constructor:
        fallback: takes the signatures of a SavedModel that cannot be served here.
        detours: compile a graph a second time for requests with NaN or infinity. Without, these are
            computed as OpenVINO does.
    """

    name = "openvino"

    def __init__(self, fallback: Fallback | None = None, *, detours: bool = True) -> None:
        self._fallback = fallback
        self._detours = detours

    def missing(self, files: Collection[str]) -> str | None:
        """See `engines.base`."""
        return formats.missing(files)

    def claims(self, directory: Path) -> bool:
        """See `engines.base`: it is tried last, and has the best error texts about files."""
        return True

    def compile(self, directory: Path, options: EngineOptions) -> CompiledPrograms:
        """See `engines.base`."""
        with SPARE_CPU.left(), among(partial(_operations, directory, options)):
            return self._compiled(directory, options)

    def _compiled(self, directory: Path, options: EngineOptions) -> CompiledPrograms:
        driver_params.check_known(options, (), self.name)
        own = options.of(OpenVinoOptions)
        own = replace(own, target_device=properties.device(own))
        options = options.having(own)
        extend(own.cpu_extension)
        version = read(directory, own, options.saved_model_tags)
        nonfinite = partial(self._nonfinite, directory, options)
        programs = [
            made
            for draft in version.drafts
            if (made := _served(draft, version, options, nonfinite(draft.name)))
        ]
        repeats = _repeats(version, programs)
        if version.causes and self._fallback and version.file == formats.SAVED_MODEL:
            programs += _taken_over(self._fallback, directory, version, options)
        for name, cause in version.causes.items():
            log.warning(Event("signature left out", signature=name, cause=cause))
        if not programs:
            raise _none_served(version)
        served = (*(program.signature for program in programs), *(each for each, _ in repeats))
        listed = version.listed([signature.name for signature in served])
        runs_on = {draft.name: draft.runs_on for draft in version.drafts}
        as_sent = _by_sent_shapes(directory, version, options, programs)
        return CompiledPrograms(
            programs, listed=listed, runs_on=runs_on, as_sent=as_sent, repeats=repeats
        )

    def compile_for(
        self, directory: Path, options: EngineOptions, shapes: Mapping[str, tuple[int, ...]]
    ) -> CompiledPrograms:
        """Compile a version of one signature for `shapes` of its inputs alone. Blocking.

        Raises:
            LoadFailed: also where an operation may give other outputs if sizes are known, or the
                weights would take much memory twice.
        """
        own = options.of(OpenVinoOptions)
        with SPARE_CPU.left():
            drafts = read(directory, own, options.saved_model_tags).drafts
            if len(drafts) != 1:  # none where `fallback` has taken the signature
                raise LoadFailed(f"expected one signature for OpenVINO: found {len(drafts)}")
            check_alike(drafts[0], options)
            options = options.having(replace(own, shape=shapes))
            nonfinite = self._nonfinite(directory, options, drafts[0].name)
            return CompiledPrograms([_runs(drafts[0], options, nonfinite)])

    def _nonfinite(self, directory: Path, options: EngineOptions, name: str) -> Nonfinite:
        """Decide how a signature's requests with NaN and infinity are treated."""
        if not self._detours:
            return Nonfinite()
        return Nonfinite(elsewhere=partial(_keeping_nonfinite, directory, name, options))


def _repeats(version: Drafts, programs: Sequence[RunnableSignature]) -> list[tuple[Signature, str]]:
    """Give the signatures that are computed by programs of others, with the names of these.

    Signatures that repeat a failed one report its cause.
    """
    made = {program.signature.name: program.signature for program in programs}
    found = []
    for name, own in version.repeats.items():
        if own in made:
            found.append((_as(made[own], version.declared[name]), own))
        else:
            cause = str(version.causes[own])
            cause = cause.replace(f"signature {own!r}", f"signature {name!r}", 1)
            version.causes[name] = LoadFailed(cause)
    return found


def _as(signature: Signature, declared: Signature) -> Signature:
    """Give a signature the name of another one, and its tensors those in the file."""
    inputs, outputs = (
        {a: replace(s, tensor=own[a].tensor) if a in own else s for a, s in specs.items()}
        for specs, own in (
            (signature.inputs, declared.inputs),
            (signature.outputs, declared.outputs),
        )
    )
    return replace(signature, name=declared.name, inputs=inputs, outputs=outputs)


def _operations(directory: Path, options: EngineOptions) -> Iterable[Operation]:
    """List the operations of a file without signatures; see `Drafts.operations` for others."""
    prefer_tflite = options.of(OpenVinoOptions).prefer_tflite_model
    return operations_of(formats.model_file(directory, prefer_tflite=prefer_tflite), ())


def _by_sent_shapes(
    directory: Path, version: Drafts, options: EngineOptions, programs: Sequence[RunnableSignature]
) -> Mapping[str, SentShapeProgram]:
    """Let the signatures of a SavedModel take other shapes, where no setting changes their own."""
    if not version.definitions:
        return {}
    from ie_serving.engines.savedmodel.sent_shapes import read_by

    own, drafts = options.of(OpenVinoOptions), {draft.name for draft in version.drafts}
    changed = own.shape is not None or own.batch_size is not None
    if changed or options.of(Preprocessing).asked:
        return {}
    return {
        name: SentShapeProgram(
            program,
            partial(_for_shapes, directory, program.signature, options),
            partial(read_by, directory, options.saved_model_tags, program.signature),
        )
        for program in programs
        if (name := program.signature.name) in drafts
    }


def _for_shapes(
    directory: Path, signature: Signature, options: EngineOptions, shapes: Sequence[Any]
) -> RunnableSignature:
    """Compile a signature of a SavedModel for shapes that it does not declare.

    Raises:
        LoadFailed: it cannot be compiled so, or TensorFlow might not answer as OpenVINO does.
    """
    from ie_serving.engines.savedmodel.sent_shapes import ShapedSignature

    options = replace(options, ahead=False, nireq=1)
    asked = ShapedSignature(signature.name, dict(zip(signature.inputs, shapes, strict=True)))
    with SPARE_CPU.left():
        version = read(
            directory, options.of(OpenVinoOptions), options.saved_model_tags, as_sent=asked
        )
        if version.causes:
            raise version.causes[signature.name]
        return _runs(version.drafts[0], options, Nonfinite(kept=True))


def _taken_over(
    fallback: Fallback, directory: Path, version: Drafts, options: EngineOptions
) -> list[RunnableSignature]:
    """Give programs of signatures that were left out; for the others, note the additions."""
    taken, others = fallback.take(directory, version.left_out(), options)
    for program in taken:
        cause = version.causes.pop(program.signature.name)
        log.info(Event("signature taken over", signature=program.signature.name, cause=cause))
    version.causes.update({each.name: LoadFailed(each.left_out) for each in others})
    return taken


def _served(
    draft: Draft, version: Drafts, options: EngineOptions, nonfinite: Nonfinite
) -> RunnableSignature | None:
    """Compile a signature; one of a SavedModel that cannot be is left out."""
    if draft.name not in version.definitions:
        return _runs(draft, options, nonfinite)
    with leaving_out(version, draft.name, "compiled"):
        return _runs(draft, options, nonfinite)
    return None


def _none_served(version: Drafts) -> LoadFailed:
    """Give the causes by which no signature is left; the text of one stands alone."""
    causes = {name: str(cause) for name, cause in version.causes.items()}
    listed = "; ".join(causes.values())
    text = f"{version.file} has no signature that OpenVINO can serve: {listed}"
    if len(causes) == 1:
        text = listed
    elif not causes:
        text = f"{version.file} declares no signature: save the model with signatures"
    return NoSignatureServed(text, causes)


def _runs(draft: Draft, options: EngineOptions, nonfinite: Nonfinite) -> RunnableSignature:
    inner: RunnableSignature | None = None
    preprocess.check(draft, options.of(Preprocessing))
    if draft.model is not None:
        with load_failures("the model cannot be compiled"):
            inner = _for_any_rank(draft, draft.model, options, nonfinite)
    else:
        check_shapes(draft, options.of(OpenVinoOptions))
    if draft.beside is not None:
        return _around(draft.beside, draft.host, inner)
    assert inner is not None  # a signature without a model is answered beside
    return inner


def _keeping_nonfinite(directory: Path, name: str, options: EngineOptions) -> RunnableSignature:
    """Read a version again, and compile a signature's graph so that it keeps NaN and infinity.

    Raises:
        LoadFailed: the files are gone, or the device does not take the graph.
    """
    own = options.of(OpenVinoOptions)
    if own.inference_precision:  # f16 turns a constant NaN into 65504
        own = replace(own, inference_precision=properties.FULL)
    options = replace(options, ahead=False, nireq=1).having(own)
    with SPARE_CPU.left():
        version = read(directory, own, options.saved_model_tags)
        (draft,) = [each for each in version.drafts if each.name == name]
        assert draft.model is not None
        with load_failures("the model cannot be compiled for NaN"):
            return _for_any_rank(draft, draft.model, options, Nonfinite(kept=True))


def _for_any_rank(
    draft: Draft, model: ov.Model, options: EngineOptions, nonfinite: Nonfinite
) -> RunnableSignature:
    """Compile now where the ranks of the inputs are known, else for those of each request."""
    if not any(port.get_partial_shape().rank.is_dynamic for port in model.inputs):
        if _has_open_ranks(model) and not options.of(Preprocessing).asked:
            return _for_sizes_of_one(draft, model, options, nonfinite)
        return program_of(draft, model, options, nonfinite)
    ports = prepare(draft, model.clone(), options)
    opened = [port for port in ports.inputs if port.bounds is None]

    def make(ranks: Sequence[RankForm]) -> Program:
        """Compile for the `ranks` of the inputs with open rank, in their order."""
        ranked = model.clone()
        with load_failures(f"the model cannot be compiled for the ranks {ranks}"):
            given = ranked.inputs
            ranked.reshape(
                {
                    given[port.index]: ov.PartialShape([-1] * cast(int, rank))
                    for port, rank in zip(opened, ranks, strict=True)
                }
            )
            return program_of(draft, ranked, options, nonfinite)

    return OpenRankProgram(ports.signature, [port.spec.name for port in opened], make)


def _for_sizes_of_one(
    draft: Draft, model: ov.Model, options: EngineOptions, nonfinite: Nonfinite
) -> RunnableSignature:
    """Compile for the open sizes that are 1 in a request: a `Squeeze` without axes removes them."""
    sized = model.clone()
    ports = prepare(draft, sized, options)
    opened = [port for port in ports.inputs if not port.static]

    def known(forms: Sequence[RankForm]) -> ov.Model:
        """Copy the graph for `forms`: sizes of each open input, where `MORE` is any above 1."""
        ranked = model.clone()
        before, given = sized.inputs, ranked.inputs
        ranked.reshape(
            {
                given[port.index]: _known_shape(before[port.index], form)
                for port, form in zip(opened, forms, strict=True)
            }
        )
        _name_squeezed_axes(ranked)
        return ranked

    def make(forms: Sequence[RankForm]) -> Program:
        with load_failures("the model cannot be compiled for these sizes"):
            return program_of(draft, known(forms), options, nonfinite)

    def tells_ranks(size: int) -> bool:
        try:
            graph = known([(size,) * len(port.bounds or ()) for port in opened])
        except RuntimeError:  # the model takes no such sizes
            return False
        return not _has_open_ranks(graph)

    if _has_open_ranks(sized) and opened and (tells_ranks(MORE) or tells_ranks(1)):
        return OpenRankProgram(
            ports.signature, [port.spec.name for port in opened], make, form=ones
        )
    return program_of(draft, model, options, nonfinite)


def _name_squeezed_axes(model: ov.Model) -> None:
    """Name the axes that a `Squeeze` without axes removes, where it is known which sizes are 1.

    The plugin refuses one without axes, unless its passes happen to replace it.
    """
    for node in operations(model):
        if node.get_type_name() != "Squeeze" or node.get_input_size() > 1:
            continue
        shape = node.get_input_partial_shape(0)
        if shape.rank.is_dynamic or any(map(_may_be_one, shape)):
            continue
        data, axes = node.input_value(0), [axis for axis, size in enumerate(shape) if size == 1]
        as_it_is = int64([0] * len(shape))
        replace_node(
            node, op.squeeze(data, int64(axes)) if axes else op.reshape(data, as_it_is, True)
        )


def _may_be_one(size: ov.Dimension) -> bool:
    return bool(size.is_dynamic and size.get_min_length() < MORE)


def _known_shape(port: ov.Output, form: RankForm) -> ov.PartialShape:
    """Give an input's shape with what is known of its open sizes: that they are 1, or not."""
    assert isinstance(form, tuple)
    sizes = zip(port.get_partial_shape(), form, strict=True)
    return ov.PartialShape([_narrowed(size, known) for size, known in sizes])


def _narrowed(size: ov.Dimension, known: int) -> ov.Dimension:
    if size.is_static or known < MORE:
        return size if size.is_static else ov.Dimension(known)
    return ov.Dimension(max(size.get_min_length(), MORE), size.get_max_length())


def _has_open_ranks(model: ov.Model) -> bool:
    """Tell whether a rank may follow from sizes: a `Squeeze` without axes removes those of 1."""
    return any(
        node.get_type_name() in _RANKED_BY_SIZES
        and node.get_output_partial_shape(0).rank.is_dynamic
        for node in operations(model)
    )


def _around(
    beside: "PartBeside", host: "HostPlan | None", inner: RunnableSignature | None
) -> RunnableSignature:
    # Here, as in `reading/read.py`: only SavedModels need it.
    from ie_serving.engines.savedmodel.program import ProgramBeside

    if inner is not None:
        beside = beside.around(inner.signature)
    if host is None:
        return ProgramBeside(beside, inner)
    from ie_serving.engines.savedmodel.host.host_program import HostProgram

    program = HostProgram(host, beside.signature, inner)
    return ProgramBeside(beside, program, program.wanted)
