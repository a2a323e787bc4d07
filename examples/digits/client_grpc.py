"""Ask the sample model over gRPC, with the message classes that come with the server.

    python examples/digits/client_grpc.py [--host localhost] [--port 9000] [--images 10]

A client that has `tensorflow-serving-api` takes `PredictRequest` and `PredictResponse` from its
`tensorflow_serving.apis.predict_pb2`; all else stays as it is.
"""

import argparse
import json
from pathlib import Path

import grpc
import numpy as np

from ie_serving.wire.protobuf.messages import PredictRequest, PredictResponse

HELD_OUT = Path(__file__).parent / "held_out.json"
PREDICT = "/tensorflow.serving.PredictionService/Predict"
FLOAT, INT32 = 1, 3  # tensorflow.DataType


def predict(address: str, images: list[list[int]]) -> list[int]:
    """Send all images in one request and return the digits."""
    pixels = np.array(images, "<f4")
    request = PredictRequest()
    request.model_spec.name = "digits"
    tensor = request.inputs["image"]
    tensor.dtype = FLOAT
    for size in pixels.shape:
        tensor.tensor_shape.dim.add(size=size)
    tensor.tensor_content = pixels.tobytes()
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(
            PREDICT, PredictRequest.SerializeToString, PredictResponse.FromString
        )
        output = call(request, timeout=10).outputs["digit"]
    assert output.dtype == INT32
    digits: list[int] = np.frombuffer(output.tensor_content, "<i4").tolist()
    return digits


def main() -> None:
    """Print the predicted digit beside the true one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--images", type=int, default=10)
    given = parser.parse_args()
    held_out = json.loads(HELD_OUT.read_text())
    predicted = predict(f"{given.host}:{given.port}", held_out["image"][: given.images])
    for guess, truth in zip(predicted, held_out["digit"], strict=False):
        print(f"predicted {guess}, true {truth}{'' if guess == truth else '  <- wrong'}")


if __name__ == "__main__":
    main()
