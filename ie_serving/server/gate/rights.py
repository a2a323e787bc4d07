"""The right that each request needs, for every RPC and REST verb; all others are refused.

A test compares both tables with the registered methods and routes.
"""

from collections.abc import Mapping
from typing import Final

from ie_serving.core.values.access import ConcernedModels, Need, Right

_PREDICT: Final = Need(Right.PREDICT, ConcernedModels.NAMED)
_READ: Final = Need(Right.READ, ConcernedModels.NAMED)
_READ_ALL: Final = Need(Right.READ, ConcernedModels.ALL)
_CHANGE: Final = Need(Right.ADMINISTRATE, ConcernedModels.NAMED)
_CHANGE_ALL: Final = Need(Right.ADMINISTRATE, ConcernedModels.ALL)
_HEALTH: Final = Need(Right.READ, ConcernedModels.NONE)
_OPEN: Final = Need(None, ConcernedModels.NONE)

RPC: Mapping[str, Need] = {
    "/tensorflow.serving.PredictionService/Predict": _PREDICT,
    "/tensorflow.serving.PredictionService/Classify": _PREDICT,
    "/tensorflow.serving.PredictionService/Regress": _PREDICT,
    "/tensorflow.serving.PredictionService/MultiInference": _PREDICT,
    "/ie_serving.StreamService/PredictStream": _PREDICT,
    "/tensorflow.serving.PredictionService/GetModelMetadata": _READ,
    "/tensorflow.serving.ModelService/GetModelStatus": _READ,
    # It replaces the whole list, so it also affects the models that it leaves out.
    "/tensorflow.serving.ModelService/HandleReloadConfigRequest": _CHANGE_ALL,
    "/inference.GRPCInferenceService/ModelInfer": _PREDICT,
    "/inference.GRPCInferenceService/ModelStreamInfer": _PREDICT,
    "/inference.GRPCInferenceService/ModelMetadata": _READ,
    # A request without a name gets all models that the caller may read.
    "/inference.GRPCInferenceService/ModelStatistics": _READ,
    "/inference.GRPCInferenceService/ModelConfig": _READ,
    # They change the server where they have settings.
    "/inference.GRPCInferenceService/TraceSetting": _CHANGE_ALL,
    "/inference.GRPCInferenceService/LogSettings": _CHANGE_ALL,
    "/inference.GRPCInferenceService/RepositoryIndex": _READ_ALL,
    "/inference.GRPCInferenceService/RepositoryModelLoad": _CHANGE,
    "/inference.GRPCInferenceService/RepositoryModelUnload": _CHANGE,
    # The server reads and writes what is registered.
    "/inference.GRPCInferenceService/SystemSharedMemoryStatus": _READ_ALL,
    "/inference.GRPCInferenceService/SystemSharedMemoryRegister": _CHANGE_ALL,
    "/inference.GRPCInferenceService/SystemSharedMemoryUnregister": _CHANGE_ALL,
    "/inference.GRPCInferenceService/CudaSharedMemoryStatus": _READ_ALL,
    "/inference.GRPCInferenceService/CudaSharedMemoryUnregister": _CHANGE_ALL,
    "/inference.GRPCInferenceService/ServerMetadata": Need(Right(0), ConcernedModels.NONE),
    "/inference.GRPCInferenceService/ServerLive": _HEALTH,
    "/inference.GRPCInferenceService/ServerReady": _HEALTH,
    "/inference.GRPCInferenceService/ModelReady": _HEALTH,
    # A trace has the names of models, as the metrics have.
    "/tensorflow.ProfilerService/Profile": _READ_ALL,
    "/tensorflow.ProfilerService/Terminate": _READ_ALL,
    "/tensorflow.ProfilerService/Monitor": _READ_ALL,
    "/grpc.health.v1.Health/Check": _HEALTH,
    "/grpc.health.v1.Health/Watch": _HEALTH,
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": Need(
        Right.READ, ConcernedModels.NONE
    ),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": Need(
        Right.READ, ConcernedModels.NONE
    ),
}
"""Needs by the path of the method."""

REST: Mapping[str, Need] = {
    "predict": _PREDICT,
    "classify": _PREDICT,
    "regress": _PREDICT,
    "invoke": _PREDICT,
    "stream": _PREDICT,
    "poll": _CHANGE,
    "labels": _CHANGE,
    "status": _READ,
    "metadata": _READ,
    "details": _READ,
    "gen_json": _READ,
    "gen_client": _READ,
    "models": _READ_ALL,
    "config": _READ_ALL,
    "all_details": _READ_ALL,
    "reload": _CHANGE_ALL,
    "log_level": _READ_ALL,
    "set_log_level": _CHANGE_ALL,
    # Routes of simple_tensorflow_serving, whose body names the model.
    "ask": Need(Right.PREDICT, ConcernedModels.ALL),
    "alive": _OPEN,
    # Name and version of the server, and its extensions of the Open Inference Protocol.
    "server": Need(Right(0), ConcernedModels.NONE),
    # The labels of the metrics name every model.
    "metrics": _READ_ALL,
    "health": _HEALTH,
    # The page at /: a browser asks for its files before it can send a key. The files say nothing
    # about this server.
    "page_file": _OPEN,
    "page_state": _READ_ALL,
    "page_configuration": _READ_ALL,
    "page_model": _READ,
    # Its front end leaves out the models that the caller may not ask for.
    "openapi": Need(Right.READ, ConcernedModels.NONE),
    # Turns text that the caller has sent into other text.
    "page_programs": Need(Right(0), ConcernedModels.NONE),
    # A browser asks it before it sends any credentials, and the reply is the same for all pages.
    "preflight": _OPEN,
    # Unknown paths below /v1/, refused in TensorFlow Serving's words. No right is needed, but a
    # known caller: unknown clients do not learn which paths exist.
    "nothing": Need(Right(0), ConcernedModels.NONE),
}
"""Needs by the verb of the request (`fronts/tfs/rest_routes.py`)."""


def needs(table: Mapping[str, Need], *, open_health: bool) -> Mapping[str, Need]:
    """Return a table in which health is open to all, or only to callers who may read."""
    if not open_health:
        return table
    # The need is compared by identity: reflection needs an equal right, and stays closed.
    return {name: _OPEN if need is _HEALTH else need for name, need in table.items()}
