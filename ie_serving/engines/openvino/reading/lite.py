"""Reads `*.tflite` to a draft for each signature; leaves out those that cannot be converted."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import openvino as ov

from ie_serving.core.runtime.scratch import Scratch
from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.interface.draft import Draft, ModelTensor, Version
from ie_serving.engines.openvino.operators import transposed_bias
from ie_serving.engines.openvino.reading.left_out import leaving_out
from ie_serving.engines.openvino.reading.lite_signatures import (
    CustomOperation,
    LiteSignature,
    customs,
    keeps_state,
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
    own = customs(data, signature.name)
    try:
        model = _converted(data, signature.subgraph, own)
    except RuntimeError as error:
        raise _in_words(data, own, error) from error
    inputs = _tensors(model.inputs, signature.inputs, renames[0], "inputs")
    outputs = _tensors(model.outputs, signature.outputs, renames[1], "outputs")
    if len({tensor.index for tensor in inputs}) != len(model.inputs):
        raise LoadFailed("the graph has other inputs than the signature")
    return Draft(signature.name, signature.method, model, inputs, outputs)


def _converted(data: bytes, subgraph: int, own: Sequence[CustomOperation]) -> ov.Model:
    """Convert one subgraph; the front end takes the first one of a file."""
    with Scratch() as private:
        path = private / "model.tflite"
        path.write_bytes(with_first(data, subgraph))
        options = {
            each.inputs[1]: transposed_bias.options_of(each.options)
            for each in own
            if each.kind == transposed_bias.KIND
        }
        if options:
            return transposed_bias.read(str(path), options)
        return core().read_model(str(path))


def _in_words(data: bytes, own: Sequence[CustomOperation], error: RuntimeError) -> Exception:
    """Say what of a file OpenVINO does not convert, where its own words do not."""
    if keeps_state(data, "the model"):
        return LoadFailed(
            "it keeps state in variables from one call to the next, which OpenVINO does not read:"
            " export it with the state as inputs and outputs"
        )
    for each in own:
        if each.kind in str(error):
            return LoadFailed(
                f"{each.kind} is no operation of TensorFlow Lite, but one of the program that the"
                " model was made for, such as MediaPipe: export the model without it"
            )
    return error


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
