"""Message classes of the Open Inference Protocol, from the same pool as all others.

Apart from `messages.py`: nothing of the protocol is imported before a client asks by it.
"""

from google.protobuf.message_factory import GetMessageClass

from ie_serving.wire.protobuf.messages import POOL, Proto


def _message(name: str) -> Proto:
    return GetMessageClass(POOL.FindMessageTypeByName(f"inference.{name}"))


ModelInferRequest = _message("ModelInferRequest")
InferInputTensor = _message("ModelInferRequest.InferInputTensor")
ModelInferResponse = _message("ModelInferResponse")
ModelStreamInferResponse = _message("ModelStreamInferResponse")
ServerLiveResponse = _message("ServerLiveResponse")
ServerReadyResponse = _message("ServerReadyResponse")
ModelReadyRequest = _message("ModelReadyRequest")
ModelReadyResponse = _message("ModelReadyResponse")
ServerMetadataResponse = _message("ServerMetadataResponse")
ModelMetadataRequest = _message("ModelMetadataRequest")
ModelMetadataResponse = _message("ModelMetadataResponse")
ModelStatisticsRequest = _message("ModelStatisticsRequest")
ModelStatisticsResponse = _message("ModelStatisticsResponse")
RepositoryIndexRequest = _message("RepositoryIndexRequest")
RepositoryIndexResponse = _message("RepositoryIndexResponse")
ModelConfig = _message("ModelConfig")
DATA_TYPES = POOL.FindEnumTypeByName("inference.DataType")
ModelConfigRequest = _message("ModelConfigRequest")
ModelConfigResponse = _message("ModelConfigResponse")
TraceSettingRequest = _message("TraceSettingRequest")
TraceSettingResponse = _message("TraceSettingResponse")
LogSettingsRequest = _message("LogSettingsRequest")
LogSettingsResponse = _message("LogSettingsResponse")
RepositoryModelLoadRequest = _message("RepositoryModelLoadRequest")
RepositoryModelLoadResponse = _message("RepositoryModelLoadResponse")
RepositoryModelUnloadRequest = _message("RepositoryModelUnloadRequest")
RepositoryModelUnloadResponse = _message("RepositoryModelUnloadResponse")
SystemSharedMemoryStatusRequest = _message("SystemSharedMemoryStatusRequest")
SystemSharedMemoryStatusResponse = _message("SystemSharedMemoryStatusResponse")
SystemSharedMemoryRegisterRequest = _message("SystemSharedMemoryRegisterRequest")
