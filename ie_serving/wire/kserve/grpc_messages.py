"""Messages of the Open Inference Protocol over gRPC, except those of an inference."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ie_serving.wire.kserve.model_metadata import ModelIndex, ModelMetadata
from ie_serving.wire.protobuf import inference_messages as messages
from ie_serving.wire.protobuf.fields import Encoded, delimited, head
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.request_messages import parse

_ERROR: Final = 1
_RESPONSE: Final = 2
"""Field numbers of ModelStreamInferResponse."""


def server_live() -> bytes:
    """Say that the server lives."""
    return bytes(messages.ServerLiveResponse(live=True).SerializeToString())


def server_ready(ready: bool) -> bytes:
    """Say whether the server takes requests."""
    return bytes(messages.ServerReadyResponse(ready=ready).SerializeToString())


def server_metadata(name: str, version: str, extensions: Sequence[str]) -> bytes:
    """Describe the server."""
    reply = messages.ServerMetadataResponse(name=name, version=version, extensions=extensions)
    return bytes(reply.SerializeToString())


def read_model(kind: Proto, payload: Encoded) -> tuple[str, str]:
    """Read model and version of a message of class `kind`. Raises: InvalidRequest."""
    request = parse(kind, payload)
    return request.name, request.version


def model_ready(ready: bool) -> bytes:
    """Say whether a model answers."""
    return bytes(messages.ModelReadyResponse(ready=ready).SerializeToString())


def model_metadata(told: ModelMetadata) -> bytes:
    """Describe a model."""
    reply = messages.ModelMetadataResponse(
        name=told.name, versions=told.versions, platform=told.platform
    )
    for name, value in told.parameters.items():
        reply.parameters[name].string_param = value
    for field, tensors in ((reply.inputs, told.inputs), (reply.outputs, told.outputs)):
        for tensor in tensors:
            made = field.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
            for name, value in tensor.parameters.items():
                made.parameters[name].string_param = value
    return bytes(reply.SerializeToString())


def model_statistics(found: Sequence[Mapping[str, Any]]) -> bytes:
    """Write the statistics of versions, each by the names of the fields of ModelStatistics."""
    return bytes(messages.ModelStatisticsResponse(model_stats=found).SerializeToString())


def read_repository_index(payload: Encoded) -> bool:
    """Read whether versions alone are wanted that answer. Raises: InvalidRequest."""
    return bool(parse(messages.RepositoryIndexRequest, payload).ready)


def repository_index(found: Iterable[ModelIndex]) -> bytes:
    """List versions with their states."""
    reply = messages.RepositoryIndexResponse()
    for each in found:
        reply.models.add(**each._asdict())
    return bytes(reply.SerializeToString())


def read_repository_load(payload: Encoded) -> tuple[str, Mapping[str, object]]:
    """Read model and parameters of a RepositoryModelLoadRequest. Raises: InvalidRequest."""
    return _model_and_parameters(parse(messages.RepositoryModelLoadRequest, payload))


def read_repository_unload(payload: Encoded) -> tuple[str, Mapping[str, object]]:
    """Read model and parameters of a RepositoryModelUnloadRequest. Raises: InvalidRequest."""
    return _model_and_parameters(parse(messages.RepositoryModelUnloadRequest, payload))


def _model_and_parameters(request: Proto) -> tuple[str, Mapping[str, object]]:
    return request.model_name, _chosen(request.parameters)


def _chosen(values: Mapping[str, Proto]) -> dict[str, object]:
    """Give each value that was chosen; None where none was."""
    kinds = {name: each.WhichOneof("parameter_choice") for name, each in values.items()}
    return {name: getattr(values[name], kind) if kind else None for name, kind in kinds.items()}


def model_config(config: Mapping[str, Any]) -> bytes:
    """Write a ModelConfig, whose fields are given by name."""
    return bytes(messages.ModelConfigResponse(config=config).SerializeToString())


def read_trace_setting(payload: Encoded) -> tuple[str, dict[str, object]]:
    """Read the model and the settings of a TraceSettingRequest, each setting a list.

    Raises:
        InvalidRequest: no such message.
    """
    request = parse(messages.TraceSettingRequest, payload)
    return request.model_name, {name: list(each.value) for name, each in request.settings.items()}


def trace_setting(settings: Mapping[str, Any]) -> bytes:
    """Write the settings of traces, texts or lists of them."""
    reply = messages.TraceSettingResponse()
    for name, value in settings.items():
        reply.settings[name].value.extend([value] if isinstance(value, str) else value)
    return bytes(reply.SerializeToString())


def read_log_settings(payload: Encoded) -> dict[str, object]:
    """Read the settings of a LogSettingsRequest. Raises: InvalidRequest."""
    return _chosen(parse(messages.LogSettingsRequest, payload).settings)


def log_settings(settings: Mapping[str, Any]) -> bytes:
    """Write the settings of the log: flags, numbers and texts."""
    reply = messages.LogSettingsResponse()
    for name, value in settings.items():
        setattr(reply.settings[name], _PARAMETERS[type(value)], value)
    return bytes(reply.SerializeToString())


_PARAMETERS: Final = {bool: "bool_param", int: "uint32_param", str: "string_param"}


def read_shared_memory_register(payload: Encoded) -> tuple[str, str, int, int]:
    """Read name, key, offset and size of a SystemSharedMemoryRegisterRequest.

    Raises:
        InvalidRequest: malformed.
    """
    request = parse(messages.SystemSharedMemoryRegisterRequest, payload)
    return request.name, request.key, request.offset, request.byte_size


def read_shared_memory_name(payload: Encoded) -> str:
    """Read the name that a request for a region's status, or its end, has. Raises: InvalidRequest.

    Both messages have the same field.
    """
    return str(parse(messages.SystemSharedMemoryStatusRequest, payload).name)


def shared_memory_status(found: Iterable[Mapping[str, Any]]) -> bytes:
    """Describe regions, each by the names of the fields of RegionStatus."""
    reply = messages.SystemSharedMemoryStatusResponse()
    for each in found:
        reply.regions[each["name"]].MergeFrom(
            messages.SystemSharedMemoryStatusResponse.RegionStatus(**each)
        )
    return bytes(reply.SerializeToString())


def nothing() -> bytes:
    """Say that a model or a region was changed: the replies have no fields."""
    return b""


def stream_reply(response: bytes) -> bytes:
    """Give a reply of a stream: a ModelInferResponse that is encoded already."""
    return b"".join((head(_RESPONSE, len(response)), response))


def stream_error(text: str, id: bytes) -> bytes:
    """Report the error of a request in a stream, with the field of the request's id, if any."""
    error = delimited(_ERROR, text.encode())
    return error + delimited(_RESPONSE, id) if id else error
