"""`tensorflow.serving.ModelService`: status, and reloading the configuration. Bytes to bytes."""

from collections.abc import Awaitable, Callable, Sequence

from ie_serving.errors import InvalidRequest
from ie_serving.models.manager import ModelManager
from ie_serving.server.calls import Answer, CallContext
from ie_serving.server.status import Code
from ie_serving.server.wire import messages, metadata
from ie_serving.server.wire.fields import Buffer
from ie_serving.server.wire.messages import Proto
from ie_serving.server.wire.requests import parse
from ie_serving.settings import ModelConfig

NAME = "tensorflow.serving.ModelService"

Read = Callable[[Proto], Sequence[ModelConfig]]
"""Reads and checks a ModelServerConfig. Raises ConfigError."""

Apply = Callable[[Sequence[ModelConfig]], Awaitable[None]]
"""Applies a configuration as a whole or not at all. Raises ServingError."""


class ModelService:
    """Answers the methods of ModelService."""

    def __init__(self, models: ModelManager, read: Read, apply: Apply) -> None:
        self._models = models
        self._read = read
        self._apply = apply

    def answers(self) -> dict[str, Answer]:
        """The methods by name."""
        return {
            "GetModelStatus": self.get_model_status,
            "HandleReloadConfigRequest": self.handle_reload_config_request,
        }

    async def get_model_status(self, payload: Buffer, context: CallContext) -> bytes:
        """Give the states of one version or of all, highest first."""
        request = parse(messages.GetModelStatusRequest, payload)
        if not request.HasField("model_spec"):
            raise InvalidRequest("Missing ModelSpec: set model_spec.name to a served model")
        spec = request.model_spec
        choice = spec.WhichOneof("version_choice")
        version = spec.version.value if choice == "version" else None
        if choice == "version_label":
            version = self._models.resolve_label(spec.name, spec.version_label)
        return metadata.status_response(self._models.statuses(spec.name, version))

    async def handle_reload_config_request(self, payload: Buffer, context: CallContext) -> bytes:
        """Change to another configuration; answers when it serves."""
        request = parse(messages.ReloadConfigRequest, payload)
        if request.config.WhichOneof("config") != "model_config_list":
            raise InvalidRequest(
                "ServerModelConfig type not supported by HandleReloadConfigRequest."
                " Only ModelConfigList is currently supported"
            )
        await self._apply(self._read(request.config))
        response = messages.ReloadConfigResponse()
        response.status.error_code = Code.OK.number
        return bytes(response.SerializeToString())
