"""The limit that no server on OpenVINO can pass: the engine in a plain loop, without any wire."""

import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import openvino as ov

from benchmarks.load import Sample
from benchmarks.wire import Array


class Loop:
    """One compiled model and one infer request, inputs bound once.

    Args of the constructor:
        model: its file.
        inputs: by name.
        properties: of OpenVINO; its defaults otherwise.
    """

    def __init__(
        self,
        model: Path,
        inputs: Mapping[str, Array],
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        compiled = ov.Core().compile_model(model, "CPU", dict(properties))
        self._request = compiled.create_infer_request()
        self._inputs = [(self._bind(name, values), values) for name, values in inputs.items()]

    def _bind(self, name: str, values: Array) -> Array:
        tensor = ov.Tensor(ov.Type(values.dtype), ov.Shape(values.shape))
        self._request.set_tensor(name, tensor)
        return tensor.data

    def outputs(self) -> dict[str, Array]:
        """Infer once and return copies of all outputs by name."""
        self._once()
        outputs = self._request.model_outputs
        return {o.any_name: np.array(self._request.get_tensor(o).data) for o in outputs}

    def load(self, seconds: float) -> Sample:
        """Copy the inputs in and infer, one after the other, for `seconds`."""
        latencies: list[float] = []
        started = now = time.perf_counter()
        while now < started + seconds:
            self._once()
            before, now = now, time.perf_counter()
            latencies.append(now - before)
        return Sample.of(now - started, latencies)

    def shortest_s(self, seconds: float) -> float:
        """Infer for `seconds`, and give how many the shortest inference took."""
        shortest, now = float("inf"), time.perf_counter()
        until = now + seconds
        while now < until:
            self._once()
            before, now = now, time.perf_counter()
            shortest = min(shortest, now - before)
        return shortest

    def _once(self) -> None:
        for tensor, values in self._inputs:
            tensor[...] = values
        self._request.infer()


ONE_BY_ONE = ("-api", "sync", "-hint", "latency")
AS_IT_LIKES = ("-api", "async", "-hint", "throughput")


def benchmark_app(
    model: Path, shape: tuple[int, ...], seconds: float, options: Sequence[str]
) -> float:
    """Run OpenVINO's own benchmark tool and return its inferences per second.

    `shape` is that of the model's only input; `options` say how many requests it sends at once.
    """
    dimensions = ",".join(map(str, shape))
    output = subprocess.run(
        [
            *(Path(sys.executable).with_name("benchmark_app"), "-m", model, "-d", "CPU"),
            *(*options, "-t", str(max(1, round(seconds))), "-data_shape", f"[{dimensions}]"),
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = re.search(r"Count:\s+(\d+) iterations.*?Duration:\s+([\d.]+) ms", output, re.DOTALL)
    if not found:
        raise ValueError(f"benchmark_app said nothing of its duration:\n{output}")
    return int(found[1]) / float(found[2]) * 1000
