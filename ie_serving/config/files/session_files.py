"""Reads the files by which `tensorflow_model_server` configures TensorFlow; without effect here.

Faults are told, and so is what would change answers. Source: server.cc, platform_config.proto,
session_bundle_config.proto and thread_pool_factory_config.proto of TensorFlow Serving, config.proto
and rewriter_config.proto of TensorFlow.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ie_serving.config.files import pbtxt
from ie_serving.core.values.errors import ConfigError

_OF_SESSION: Final = """device_count intra_op_parallelism_threads inter_op_parallelism_threads
use_per_session_threads session_inter_op_thread_pool placement_period device_filters gpu_options
pluggable_device_options allow_soft_placement log_device_placement graph_options rpc_options
operation_timeout_in_ms cluster_def isolate_session_state share_cluster_devices_in_session
experimental"""
FIELDS: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "tensorflow_session_config_file": (
        "tensorflow.ConfigProto",
        frozenset(_OF_SESSION.split()),
    ),
    "platform_config_file": (
        "tensorflow.serving.PlatformConfigMap",
        frozenset(("platform_configs",)),
    ),
    "thread_pool_factory_config_file": (
        "tensorflow.serving.ThreadPoolFactoryConfig",
        frozenset(("thread_pool_factory_config",)),
    ),
}
"""Message of each flag's file, and the names of its fields."""

_PRECISION: Final = "auto_mixed_precision"
_AS_WITHOUT: Final[Mapping[str, tuple[object, ...]]] = {
    **dict.fromkeys(
        (_PRECISION, *(f"{_PRECISION}_{kind}" for kind in ("mkl", "onednn_bfloat16", "cpu"))),
        ("DEFAULT", "OFF", 0, 2),
    ),
    "mixed_precision": ("",),
    "saved_model_tags": ("serve",),
    "experimental_fixed_input_tensors": (),
}
"""Fields, at any depth, that change answers, with the values that do not."""


def check(flag: str, text: str, place: str) -> None:
    """Check a file.

    Args:
        flag: that names it.
        text: its content.
        place: its name, for the faults.

    Raises:
        ConfigError: it cannot be parsed, or would change what is computed.
    """
    message, fields = FIELDS[flag]
    try:
        found = pbtxt.read(text)
        if unknown := next((name for name in found if name not in fields), None):
            raise ValueError(f'Message type "{message}" has no field named "{unknown}".')
    except ValueError as error:
        cause = f"Error parsing text-format {message}: {error}"
        raise ConfigError([f"Invalid protobuf file: '{place}': {cause}"]) from None
    if changed := sorted(set(_changed(found))):
        wrong = "changes answers, and is not supported"
        raise ConfigError([f"{place}: {name} {wrong}" for name in changed])


def _changed(message: pbtxt.TextMessage) -> Iterator[str]:
    """Yield the names of fields that change answers."""
    each: Any
    for name, values in message.items():
        for each in values:
            if name in _AS_WITHOUT and each not in _AS_WITHOUT[name]:
                yield name
            elif isinstance(each, pbtxt.TextMessage):
                yield from _changed(each)
