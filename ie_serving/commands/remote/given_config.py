"""Sends a configuration file by HandleReloadConfigRequest, which has fewer settings than our files.

A file with any other setting is refused, so that a reload does not silently lose it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ie_serving.commands.remote.failures import Misused, Refused
from ie_serving.commands.remote.place import ServerAddress
from ie_serving.commands.remote.rpc import MODEL, Rpc
from ie_serving.config.files import source
from ie_serving.config.files.text_proto import TENSORFLOW, from_message
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.versions import State
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.repository.version_policy import All, Latest, Specific
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto

Found = Mapping[str, Mapping[str, str]]
"""As `reload.States`, without labels, which gRPC does not report."""


def reload_with(file: str, place: ServerAddress) -> tuple[Found, Found]:
    """Send another configuration to a server; give the states of its models before and after.

    Raises:
        Misused: the file is broken, or has settings that the message lacks.
        Refused: the server refuses the configuration and has changed nothing.
        Unreachable: there is no answer.
    """
    models = _read(Path(file))
    request = messages.ReloadConfigRequest()
    request.config.CopyFrom(_message(models))
    names = [model.name for model in models]
    with Rpc(place) as rpc:
        before = _states(rpc, names)
        answer = rpc.call(
            MODEL, "HandleReloadConfigRequest", request, messages.ReloadConfigResponse
        )
        if answer.status.error_code:
            raise Refused(f"{place.url} does not take it: {answer.status.error_message}")
        return before, _states(rpc, names)


def _read(path: Path) -> Sequence[ModelConfig]:
    try:
        found = source.read(path)
    except ConfigError as error:
        raise Misused("; ".join(error.faults)) from None
    if found.repositories:
        raise Misused(
            f"{path}: has model_repository_list, which HandleReloadConfigRequest cannot say: change"
            " the server's own file, then `ie_serving reload`"
        )
    return found.models


def _message(models: Sequence[ModelConfig]) -> Proto:
    message = messages.ModelServerConfig()
    message.model_config_list.SetInParent()
    for model in models:
        _fill(message.model_config_list.config.add(), model)
    # Read back as the server will read it: a setting that differs is missing in the message.
    for wanted, told in zip(models, from_message(message), strict=True):
        lost = [name for name in vars(wanted) if getattr(wanted, name) != getattr(told, name)]
        lost = [name for name in lost if name != "platform"]
        if lost:
            raise Misused(
                f"model {wanted.name} has settings that HandleReloadConfigRequest cannot say"
                f" ({', '.join(lost)}): change the server's own file, then `ie_serving reload`"
            )
    return message


def _fill(config: Proto, model: ModelConfig) -> None:
    config.name = model.name
    config.base_path = model.base_path
    config.model_platform = model.platform or TENSORFLOW
    config.version_labels.update(model.version_labels)
    policy = model.version_policy
    if isinstance(policy, All):
        config.model_version_policy.all.SetInParent()
    elif isinstance(policy, Specific):
        config.model_version_policy.specific.versions.extend(sorted(policy.versions))
    elif isinstance(policy, Latest):
        config.model_version_policy.latest.num_versions = policy.num_versions


def _states(rpc: Rpc, names: Sequence[str]) -> Found:
    """Ask for the states of models; leave out models that the server does not have."""
    found: dict[str, Mapping[str, str]] = {}
    for name in names:
        request = messages.GetModelStatusRequest()
        request.model_spec.name = name
        try:
            answer = rpc.call(MODEL, "GetModelStatus", request, messages.GetModelStatusResponse)
        except Refused as error:
            if "NOT_FOUND" not in str(error):
                raise
            continue
        found[name] = {
            f"version {v.version}": State(v.state).name for v in answer.model_version_status
        }
    return found
