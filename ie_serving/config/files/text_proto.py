"""Translates ModelServerConfig, as a message or as text, to models.

Source: model_server_config.proto and the checks of ServerCore in TensorFlow Serving, whose phrases
every fault contains. All faults of a configuration are reported together.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from google.protobuf import text_format
from google.protobuf.message import Message

from ie_serving.core.settings.words import too_long
from ie_serving.core.values.errors import ConfigError, advised
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.layer_options import TFRECORD, Recording, request_log
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.repository.version_policy import All, Latest, Specific, VersionPolicy
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto

M = TypeVar("M", bound=Message)

TENSORFLOW = "tensorflow"
PLATFORMS = (TENSORFLOW, "openvino")
"""`model_platform` values. Either accepts any format in a version directory."""

_LIST = re.compile(
    r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\#[^\n]*)|(?<=\w)(\s*\[)""", re.VERBOSE
)
"""Strings and comments, or the beginning of a list behind a field's name without a colon."""

_TENSORFLOW_TYPE = 1
"""`ModelType.TENSORFLOW`, deprecated. Source: model_server_config.proto."""


def parse_text(text: str, make: Callable[[], M], place: str, *, lenient: bool = False) -> M:
    """Parse protocol buffer text.

    Args:
        text: the file's content.
        make: the message class.
        place: the file's name, for the fault.
        lenient: skip fields that the message does not have.

    Raises:
        ConfigError: with line and column.
    """
    message = make()
    # The parser skips an unknown field with a list only where a colon stands before it; Triton's
    # pages write `resources [ {`.
    given = _LIST.sub(lambda found: found[1] or f":{found[2]}", text) if lenient else text
    try:
        text_format.Parse(given, message, allow_unknown_field=lenient)
    except (text_format.ParseError, ValueError, RecursionError) as error:
        name = message.DESCRIPTOR.full_name
        raise ConfigError(
            [f"Invalid protobuf file: '{place}': Error parsing text-format {name}: {error}"]
        ) from None
    return message


class UnreadField(NamedTuple):
    """A field of a text that the message does not have.

    Attributes:
        place: names of the fields around it, and its own, such as `input.datatype`.
        known: names of the fields that the message has there.
    """

    place: str
    known: Collection[str]


def unread(text: str, descriptor: Any, skipped: Container[str] = ()) -> Iterator[UnreadField]:  # noqa: ANN401
    """Name the fields that `parse_text` has skipped as `lenient`, each once.

    Args:
        text: the file's content, which has been parsed.
        descriptor: descriptor of the message.
        skipped: full names of messages whose fields are not looked at.
    """
    tokens = text_format.Tokenizer(text.split("\n"))
    found: dict[str, UnreadField] = {}
    # The message around a token, None for one that is not looked at; its place; its last field;
    # whether the token stands in a list of values or messages of that field.
    levels: list[tuple[Any, str, str, bool]] = [(descriptor, "", "", False)]
    before = ""
    while not tokens.AtEnd():
        token = tokens.token
        message, place, field, in_list = levels[-1]
        if token in "{<":
            inner = message.fields_by_name.get(field) if message else None
            below = inner.message_type if inner else None
            looked_at = below if below and below.full_name not in skipped else None
            levels.append((looked_at, f"{place}{field}.", "", False))
        elif token == "[":
            levels.append((message, place, field, True))
        elif token in "}>]":
            levels.pop()
        elif not in_list and before != ":" and token.isidentifier():
            levels[-1] = (message, place, token, False)
            if message and token not in message.fields_by_name:
                found[place + token] = UnreadField(place + token, message.fields_by_name.keys())
        before = token
        tokens.NextToken()
    yield from found.values()


def parse_model_server_config(
    text: str, place: str, engine: EngineOptions | None = None
) -> tuple[ModelConfig, ...]:
    """Read models from a ModelServerConfig in text form.

    Args:
        text: the file's content.
        place: the file's name, at the beginning of each fault.
        engine: options of every model.

    Raises:
        ConfigError: every fault; those of the syntax with line and column.
    """
    message = parse_text(text, messages.ModelServerConfig, place)
    try:
        return from_message(message, engine)
    except ConfigError as error:
        raise ConfigError([f"{place}: {fault}" for fault in error.faults]) from None


