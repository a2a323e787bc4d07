"""Model for Triton's Python backend: one infer request of the same OpenVINO model."""

import json
import os
from typing import Any

import numpy as np
import openvino as ov
import triton_python_backend_utils as triton


class TritonPythonModel:
    """What Triton calls; the class's name is fixed."""

    def initialize(self, args: dict[str, Any]) -> None:
        """Compile once."""
        compiled = ov.Core().compile_model(os.environ["BENCH_MODEL_FILE"], "CPU")
        self.request = compiled.create_infer_request()
        self.inputs = [port.any_name for port in compiled.inputs]
        self.outputs = {port.any_name: port for port in compiled.outputs}
        self.gathers = json.loads(args["model_config"])["max_batch_size"] > 0

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer what Triton hands over: a batch where it gathers, else each on its own."""
        if self.gathers:
            return self._answer(requests)
        return [answer for request in requests for answer in self._answer([request])]

    def _answer(self, requests: list[Any]) -> list[Any]:
        """Infer the rows of all requests at once, and give each its own."""
        given = {
            name: [triton.get_input_tensor_by_name(each, name).as_numpy() for each in requests]
            for name in self.inputs
        }
        self.request.infer({name: _joined(arrays) for name, arrays in given.items()})
        ends = np.cumsum([len(array) for array in given[self.inputs[0]]])[:-1]
        columns = [
            [triton.Tensor(name, rows) for rows in np.split(self._copy(port), ends)]
            for name, port in self.outputs.items()
        ]
        return [triton.InferenceResponse(list(tensors)) for tensors in zip(*columns, strict=True)]

    def _copy(self, port: Any) -> Any:
        return self.request.get_tensor(port).data.copy()


def _joined(arrays: list[Any]) -> Any:
    return np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
