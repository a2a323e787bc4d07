"""Drafts: the signatures of a version as read from its files, before compilation."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import openvino as ov

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.image_form import RGB
from ie_serving.core.values.tensors import Signature
from ie_serving.engines.openvino.error_texts import Operation, among, load_failures
from ie_serving.telemetry.log.logs import Event

if TYPE_CHECKING:
    from ie_serving.engines.savedmodel.host.host_program import HostPlan
    from ie_serving.engines.savedmodel.program import PartBeside

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelTensor:
    """One input or output of a model, named for clients.

    Attributes:
        alias: name in requests and replies.
        tensor: `TensorInfo.name` in the metadata.
        index: position among the model's inputs or outputs.
        names: all names by which an option may speak of it.
        declared: whether `shape` is the model file's own word and stands unless reshaped.
        shape: declared shape; None for an open rank.
        parsed: an input that no client sees, since it is parsed from Examples.
    """

    alias: str
    tensor: str
    index: int
    names: frozenset[str]
    declared: bool = False
    shape: tuple[int, ...] | None = None
    parsed: bool = False


@dataclass(frozen=True)
class Draft:
    """A signature before it is compiled.

    Attributes:
        name: signature name.
        method: its method.
        model: its graph; None where `beside` answers all of it.
        inputs: inputs of the model.
        outputs: outputs of the model.
        beside: the part answered beside the model; None where the model is the whole signature.
        listed: the signature as the file declares it, for the metadata of one that is left out;
            None where the file declares none.
        host: the computation of the host around the model; None where there is none.
        colours: order of the colours of encoded images, where no setting gives it.
        ignored: further inputs of the file, whose values have no effect.
    """

    name: str
    method: str
    model: ov.Model | None
    inputs: Sequence[ModelTensor]
    outputs: Sequence[ModelTensor]
    beside: "PartBeside | None" = None
    listed: Signature | None = None
    host: "HostPlan | None" = None
    colours: str = RGB
    ignored: frozenset[str] = frozenset()

    @property
    def runs_on(self) -> str:
        """Describe the engine that computes it."""
        by_server = [*self._by_server()]
        if self.model is None:
            if not by_server and self.beside is not None and self.beside.echoes:
                by_server = ["copies inputs"]
            what = (
                f", which {' and '.join(by_server)}"
                if by_server
                else ": its values are known at load"
            )
            return f"the server{what}"
        return "; the server ".join([_by_openvino(self.model), *by_server])

    def _by_server(self) -> Iterator[str]:
        if self.beside is not None and self.beside.examples:
            yield "parses Examples"
        if self.host is not None:
            operations = ", ".join(self.host.names())
            if operations:
                yield f"computes {operations}"


def _by_openvino(model: ov.Model) -> str:
    ranks = any(port.get_partial_shape().rank.is_dynamic for port in model.inputs)
    return "OpenVINO, compiled for the ranks of each first request" if ranks else "OpenVINO"


@dataclass
class Drafts:
    """The signatures of a version: those that were read, and why others are left out.

    Attributes:
        drafts: the signatures to compile.
        definitions: the SignatureDef of every signature of a file that has them, serialized, by
            its name.
        causes: reason why a signature is left out, by its name.
        file: name of the model's file, for the causes.
        declared: signatures by name as the file declares them, but for those with tensors that the
            API cannot carry.
        operations: lists what a signature is computed by, to name what is at fault.
        repeats: the draft that computes the same as a signature without one, by their names.
    """

    drafts: list[Draft]
    definitions: Mapping[str, bytes] = field(default_factory=dict)
    causes: dict[str, LoadFailed] = field(default_factory=dict)
    file: str = "saved_model.pb"
    declared: dict[str, Signature] = field(default_factory=dict)
    operations: Callable[[str], Iterable[Operation]] = lambda signature: ()
    repeats: dict[str, str] = field(default_factory=dict)

    def left_out(self) -> list[Signature]:
        """Give the left-out signatures with known tensors, each with the cause."""
        return [
            replace(self.declared[name], left_out=str(cause))
            for name, cause in self.causes.items()
            if name in self.declared
        ]

    def listed(self, served: Collection[str]) -> list[Signature]:
        """Give the signatures that the file declares and that are not `served`.

        TensorFlow's own compute nothing: they have no cause.
        """
        return [
            Signature(name, {}, {}, left_out=str(self.causes.get(name, "")), definition=definition)
            for name, definition in self.definitions.items()
            if name not in served
        ]


@contextmanager
def leaving_out(version: Drafts, name: str, how: str) -> Iterator[None]:
    """Leave a signature out when the body fails; the other signatures still serve.

    Args:
        version: version that notes the cause.
        name: signature name.
        how: the step that failed: `converted`, `compiled`.
    """
    what = f"{version.file}: signature {name!r} cannot be {how}"
    try:
        with among(partial(version.operations, name)), load_failures(what):
            yield
    except LoadFailed as error:
        text = str(error)
        _leave_out(version, name, text if text.startswith(what) else f"{what}: {text}")
    # A graph that we read wrongly is a defect of ours, and still no reason to refuse the others.
    except Exception as error:
        log.exception(Event("signature left out by a defect", signature=name))
        _leave_out(version, name, f"{what}: {type(error).__name__}: {error}")


def _leave_out(version: Drafts, name: str, cause: str) -> None:
    version.causes[name] = LoadFailed(cause)
