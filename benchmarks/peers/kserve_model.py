"""KServe's model server with a custom model on OpenVINO.

Run with the ports as `--http_port` and `--grpc_port`.
"""

import os
from typing import Any

import openvino as ov
from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer

NAME_OF = {"f32": "FP32", "i32": "INT32", "i64": "INT64"}


class OpenVinoModel(Model):
    """One infer request, used inline on the server's event loop."""

    def load(self) -> bool:
        """Compile once."""
        compiled = ov.Core().compile_model(os.environ["BENCH_MODEL_FILE"], "CPU")
        self.request = compiled.create_infer_request()
        self.outputs = {port.any_name: port for port in compiled.outputs}
        self.ready = True
        return True

    async def predict(
        self, payload: InferRequest, headers: Any = None, response_headers: Any = None
    ) -> InferResponse:
        """Answer raw contents with raw contents, JSON with JSON."""
        self.request.infer({tensor.name: tensor.as_numpy() for tensor in payload.inputs})
        outputs = [self._output(name, binary=payload.from_grpc) for name in self.outputs]
        return InferResponse(payload.id or "", self.name, outputs)

    def _output(self, name: str, *, binary: bool) -> InferOutput:
        port = self.outputs[name]
        values = self.request.get_tensor(port).data
        datatype = NAME_OF[port.get_element_type().get_type_name()]
        output = InferOutput(name, list(values.shape), datatype)
        output.set_data_from_numpy(values, binary_data=binary)
        return output


if __name__ == "__main__":
    model = OpenVinoModel(os.environ["BENCH_MODEL"])
    model.load()
    ModelServer().start([model])
