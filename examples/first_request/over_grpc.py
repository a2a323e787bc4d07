import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

request = predict_pb2.PredictRequest()
request.model_spec.name = "half_plus_two"
request.inputs["x"].CopyFrom(tf.make_tensor_proto([1.0, 2.0, 5.0], dtype=tf.float32))

with grpc.insecure_channel("localhost:8500") as channel:
    service = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    reply = service.Predict(request, timeout=10)
print(tf.make_ndarray(reply.outputs["y"]).tolist())