def from_message(message: Proto, engine: EngineOptions | None = None) -> tuple[ModelConfig, ...]:
    """Read models from a ModelServerConfig message; one without a list has none.

    Args:
        message: message of the private pool's class.
        engine: options of every model.

    Raises:
        ConfigError: every fault of every model.
    """
    if message.WhichOneof("config") == "custom_model_config":
        raise ConfigError(
            ["custom_model_config is not supported; write the models as model_config_list"]
        )
    configs = message.model_config_list.config
    faults = [fault for config in configs for fault in _faults(config)]
    faults += _repeated([config.name for config in configs])
    if faults:
        raise ConfigError(faults)
    return tuple(_model(config, engine or EngineOptions()) for config in configs)


def _repeated(names: Sequence[str]) -> list[str]:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    return [f"Illegal to list model {name} multiple times in config list" for name in twice]


def _faults(config: Proto) -> Iterator[str]:
    """Check one model. Source: ServerCore::ValidateModelConfigs and GetPlatform."""
    name, path = config.name, config.base_path
    if not name:
        yield "a model of model_config_list has no name; name it"
    if wrong := too_long("model", name):
        yield wrong
        return  # later faults would quote it
    labels = (too_long("label", each) for each in config.version_labels)
    yield from (f"Model {name}: {wrong}" for wrong in labels if wrong)
    if not path.startswith("/") and "://" not in path:
        yield f"Expected model {name} to have an absolute path or URI; got base_path()={path}"
    try:
        _recording(config)
    except ConfigError as error:
        yield from error.faults
    fault = _platform_fault(config)
    if fault:
        yield fault


def _recording(config: Proto) -> Recording:
    """Read `logging_config`. Raises: ConfigError."""
    if not config.HasField("logging_config"):
        return Recording()
    place = f"model {config.name}: logging_config"
    given = config.logging_config
    if given.HasField("custom_logging_config"):
        raise ConfigError([f"{place}.custom_logging_config: there is no custom logger: remove it"])
    if given.log_collector_config.type != TFRECORD:
        advice = f' {place}.log_collector_config.type: expected "{TFRECORD}"'
        raise ConfigError([advised("No request-logger-creator provided.", advice)])
    from google.protobuf.json_format import MessageToDict

    value = MessageToDict(given, preserving_proto_field_name=True)
    value["sampling_config"] = {"sampling_rate": given.sampling_config.sampling_rate}
    return Recording(logging_config=request_log(value, place))


def _platform_fault(config: Proto) -> str:
    fields = (
        "ModelServerConfig::model_type (deprecated) {} ModelServerConfig::model_platform, "
        f"model name is {config.name}"
    )
    platform, kind = config.model_platform, config.model_type
    if platform and kind:
        return f"Illegal setting both {fields.format('and')}"
    if not platform and not kind:
        neither = f"Illegal setting neither {fields.format('nor')}"
        return advised(neither, f': set model_platform: "{TENSORFLOW}"')
    if kind not in (0, _TENSORFLOW_TYPE):
        return f"ModelServerConfig::model_type choice {kind} not supported."
    if platform and platform not in PLATFORMS:
        wrong = f"Model {config.name} requests unsupported platform {platform}"
        return advised(wrong, f"; expected {' or '.join(PLATFORMS)}")
    return ""


def _model(config: Proto, engine: EngineOptions) -> ModelConfig:
    return ModelConfig(
        name=config.name,
        base_path=config.base_path,
        version_policy=_policy(config.model_version_policy),
        version_labels=dict(config.version_labels),
        platform=config.model_platform or TENSORFLOW,
        engine=engine.having(_recording(config)) if config.HasField("logging_config") else engine,
    )


def _policy(policy: Proto) -> VersionPolicy:
    """Give the policy; none means the newest, and so does `num_versions: 0`."""
    choice = policy.WhichOneof("policy_choice")
    if choice == "all":
        return All()
    if choice == "specific":
        return Specific(frozenset(policy.specific.versions))
    # An absent number is 0 on the wire of proto3, and the original reads it as 1.
    return Latest(policy.latest.num_versions or 1)
