"""From a version directory to models in memory: one a signature, with its tensors named."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import openvino as ov

from ie_serving.engines.openvino import formats, saved_model
from ie_serving.engines.openvino.mapping import Renames, aliases, read_mapping
from ie_serving.engines.openvino.runtime import core, load_failures
from ie_serving.errors import LoadFailed
from ie_serving.telemetry.logs import Event
from ie_serving.tensors import SERVING_DEFAULT, Method

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tensor:
    """One input or output of a model, named for clients.

    Attributes:
        alias: name in requests and replies.
        tensor: `TensorInfo.name` in the metadata.
        index: position among the model's inputs or outputs.
        names: all names by which an option may speak of it.
        declared: whether `shape` is the model file's own word and stands unless reshaped.
        shape: as declared; None for an open rank.
    """

    alias: str
    tensor: str
    index: int
    names: frozenset[str]
    declared: bool = False
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Draft:
    """A signature before it is compiled."""

    name: str
    method: str
    model: ov.Model
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]


def read(directory: Path) -> list[Draft]:
    """Read the model in `directory`; a SavedModel gives one draft for each signature.

    Raises:
        LoadFailed: naming the file, and the operations that OpenVINO lacks.
    """
    with load_failures("the version cannot be read"):
        file = formats.model_file(directory)
        renames = read_mapping(directory)
    if file.name == formats.SAVED_MODEL:
        return _signatures(directory, renames)
    with load_failures(f"{file.name} cannot be read"):
        model = core().read_model(str(file))
    return [_plain(model, renames)]


def _plain(model: ov.Model, renames: tuple[Renames, Renames]) -> Draft:
    inputs = _tensors(model.inputs, renames[0], "inputs")
    outputs = _tensors(model.outputs, renames[1], "outputs")
    return Draft(SERVING_DEFAULT, Method.PREDICT.value, model, inputs, outputs)


def _tensors(ports: Sequence[ov.Output], renames: Renames, kind: str) -> list[Tensor]:
    """Name ports as 2020 and TF Serving do; outputs that are the same tensor count once."""
    by_name = {_own_name(port): i for i, port in reversed(list(enumerate(ports)))}
    chosen = sorted(by_name.items(), key=lambda item: item[1])
    own = [name for name, _ in chosen]
    known = [frozenset({name, *_names(ports[i])}) for name, i in chosen]
    given = aliases(own, known, renames, kind)
    return [
        Tensor(alias, _with_port(name), i, names | {alias})
        for alias, (name, i), names in zip(given, chosen, known, strict=True)
    ]


def _own_name(port: ov.Output) -> str:
    """Give the first of the tensor's names in order, or else the name of the layer."""
    names = port.get_names()
    return str(min(names)) if names else _layer(port)


def _names(port: ov.Output) -> set[str]:
    return {*map(str, port.get_names()), _layer(port)}


def _layer(port: ov.Output) -> str:
    node = port.get_node()
    if node.get_type_name() != "Result":
        return str(node.get_friendly_name())
    source = node.input_value(0)
    name = str(source.get_node().get_friendly_name())
    several = source.get_node().get_output_size() > 1
    return f"{name}.{source.get_index()}" if several else name


def _with_port(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def _signatures(directory: Path, renames: tuple[Renames, Renames]) -> list[Draft]:
    """Convert every signature; one beside serving_default that cannot be is left out."""
    with load_failures(saved_model.FILE):
        declared = saved_model.declared(directory)
    drafts = []
    for name, signature in declared.items():
        try:
            drafts.append(_converted(directory, signature, renames))
        except LoadFailed as error:
            if name == SERVING_DEFAULT:
                raise
            log.warning(Event("signature left out", signature=name, cause=error))
    if not drafts:
        raise LoadFailed(f"{saved_model.FILE} has no signature that OpenVINO can serve")
    return drafts


def _converted(
    directory: Path, signature: saved_model.Declared, renames: tuple[Renames, Renames]
) -> Draft:
    what = f"{saved_model.FILE}: signature {signature.name!r} cannot be converted"
    with load_failures(what), saved_model.directory_for(directory, signature.name) as source:
        model = core().read_model(str(source))
    inputs = _declared(model.inputs, signature.inputs, renames[0], "inputs")
    outputs = _declared(model.outputs, signature.outputs, renames[1], "outputs")
    if len({tensor.index for tensor in inputs}) != len(model.inputs):
        raise LoadFailed(f"{what}: the graph has other inputs than the signature")
    return Draft(signature.name, signature.method, model, inputs, outputs)


def _declared(
    ports: Sequence[ov.Output],
    infos: Mapping[str, saved_model.TensorInfo],
    renames: Renames,
    kind: str,
) -> list[Tensor]:
    own = list(infos)
    known = [frozenset({alias, info.tensor}) for alias, info in infos.items()]
    given = aliases(own, known, renames, kind)
    return [
        Tensor(alias, info.tensor, _index(ports, name, kind), names | {alias}, True, info.shape)
        for alias, (name, info), names in zip(given, infos.items(), known, strict=True)
    ]


def _index(ports: Iterable[ov.Output], alias: str, kind: str) -> int:
    for i, port in enumerate(ports):
        if alias in port.get_names():
            return i
    raise LoadFailed(f"{saved_model.FILE}: OpenVINO's front end lost {alias!r} of the {kind}")
