"""Reads `*.tflite` to a draft for each signature; leaves out those that cannot be converted."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import openvino as ov

from ie_serving.core.runtime.scratch import Scratch
from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.interface.draft import Draft, ModelTensor, Version
from ie_serving.engines.openvino.reading.left_out import leaving_out
from ie_serving.engines.openvino.reading.lite_signatures import (
    LiteSignature,
    signatures_of,
    with_first,
    without_port,
)
from ie_serving.engines.openvino.reading.mapping import Renames, aliases
from ie_serving.engines.openvino.runtime import core, load_failures


def read_lite(path: Path, renames: tuple[Renames, Renames]) -> Version:
    """Convert every signature of a TFLite file.

    Raises:
        LoadFailed: it is none, or damaged.
    """
    with load_failures(f"{path.name} cannot be read"):
        data = path.read_bytes()
    found = signatures_of(data, path.name)
    version = Version([], {each.name: each.definition for each in found}, file=path.name)
    for signature in found:
        with leaving_out(version, signature.name, "converted"):
            version.drafts.append(_draft(data, signature, renames))
    return version


def _draft(data: bytes, signature: LiteSignature, renames: tuple[Renames, Renames]) -> Draft:
    model = _converted(data, signature.subgraph)
    inputs = _tensors(model.inputs, signature.inputs, renames[0], "inputs")
    outputs = _tensors(model.outputs, signature.outputs, renames[1], "outputs")
    if len({tensor.index for tensor in inputs}) != len(model.inputs):
        raise LoadFailed("the graph has other inputs than the signature")
    return Draft(signature.name, signature.method, model, inputs, outputs)


def _converted(data: bytes, subgraph: int) -> ov.Model:
    """Convert one subgraph; the front end takes the first one of a file."""
    with Scratch() as private:
        path = private / "model.tflite"
        path.write_bytes(with_first(data, subgraph))
        return core().read_model(str(path))


def _tensors(
    ports: Sequence[ov.Output], names: Mapping[str, str], renames: Renames, kind: str
) -> list[ModelTensor]:
    known = [frozenset({alias, name}) for alias, name in names.items()]
    given = aliases(list(names), known, renames, kind)
    return [
        ModelTensor(alias, name, _index(ports, name, kind), same | {alias})
        for alias, name, same in zip(given, names.values(), known, strict=True)
    ]


def _index(ports: Sequence[ov.Output], name: str, kind: str) -> int:
    for known in (name, without_port(name)):
        for i, port in enumerate(ports):
            if known in port.get_names():
                return i
    raise LoadFailed(f"the graph has no tensor {name!r} among its {kind}")
