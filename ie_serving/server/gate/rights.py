"""What each request needs: every RPC and every kind of REST request. What is not here is refused.

A test compares both tables with what the server registers.
"""

from collections.abc import Mapping
from typing import Final

from ie_serving.core.values.access import Models, Need, Right

_PREDICT: Final = Need(Right.PREDICT, Models.NAMED)
_READ: Final = Need(Right.READ, Models.NAMED)
_READ_ALL: Final = Need(Right.READ, Models.ALL)
_CHANGE: Final = Need(Right.ADMINISTRATE, Models.NAMED)
_CHANGE_ALL: Final = Need(Right.ADMINISTRATE, Models.ALL)
_HEALTH: Final = Need(Right.READ, Models.NONE)
_OPEN: Final = Need(None, Models.NONE)

RPC: Mapping[str, Need] = {
    "/tensorflow.serving.PredictionService/Predict": _PREDICT,
    "/tensorflow.serving.PredictionService/Classify": _PREDICT,
    "/tensorflow.serving.PredictionService/Regress": _PREDICT,
    "/tensorflow.serving.PredictionService/MultiInference": _PREDICT,
    "/ie_serving.StreamService/PredictStream": _PREDICT,
    "/tensorflow.serving.PredictionService/GetModelMetadata": _READ,
    "/tensorflow.serving.ModelService/GetModelStatus": _READ,
    # It replaces the whole list, so it is about the models that it leaves out, too.
    "/tensorflow.serving.ModelService/HandleReloadConfigRequest": _CHANGE_ALL,
    "/inference.GRPCInferenceService/ModelInfer": _PREDICT,
    "/inference.GRPCInferenceService/ModelStreamInfer": _PREDICT,
    "/inference.GRPCInferenceService/ModelMetadata": _READ,
    # Without a name it tells of all models that the caller may read.
    "/inference.GRPCInferenceService/ModelStatistics": _READ,
    "/inference.GRPCInferenceService/RepositoryIndex": _READ_ALL,
    "/inference.GRPCInferenceService/ServerMetadata": Need(Right(0), Models.NONE),
    "/inference.GRPCInferenceService/ServerLive": _HEALTH,
    "/inference.GRPCInferenceService/ServerReady": _HEALTH,
    "/inference.GRPCInferenceService/ModelReady": _HEALTH,
    "/grpc.health.v1.Health/Check": _HEALTH,
    "/grpc.health.v1.Health/Watch": _HEALTH,
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": Need(Right.READ, Models.NONE),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": Need(Right.READ, Models.NONE),
}
"""By the path of the method."""

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
    # Routes of simple_tensorflow_serving. Which model is asked stands in the body.
    "ask": Need(Right.PREDICT, Models.ALL),
    "alive": _OPEN,
    # Name and version of the server, and what it has of the Open Inference Protocol.
    "server": Need(Right(0), Models.NONE),
    # Its labels name every model.
    "metrics": _READ_ALL,
    "health": _HEALTH,
    # The page at /: a browser asks for its files before it can send a key, and they say nothing of
    # this server.
    "page_file": _OPEN,
    "page_state": _READ_ALL,
    "page_configuration": _READ_ALL,
    "page_model": _READ,
    # Text in, text out, of whatever the caller has sent.
    "page_programs": Need(Right(0), Models.NONE),
    # A browser asks it before it sends any credentials, and is told the same of every page.
    "preflight": _OPEN,
    # Below /v1/, where what there is not is refused in TensorFlow Serving's words. It takes no
    # right, but a caller who is known: strangers do not learn which paths there are.
    "nothing": Need(Right(0), Models.NONE),
}
"""By the verb of the request (`rest_routes.py`)."""


def needs(table: Mapping[str, Need], *, open_health: bool) -> Mapping[str, Need]:
    """Give a table with health as it is wanted: open to all, or to who may read."""
    if not open_health:
        return table
    # By identity: reflection needs just the same, and stays closed.
    return {name: _OPEN if need is _HEALTH else need for name, need in table.items()}
