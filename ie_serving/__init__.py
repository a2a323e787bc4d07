"""The TensorFlow Serving API, gRPC and REST, on OpenVINO."""

__version__ = "1.0.0"
