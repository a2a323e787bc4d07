"""MLServer with a custom runtime on OpenVINO."""

import os

import openvino as ov
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class OpenVinoModel(MLModel):
    """One infer request, used inline on the server's event loop."""

    async def load(self) -> bool:
        """Compile once."""
        compiled = ov.Core().compile_model(os.environ["BENCH_MODEL_FILE"], "CPU")
        self.infer_request = compiled.create_infer_request()
        self.ports = {port.any_name: port for port in compiled.outputs}
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Answer with every output."""
        self.infer_request.infer({t.name: NumpyCodec.decode_input(t) for t in payload.inputs})
        outputs = [
            NumpyCodec.encode_output(name, self.infer_request.get_tensor(port).data)
            for name, port in self.ports.items()
        ]
        return InferenceResponse(model_name=self.name, outputs=outputs)
