"""Model for Triton's Python backend: one infer request of the same OpenVINO model."""

import os
from typing import Any

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

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request on its own; Triton hands over several when they wait."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        tensors = {name: triton.get_input_tensor_by_name(request, name) for name in self.inputs}
        self.request.infer({name: tensor.as_numpy() for name, tensor in tensors.items()})
        return triton.InferenceResponse(
            [
                triton.Tensor(name, self.request.get_tensor(port).data.copy())
                for name, port in self.outputs.items()
            ]
        )
