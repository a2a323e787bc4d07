"""The models of the full benchmark, made on the spot, and what is asked of them.

Random weights cost the same time as trained ones. Each model has one input `x` and one output `y`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from benchmarks.wire import Array

SEED = 7
RESNET50 = ((3, 64), (4, 128), (6, 256), (3, 512))
"""Blocks and inner channels of each of ResNet-50's four stages."""

TOKENS, WORDS, WIDTH, HEADS = 8, 1000, 512, 8
"""Of the transformer: length of a text, vocabulary, width, heads; the size of BERT-Small."""
FEW_TOKENS = 4
"""Of the transformer's shorter text: what is typed into a search field."""
BERT_TINY, BERT_MINI = (2, 128, 2), (4, 256, 4)
"""Layers, width and heads. Source: Turc et al., Well-Read Students Learn Better (2019)."""
RESNET20 = (16, 32, 64)
"""Channels of each of the three stages of ResNet-20, of three blocks each."""

SPEECH, FILTERS, FILTER_BINS = (98, 40), 186, 8
"""Of the net for speech: windows of time and bins of frequency, filters, and bins of a filter."""

ONE_AND_MANY = {"gRPC": (1, 16), "REST": (1, 16)}
ONE = {"gRPC": (1,), "REST": (1,)}
ONE_IN_EACH_WAY = {**ONE, "REST, binary": (1,), "gRPC, shared memory": (1,)}
ONE_AND_FEW = {"gRPC": (1, 4), "REST": (1, 4)}


@dataclass(frozen=True)
class Case:
    """One request shape, sent at several concurrencies.

    Attributes:
        model: key of `MODELS`.
        shape: of the input `x`, float32.
        concurrency: by transport.
    """

    name: str
    model: str
    shape: tuple[int, ...]
    concurrency: Mapping[str, tuple[int, ...]]

    def inputs(self) -> dict[str, Array]:
        """Give the same random numbers each time, with five decimals, as real data often has."""
        values = np.random.default_rng(SEED).random(self.shape, np.float32)
        return {"x": np.round(values, 5)}


CASES = (
    Case("dummy_b1", "dummy", (1, 10), ONE_AND_MANY),
    Case("mnist_b1", "mnist", (1, 784), ONE_AND_MANY),
    Case("mnist_b100", "mnist", (100, 784), ONE),
    Case("dummy_b100000", "dummy", (100_000, 10), ONE_IN_EACH_WAY),
    Case("resnet50", "resnet50", (1, 3, 224, 224), ONE_AND_FEW),
)


LARGE_LAYERS, LARGE_WIDTH = 10, 1024
"""Of a transformer with 500 MB of weights."""


def write_large(folder: Path) -> Path:
    """Write a transformer of 500 MB, if it is not there; give its version directory."""
    if not (folder / "model.xml").exists():
        large = transformer(LARGE_LAYERS, LARGE_WIDTH)
        ov.save_model(large, folder / "model.xml", compress_to_fp16=False)
    return folder


def dense(layers: int) -> ov.Model:
    """Layers of `WIDTH` numbers with ReLU: what one such model gives, another one takes."""
    x = _input(-1, WIDTH)
    weights = _Weights()
    node = x
    for _ in range(layers):
        node = ops.relu(ops.matmul(node, weights(WIDTH, WIDTH, fan_in=WIDTH / 2), False, False))
    return _model(node, x)


def write(folder: Path) -> None:
    """Write every model that is not there yet as `<folder>/<name>/1/model.xml`."""
    for name, build in MODELS.items():
        path = folder / name / "1" / "model.xml"
        if not path.exists():
            ov.save_model(build(), path, compress_to_fp16=False)


WIDE, ROWS = 1024, 256
"""Of the model that takes as long as it is told to: width of its layers, and rows of each."""


def write_slow(folder: Path, layers: int) -> Path:
    """Write a model that takes some milliseconds for each layer; give its version directory."""
    if not (folder / "model.xml").exists():
        ov.save_model(slow(layers), folder / "model.xml", compress_to_fp16=False)
    return folder


def slow(layers: int) -> ov.Model:
    """Ten floats in and ten out, and layers of many rows between them."""
    x, weights = _input(-1, 10), _Weights()
    rows = ops.multiply(x, weights(ROWS, 10, fan_in=1.0))
    node = ops.matmul(rows, weights(10, WIDE, fan_in=10), False, False)
    for _ in range(layers):
        node = ops.relu(ops.matmul(node, weights(WIDE, WIDE, fan_in=WIDE / 2), False, False))
    sums = ops.reduce_mean(node, ops.constant([0], np.int64), True)
    return _model(ops.matmul(sums, weights(WIDE, 10, fan_in=WIDE), False, False), x)


def dummy() -> ov.Model:
    """Ten floats in, each plus one out."""
    x = _input(-1, 10)
    return _model(ops.add(x, ops.constant(1.0, np.float32)), x)


