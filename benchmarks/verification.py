"""`make bench-verify`: how much longer a model of ResNet-50's shape loads for being compared.

A file of ONNX with random weights is loaded with `verify` off and auto, in turns, by the engines of
the server in this process; printed are the medians and their ratio.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper, save_model

from benchmarks.models import RESNET50, SEED
from ie_serving.app.engine_stack import VERIFIER, drivers
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.tensorflow.fallback import TensorFlowFallback


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-verify", description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as scratch:
        _Resnet().write(Path(scratch) / "model.onnx")
        _loaded(Path(scratch), "off")  # what is imported with the first load counts for none
        took = [
            [_loaded(Path(scratch), verify) for verify in ("off", "auto")] for _ in range(rounds)
        ]
    VERIFIER.close()
    off, auto = (median(each) for each in zip(*took, strict=True))
    print(f"verify off {off:.2f} s, auto {auto:.2f} s, ratio {auto / off:.2f}")


def _loaded(directory: Path, verify: str) -> float:
    engine = drivers(TensorFlowFallback()).named("auto")
    began = time.perf_counter()
    engine.compile(directory, EngineOptions(verify=verify)).close()
    return time.perf_counter() - began


class _Resnet:
    """Every convolution of ResNet-50, batch norms folded into them, for one image."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(SEED)
        self._nodes: list[NodeProto] = []
        self._weights: list[TensorProto] = []

    def write(self, file: Path) -> None:
        """Write it."""
        node = self._add("Relu", self._convolution("x", 3, 64, kernel=7, stride=2))
        node = self._add("MaxPool", node, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        channels = 64
        for stage, (blocks, inner) in enumerate(RESNET50):
            for block in range(blocks):
                stride = 2 if stage and not block else 1
                inside = self._add("Relu", self._convolution(node, channels, inner))
                inside = self._convolution(inside, inner, inner, kernel=3, stride=stride)
                inside = self._convolution(self._add("Relu", inside), inner, 4 * inner)
                if not block:
                    node = self._convolution(node, channels, 4 * inner, stride=stride)
                    channels = 4 * inner
                node = self._add("Relu", self._add("Add", node, inside))
        node = self._add("Flatten", self._add("GlobalAveragePool", node))
        scores = self._add("Gemm", node, self._weight((2048, 1000), 2048))
        self._nodes.append(helper.make_node("Softmax", [scores], ["y"]))
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 224, 224])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1000])
        graph = helper.make_graph(self._nodes, "resnet50", [x], [y], self._weights)
        opsets = [helper.make_opsetid("", 17)]
        save_model(helper.make_model(graph, opset_imports=opsets, ir_version=9), file)

    def _convolution(
        self, node: str, channels: int, outputs: int, *, kernel: int = 1, stride: int = 1
    ) -> str:
        shape = (outputs, channels, kernel, kernel)
        weight = self._weight(shape, channels * kernel * kernel)
        return self._add("Conv", node, weight, strides=[stride] * 2, pads=[kernel // 2] * 4)

    def _weight(self, shape: tuple[int, ...], fan_in: int) -> str:
        values = self._random.standard_normal(shape) * np.sqrt(2 / fan_in)
        name = f"weight{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def _add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"node{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name


if __name__ == "__main__":
    main()
