"""Reads `*.tflite` to a draft for each signature; leaves out those that cannot be converted.

MediaPipe's operation `Convolution2DTransposeBias` is converted here. The front end does not show an
operation's custom options, so they are read from the file: 32-bit numbers for padding and the two
strides, as in TfLiteTransposeConvParams.
"""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import openvino as ov
import openvino.opset15 as op
from openvino.frontend import (
    ConversionExtension,
    FrontEndManager,
    GeneralFailure,
    NodeContext,
    OpConversionFailure,
)

from ie_serving.core.runtime.scratch import Scratch
from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.error_texts import load_failures
from ie_serving.engines.openvino.graphs.constants import int64
from ie_serving.engines.openvino.interface.draft import Draft, Drafts, ModelTensor, leaving_out
from ie_serving.engines.openvino.operators.converter import size_of
from ie_serving.engines.openvino.reading.lite_signatures import (
    CustomOperation,
    LiteSignature,
    customs,
    keeps_state,
    node_of,
    signatures_of,
    with_first,
)
from ie_serving.engines.openvino.reading.mapping import Renames, aliases
from ie_serving.engines.openvino.runtime import core


def read_lite(path: Path, renames: tuple[Renames, Renames]) -> Drafts:
    """Convert every signature of a TFLite file.

    Raises:
        LoadFailed: it is none, or damaged.
    """
    with load_failures(f"{path.name} cannot be read"):
        data = path.read_bytes()
    found = signatures_of(data, path.name)
    version = Drafts([], {each.name: each.definition for each in found}, file=path.name)
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
        raise LoadFailed("the graph has other inputs than the signature: convert the model anew")
    return Draft(signature.name, signature.method, model, inputs, outputs)


def _converted(data: bytes, subgraph: int, own: Sequence[CustomOperation]) -> ov.Model:
    """Convert one subgraph; the front end takes the first one of a file."""
    with Scratch() as private:
        path = private / "model.tflite"
        path.write_bytes(with_first(data, subgraph))
        options = {each.inputs[1]: options_of(each.options) for each in own if each.kind == KIND}
        if options:
            return read(str(path), options)
        return core().read_model(str(path))


def _in_words(data: bytes, own: Sequence[CustomOperation], error: RuntimeError) -> Exception:
    """Say what of a file OpenVINO does not convert, where its own words do not."""
    if keeps_state(data, "the model"):
        return LoadFailed(
            "it keeps state in variables from one call to the next, which OpenVINO does not read:"
            " export it with the state as inputs and outputs"
        )
    for each in own:
        if each.kind in str(error) and each.kind.startswith(_SELECT):
            kind = each.kind.removeprefix("Flex")
            return LoadFailed(
                f"{each.kind} is TensorFlow's own operation {kind}: serve the SavedModel that the"
                " file was made of"
            )
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
    for known in (name, node_of(name)):
        for i, port in enumerate(ports):
            if known in port.get_names():
                return i
    raise LoadFailed(
        f"the graph has no tensor {name!r} among its {kind}, though a signature names it:"
        " convert the model again"
    )


KIND = "Convolution2DTransposeBias"
_SELECT = ("Flex", "ParseExample")
"""Begin the names of TensorFlow's operations, which a converter leaves in a file where it may."""
_SAME = 1
"""Padding by which the output is the input times the stride."""


class Options(NamedTuple):
    """The custom options of one operation."""

    padding: int
    width: int
    height: int


def options_of(data: bytes) -> Options:
    """Read the custom options. Raises: struct.error."""
    return Options(*struct.unpack("<3i", data[:12]))


def read(path: str, options: Mapping[str, Options]) -> ov.Model:
    """Read a file with such operations.

    Args:
        path: path of the file.
        options: options by the names of the operations' weights.

    Raises:
        RuntimeError: the front end's own failures.
    """

    def convert(node: NodeContext) -> list[ov.Output]:
        names = node.get_input(1).get_names()
        (own,) = {each for name, each in options.items() if name in names}
        data, kernel, bias = (node.get_input(index) for index in range(3))
        return [_convolved(data, kernel, bias, own).output(0)]

    front_end = FrontEndManager().load_by_framework("tflite")
    front_end.add_extension(ConversionExtension(KIND, convert))
    try:
        model: ov.Model = front_end.convert(front_end.load(path))
    except (GeneralFailure, OpConversionFailure) as error:
        raise RuntimeError(str(error)) from error
    return model


def _convolved(data: ov.Output, kernel: ov.Output, bias: ov.Output, own: Options) -> ov.Node:
    strides = [own.height, own.width]
    # Kernels are (outputs, height, width, inputs), data has its channels last.
    overlap = [size_of(kernel, axis) - strides[axis - 1] for axis in (1, 2)]
    total = [max(0, each) if own.padding == _SAME else 0 for each in overlap]
    before = [each // 2 for each in total]
    after = [each - half for each, half in zip(total, before, strict=True)]
    more = [max(0, -each) if own.padding == _SAME else 0 for each in overlap]
    made = op.convolution_backprop_data(
        op.transpose(data, int64([0, 3, 1, 2])),
        op.transpose(kernel, int64([3, 0, 1, 2])),
        strides,
        None,
        before,
        after,
        [1, 1],
        "explicit",
        more,
    )
    return op.add(op.transpose(made, int64([0, 2, 3, 1])), bias)