def mnist() -> ov.Model:
    """A perceptron: 784, 128 with ReLU, 10 with softmax."""
    x = _input(-1, 784)
    weights = _Weights()
    hidden = ops.relu(ops.matmul(x, weights(784, 128, fan_in=784), False, False))
    scores = ops.matmul(hidden, weights(128, 10, fan_in=128), False, False)
    return _model(ops.softmax(scores, axis=1), x)


def resnet50() -> ov.Model:
    """Every convolution of ResNet-50, batch norms folded into them, for one image."""
    x = _input(1, 3, 224, 224)
    weights = _Weights()
    node = ops.relu(_convolution(x.output(0), weights, 64, kernel=7, stride=2))
    node = ops.max_pool(node, [2, 2], [1, 1], [1, 1], [1, 1], [3, 3]).output(0)
    for stage, (blocks, channels) in enumerate(RESNET50):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            node = _bottleneck(node, weights, channels, stride, widen=not block)
    pooled = ops.reduce_mean(node, ops.constant([2, 3], np.int32))
    scores = ops.matmul(pooled, weights(2048, 1000, fan_in=2048), False, False)
    return _model(ops.softmax(scores, axis=1), x)


def convnet() -> ov.Model:
    """Two convolutions and two dense layers on a digit, as in TensorFlow's tutorials on MNIST."""
    x = _input(-1, 1, 28, 28)
    weights = _Weights()
    flat = _strokes(x.output(0), weights, kernel=3)
    hidden = ops.relu(ops.matmul(flat, weights(3136, 1024, fan_in=3136), False, False))
    return _model(_best(ops.matmul(hidden, weights(1024, 10, fan_in=1024), False, False)), x)


def femnist() -> ov.Model:
    """Handwritten characters, one of 62. Source: LEAF, `models/femnist/cnn.py`."""
    x = _input(-1, 1, 28, 28)
    weights = _Weights()
    flat = _strokes(x.output(0), weights, kernel=5)
    hidden = ops.relu(_dense(flat, weights, 3136, 2048))
    return _model(_best(_dense(hidden, weights, 2048, 62)), x)


def _strokes(node: ov.Output, weights: "_Weights", *, kernel: int) -> ov.Output:
    """Give what two convolutions see in pictures of 28 x 28, as rows of 3,136 numbers."""
    for channels in (32, 64):
        node = ops.relu(_convolution(node, weights, channels, kernel=kernel)).output(0)
        node = ops.max_pool(node, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2]).output(0)
    return ops.reshape(node, ops.constant([0, 64 * 7 * 7], np.int32), True).output(0)


def keywords() -> ov.Model:
    """One of 12 words in a second of speech, by one convolution over all of its time.

    Source: TensorFlow, `examples/speech_commands/models.py`, `low_latency_conv`, after
    cnn-one-fstride4 of Sainath and Parada (2015).
    """
    time, bins = SPEECH
    x = _input(-1, 1, time, bins)
    weights = _Weights()
    filters = weights(FILTERS, 1, time, FILTER_BINS, fan_in=time * FILTER_BINS)
    bias = ops.constant(np.zeros((1, FILTERS, 1, 1), np.float32))
    product = ops.convolution(x, filters, [1, 1], [0, 0], [0, 0], [1, 1])
    found = ops.relu(ops.add(product, bias))
    size = FILTERS * (bins - FILTER_BINS + 1)
    flat = ops.reshape(found, ops.constant([0, size], np.int32), True)
    node = _dense(_dense(flat, weights, size, 128), weights, 128, 128)
    return _model(_best(_dense(node, weights, 128, 12)), x)


def resnet20() -> ov.Model:
    """Every convolution of ResNet-20, for small pictures as those of CIFAR-10."""
    x = _input(-1, 3, 32, 32)
    weights = _Weights()
    node = ops.relu(_convolution(x.output(0), weights, RESNET20[0], kernel=3)).output(0)
    for stage, channels in enumerate(RESNET20):
        for block in range(3):
            node = _basic(node, weights, channels, stride=2 if stage and not block else 1)
    pooled = ops.reduce_mean(node, ops.constant([2, 3], np.int32))
    last = RESNET20[-1]
    return _model(_best(ops.matmul(pooled, weights(last, 10, fan_in=last), False, False)), x)


def query_transformer() -> ov.Model:
    """The same transformer for texts of half the length."""
    return transformer(tokens=FEW_TOKENS)


def bert_tiny() -> ov.Model:
    """Give a transformer of BERT-Tiny's size."""
    return transformer(*BERT_TINY)


def bert_mini() -> ov.Model:
    """Give a transformer of BERT-Mini's size."""
    return transformer(*BERT_MINI)


