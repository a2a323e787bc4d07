"""Send a picture over gRPC as clients of TensorFlow Serving's ResNet tutorial do.

    python client_grpc.py three.jpg [--server localhost:9000]

Needs `pip install tensorflow-serving-api`, which brings TensorFlow.
"""

import argparse
from pathlib import Path

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


def predict(server: str, picture: bytes) -> tuple[int, float]:
    """Ask the model `resnet` for one picture, and give its class and the probability of that."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "resnet"
    request.model_spec.signature_name = "serving_default"
    request.inputs["image_bytes"].CopyFrom(tf.make_tensor_proto(picture, shape=[1]))
    with grpc.insecure_channel(server) as channel:
        service = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        outputs = service.Predict(request, timeout=10).outputs
    probabilities = tf.make_ndarray(outputs["probabilities"])
    return int(tf.make_ndarray(outputs["classes"])[0]), float(probabilities.max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("picture", type=Path)
    parser.add_argument("--server", default="localhost:9000")
    given = parser.parse_args()
    found, probability = predict(given.server, given.picture.read_bytes())
    print(f"class {found}, probability {probability:.2f}")


if __name__ == "__main__":
    main()
