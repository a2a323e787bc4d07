"""Converts MediaPipe's operation `Convolution2DTransposeBias` in TFLite files.

The front end does not show an operation's custom options, so they are read from the file: 32-bit
numbers for padding and the two strides, as in TfLiteTransposeConvParams.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

import openvino as ov
import openvino.opset15 as op
from openvino.frontend import ConversionExtension, FrontEndManager, NodeContext

from ie_serving.engines.openvino.graphs.constants import int64
from ie_serving.engines.openvino.operators.reading import size_of

KIND = "Convolution2DTransposeBias"
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
        path: of the file.
        options: by the names of the operations' weights.

    Raises:
        RuntimeError: the front end's own failures.
    """

    def convert(node: NodeContext) -> list[ov.Output]:
        names = node.get_input(1).get_names()
        (own,) = {each for name, each in options.items() if name in names}
        data, kernel, bias = (node.get_input(place) for place in range(3))
        return [_convolved(data, kernel, bias, own).output(0)]

    front_end = FrontEndManager().load_by_framework("tflite")
    front_end.add_extension(ConversionExtension(KIND, convert))
    model: ov.Model = front_end.convert(front_end.load(path))
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
