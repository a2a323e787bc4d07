"""The TensorFlow Serving API, gRPC and REST, on OpenVINO."""

__version__ = "0.1.0"
