"""`ie_serving reload`: the server reads its configuration file and lists its repositories now.

`--config FILE` sends another configuration instead, all or nothing, by HandleReloadConfigRequest
on the gRPC port. The command reads the file, in any form that the server reads; paths in it are
paths on the server. The message has fewer settings than such a file: a file with any other setting
is refused, so that a reload does not silently lose it.
"""

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ie_serving.commands.remote import server_address
from ie_serving.commands.remote.failures import CommandMisused, ServerRefused
from ie_serving.commands.remote.models import Model, all_models
from ie_serving.commands.remote.rest import RestPort
from ie_serving.commands.remote.rpc import MODEL, GrpcPort
from ie_serving.commands.remote.server_address import ServerAddress
from ie_serving.config.files import source
from ie_serving.config.files.text_proto import TENSORFLOW, from_message
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.versions import State
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.repository.version_policy import All, Latest, Specific
from ie_serving.telemetry.log.progress import ProgressLine
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto

ModelStates = Mapping[str, Mapping[str, str]]
"""Each model's state of each version, as `version 3`, and of each label, as `label stable`. gRPC
reports no labels."""


def reload_with(file: str, address: ServerAddress) -> tuple[ModelStates, ModelStates]:
    """Send another configuration to a server; give the states of its models before and after.

    Raises:
        CommandMisused: the file is broken, or has settings that the message lacks.
        ServerRefused: the server refuses the configuration and has changed nothing.
        ServerSilent: there is no reply.
    """
    models = _read(Path(file))
    request = messages.ReloadConfigRequest()
    request.config.CopyFrom(_message(models))
    names = [model.name for model in models]
    with GrpcPort(address) as rpc:
        before = _states(rpc, names)
        reply = rpc.call(MODEL, "HandleReloadConfigRequest", request, messages.ReloadConfigResponse)
        if reply.status.error_code:
            raise ServerRefused(f"{address.url} does not take it: {reply.status.error_message}")
        return before, _states(rpc, names)


def _read(path: Path) -> Sequence[ModelConfig]:
    try:
        found = source.read(path)
    except ConfigError as error:
        raise CommandMisused("; ".join(error.faults)) from None
    if found.repositories:
        raise CommandMisused(
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
            raise CommandMisused(
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


def _states(rpc: GrpcPort, names: Sequence[str]) -> ModelStates:
    """Ask for the states of models; leave out models that the server does not have."""
    found: dict[str, Mapping[str, str]] = {}
    for name in names:
        request = messages.GetModelStatusRequest()
        request.model_spec.name = name
        try:
            reply = rpc.call(MODEL, "GetModelStatus", request, messages.GetModelStatusResponse)
        except ServerRefused as error:
            if error.rpc_code != "NOT_FOUND":
                raise
            continue
        found[name] = {
            f"version {v.version}": State(v.state).name for v in reply.model_version_status
        }
    return found


UNCHANGED: Final = "no model, state or label has changed"
AS_FAR_AS_TOLD: Final = "no model or state has changed; labels are not told over gRPC"
PATIENCE_S: Final = 600.0
"""Default time limit in seconds: the server answers a reload when the new versions have loaded."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command."""
    parser.add_argument(
        "--config", metavar="FILE", help="give the server this one; --url is that of the gRPC port"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    server_address.add_flags(parser)
    parser.set_defaults(timeout_seconds=PATIENCE_S)


def run(given: argparse.Namespace, address: server_address.ServerAddress) -> int:
    """Reload; print the changes. Raises: CommandFailure."""
    began = time.monotonic()
    if given.config:
        with ProgressLine("waiting until what is new serves", unit=""):
            before, after = reload_with(given.config, address)
    else:
        with ProgressLine("waiting until what is new serves", unit=""):
            before, after = _reloaded(RestPort(address))
    changes = list(changed(before, after))
    if given.json:
        print(json.dumps({"changed": changes, "models": after}))
    else:
        took_s = time.monotonic() - began
        print(
            "\n".join(
                [
                    *(changes or [AS_FAR_AS_TOLD if given.config else UNCHANGED]),
                    f"done in {took_s:.1f} s",
                ]
            )
        )
    return 0


def _reloaded(rest: RestPort) -> tuple[ModelStates, ModelStates]:
    before = states_of(all_models(rest))
    rest.ask("POST", "/v1/config/reload", b"")
    return before, states_of(all_models(rest))


def states_of(models: Iterable[Model]) -> ModelStates:
    """Give the states that a reload may change, as text."""
    return {
        model.name: {
            **{f"version {each.number}": each.state for each in model.versions},
            **{
                f"label {label}": str(each.number)
                for each in model.versions
                for label in each.labels
            },
            **{f"label {label}": f"{number}, waiting" for label, number in model.waiting.items()},
        }
        for model in models
    }


def changed(before: ModelStates, after: ModelStates) -> Iterator[str]:
    """Give a line for each state that differs."""
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if new is None:
            yield f"model {name}: removed"
            continue
        if old is None:
            yield f"model {name}: added"
        for what in sorted({*(old or {}), *new}):
            was, is_now = (old or {}).get(what, "none"), new.get(what, "none")
            if was != is_now:
                yield f"model {name}, {what}: {was} -> {is_now}"
