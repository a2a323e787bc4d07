"""The limit that no server on OpenVINO can pass: the engine in a plain loop, without any wire."""

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import openvino as ov

from benchmarks.load import Sample
from benchmarks.wire import Array


class Loop:
    """One compiled model and one infer request, default properties, inputs bound once."""

    def __init__(self, model: Path, inputs: Mapping[str, Array]) -> None:
        self._request = ov.Core().compile_model(model, "CPU").create_infer_request()
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

    def _once(self) -> None:
        for tensor, values in self._inputs:
            tensor[...] = values
        self._request.infer()
