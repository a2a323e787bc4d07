"""Message classes of the TensorFlow Serving API, from a descriptor pool of our own.

The pool is private, so a process that also imports tensorflow, which registers the same names in
protobuf's default pool, does not clash. The classes are built at run time, and mypy sees `Any`.
Source of names and numbers: `protos/*.proto`, compiled by `setup.py`.
"""

from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

Proto: TypeAlias = Any
"""A message of `POOL`: which one, and so its fields, is known by its class alone."""

DESCRIPTORS = Path(__file__).with_name("protos") / "descriptors.binpb"


def _load(path: Path) -> DescriptorPool:
    """Fill a pool from a serialized FileDescriptorSet whose files stand after their imports."""
    if not path.exists():
        raise ImportError(
            f"{path} is missing: the .proto files were not compiled;"
            " install the package, or run `python setup.py build_protos`"
        )
    # `.proto` texts are not parsed at run time: that would need the compiler of grpcio-tools.
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(path.read_bytes()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


POOL = _load(DESCRIPTORS)
"""Descriptors of every message and service here; reflection reads them."""


def _message(name: str) -> Proto:
    return GetMessageClass(POOL.FindMessageTypeByName(name))


def _serving(name: str) -> Proto:
    return _message(f"tensorflow.serving.{name}")


TensorShapeProto = _message("tensorflow.TensorShapeProto")
TensorProto = _message("tensorflow.TensorProto")
TensorInfo = _message("tensorflow.TensorInfo")
SignatureDef = _message("tensorflow.SignatureDef")
Feature = _message("tensorflow.Feature")
Example = _message("tensorflow.Example")

ModelSpec = _serving("ModelSpec")
PredictRequest = _serving("PredictRequest")
PredictResponse = _serving("PredictResponse")
Input = _serving("Input")
ClassificationRequest = _serving("ClassificationRequest")
ClassificationResponse = _serving("ClassificationResponse")
ClassificationResult = _serving("ClassificationResult")
RegressionRequest = _serving("RegressionRequest")
RegressionResponse = _serving("RegressionResponse")
RegressionResult = _serving("RegressionResult")
InferenceResult = _serving("InferenceResult")
MultiInferenceRequest = _serving("MultiInferenceRequest")
MultiInferenceResponse = _serving("MultiInferenceResponse")
SignatureDefMap = _serving("SignatureDefMap")
GetModelMetadataRequest = _serving("GetModelMetadataRequest")
GetModelMetadataResponse = _serving("GetModelMetadataResponse")

GetModelStatusRequest = _serving("GetModelStatusRequest")
GetModelStatusResponse = _serving("GetModelStatusResponse")
ReloadConfigRequest = _serving("ReloadConfigRequest")
ReloadConfigResponse = _serving("ReloadConfigResponse")

ModelServerConfig = _serving("ModelServerConfig")
MonitoringConfig = _serving("MonitoringConfig")
SSLConfig = _serving("SSLConfig")
BatchingParameters = _serving("BatchingParameters")

PredictionLog = _serving("PredictionLog")

ProfileRequest = _message("tensorflow.ProfileRequest")
ProfileResponse = _message("tensorflow.ProfileResponse")
TerminateRequest = _message("tensorflow.TerminateRequest")
TerminateResponse = _message("tensorflow.TerminateResponse")
MonitorRequest = _message("tensorflow.MonitorRequest")
MonitorResponse = _message("tensorflow.MonitorResponse")
XSpace = _message("tensorflow.profiler.XSpace")