def transformer(
    layers: int = 4, width: int = WIDTH, heads: int = HEADS, tokens: int = TOKENS
) -> ov.Model:
    """Layers of self-attention over a short text; the best of four classes."""
    ids = ops.parameter([-1, tokens], np.int32, name="x")
    ids.output(0).get_tensor().set_names({"x"})
    weights = _Weights()
    table = weights(WORDS, width, fan_in=1)
    node = ops.gather(table, ids, ops.constant(0, np.int32)).output(0)
    for _ in range(layers):
        node = _normal(ops.add(node, _attention(node, weights, width, heads)))
        wide = ops.matmul(node, weights(width, 4 * width, fan_in=width), False, False)
        inner = ops.gelu(wide, "erf")
        outer = ops.matmul(inner, weights(4 * width, width, fan_in=4 * width), False, False)
        node = _normal(ops.add(node, outer))
    pooled = ops.reduce_mean(node, ops.constant([1], np.int32))
    return _model(_best(ops.matmul(pooled, weights(width, 4, fan_in=width), False, False)), ids)


MODELS: Mapping[str, Callable[[], ov.Model]] = {
    "dummy": dummy,
    "mnist": mnist,
    "resnet50": resnet50,
    "convnet": convnet,
    "transformer": transformer,
    "query": query_transformer,
    "resnet20": resnet20,
    "femnist": femnist,
    "keywords": keywords,
    "bert_tiny": bert_tiny,
    "bert_mini": bert_mini,
}


class _Weights:
    """Random weights, scaled so that values neither grow nor vanish on their way."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(SEED)

    def __call__(self, *shape: int, fan_in: float) -> ov.Node:
        values = self._random.standard_normal(shape, np.float32) * np.sqrt(1 / fan_in)
        return ops.constant(values.astype(np.float32))


def _dense(node: ov.Node, weights: _Weights, incoming: int, units: int) -> ov.Node:
    product = ops.matmul(node, weights(incoming, units, fan_in=incoming), False, False)
    return ops.add(product, ops.constant(np.zeros((1, units), np.float32)))


def _bottleneck(
    node: ov.Output, weights: _Weights, channels: int, stride: int, widen: bool
) -> ov.Output:
    inner = ops.relu(_convolution(node, weights, channels, kernel=1)).output(0)
    inner = ops.relu(_convolution(inner, weights, channels, kernel=3, stride=stride)).output(0)
    outer = _convolution(inner, weights, 4 * channels, kernel=1)
    shortcut = _convolution(node, weights, 4 * channels, 1, stride) if widen else node
    return ops.relu(ops.add(outer, shortcut)).output(0)


def _basic(node: ov.Output, weights: _Weights, channels: int, stride: int) -> ov.Output:
    inner = ops.relu(_convolution(node, weights, channels, 3, stride)).output(0)
    outer = _convolution(inner, weights, channels, kernel=3)
    shortcut = _convolution(node, weights, channels, 1, stride) if stride > 1 else node
    return ops.relu(ops.add(outer, shortcut)).output(0)


def _convolution(
    node: ov.Output, weights: _Weights, channels: int, kernel: int, stride: int = 1
) -> ov.Output:
    incoming = node.get_partial_shape()[1].get_length()
    around = [kernel // 2] * 2
    filters = weights(channels, incoming, kernel, kernel, fan_in=incoming * kernel * kernel)
    bias = ops.constant(np.zeros((1, channels, 1, 1), np.float32))
    product = ops.convolution(node, filters, [stride, stride], around, around, [1, 1])
    return ops.add(product, bias).output(0)


def _attention(node: ov.Output, weights: _Weights, width: int, heads: int) -> ov.Node:
    queries, keys, values = (_heads(node, weights, width, heads) for _ in range(3))
    scores = ops.multiply(
        ops.matmul(queries, keys, False, True),
        ops.constant(np.float32((width // heads) ** -0.5)),
    )
    mixed = ops.matmul(ops.softmax(scores, axis=3), values, False, False)
    rows = ops.transpose(mixed, ops.constant([0, 2, 1, 3], np.int32))
    joined = ops.reshape(rows, ops.constant([0, 0, width], np.int32), True)
    return ops.matmul(joined, weights(width, width, fan_in=width), False, False)


def _heads(node: ov.Output, weights: _Weights, width: int, heads: int) -> ov.Node:
    """Project, and give each head its part: batch, head, token, width of a head."""
    wide = ops.matmul(node, weights(width, width, fan_in=width), False, False)
    apart = ops.reshape(wide, ops.constant([0, 0, heads, -1], np.int32), True)
    return ops.transpose(apart, ops.constant([0, 2, 1, 3], np.int32))


def _normal(node: ov.Node) -> ov.Output:
    axis = ops.constant([2], np.int32)
    return ops.mvn(node, axis, True, 1e-5, "inside_sqrt").output(0)


def _best(scores: ov.Node) -> ov.Node:
    """Give the place of the largest score: as a number of few digits, it prints the same always."""
    best = ops.topk(scores, ops.constant(1, np.int32), 1, "max", "value", "i32")
    return ops.squeeze(best.output(1), ops.constant([1], np.int32))


def _input(*shape: int) -> ov.Node:
    x = ops.parameter(list(shape), np.float32, name="x")
    x.output(0).get_tensor().set_names({"x"})
    return x


def _model(y: ov.Node, x: ov.Node) -> ov.Model:
    y.output(0).get_tensor().set_names({"y"})
    return ov.Model([ops.result(y, name="y")], [x], "benchmark")
