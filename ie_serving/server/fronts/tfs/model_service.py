"""`tensorflow.serving.ModelService`: model status, and configuration reload. Bytes to bytes."""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass

from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import Forbidden, InvalidRequest, advised
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.requests import ModelSpec
from ie_serving.inference.interface import Interface
from ie_serving.inference.plane import DataPlane
from ie_serving.models.configuration import ModelConfig
from ie_serving.server.transport.grpc.services import CallContext, Unary
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.fields import Encoded
from ie_serving.wire.protobuf.messages import Proto
from ie_serving.wire.tfs.request_messages import parse, read_model_spec
from ie_serving.wire.tfs.statuses import StatusEncoder

MOST_MODELS = 10_000
"""Most models of one reload, far above what one process can serve: each opens its base path."""

NAME = "tensorflow.serving.ModelService"

ReadConfigs = Callable[[Proto], Sequence[ModelConfig]]
"""Reads and checks a ModelServerConfig. Raises ConfigError."""

CheckNames = Callable[[Iterable[str]], None]
"""Checks base paths. Raises ConfigError with all faults."""

ApplyModels = Callable[[Sequence[ModelConfig]], Awaitable[None]]
"""Applies a configuration completely or not at all. Raises ServingError."""


@dataclass(eq=False)
class ModelService:
    """Answers the methods of ModelService.

    Attributes:
        plane: returns the status of models.
        interface: describes this front end to the data plane.
        read, check_paths, apply: the steps of a reload.
        statuses: encodes them.
        reload_allowed: whether clients may change the configuration.
    """

    plane: DataPlane
    interface: Interface[bytes]
    read: ReadConfigs
    check_paths: CheckNames
    apply: ApplyModels
    statuses: StatusEncoder
    _: KW_ONLY
    reload_allowed: bool = True

    def handlers(self) -> dict[str, Unary]:
        """The methods by name."""
        return {
            "GetModelStatus": self.get_model_status,
            "HandleReloadConfigRequest": self.handle_reload_config_request,
        }

    async def get_model_status(self, payload: Encoded, context: CallContext) -> bytes:
        """Return the states of one version or of all, highest version first."""
        began = time.perf_counter()
        with self.plane.counting_refusals("", self.interface):
            model = _status_model(payload)
        return self.plane.status(model, self.interface, began, self.statuses.response)

    async def handle_reload_config_request(self, payload: Encoded, context: CallContext) -> bytes:
        """Change to another configuration; answer when its models serve."""
        if not self.reload_allowed:
            raise Forbidden(
                "HandleReloadConfigRequest is switched off: change the configuration file",
                Hint(", or start the server with {server.reload_by_rpc}"),
            )
        # A thread parses and checks: some 10 us for each of thousands of models.
        await self.apply(await in_thread(self._requested_models, payload))
        response = messages.ReloadConfigResponse()
        response.status.error_code = Code.OK
        return bytes(response.SerializeToString())

    def _requested_models(self, payload: Encoded) -> Sequence[ModelConfig]:
        request = parse(messages.ReloadConfigRequest, payload)
        if request.config.WhichOneof("config") != "model_config_list":
            raise InvalidRequest(
                "ServerModelConfig type not supported by HandleReloadConfigRequest."
                " Only ModelConfigList is currently supported"
            )
        _check_number(len(request.config.model_config_list.config))
        wanted = self.read(request.config)
        self.check_paths(model.base_path for model in wanted)
        return wanted


def _check_number(models: int) -> None:
    if models > MOST_MODELS:
        raise InvalidRequest(
            f"the configuration has {models} models; at most {MOST_MODELS} are taken by"
            " HandleReloadConfigRequest: use a configuration file"
        )


def _status_model(payload: Encoded) -> ModelSpec:
    request = parse(messages.GetModelStatusRequest, payload)
    if not request.HasField("model_spec"):
        raise InvalidRequest(
            advised("Missing ModelSpec", ": set model_spec.name to a served model")
        )
    return read_model_spec(request.model_spec)
