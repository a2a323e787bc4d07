"""All settings, in the order in which help and docs show them, and their names in each command."""

from collections.abc import Iterator, Mapping
from typing import Final

from ie_serving.config.settings import ServerSettings, Settings, TuneSettings
from ie_serving.core.settings.declaration import Setting, declared
from ie_serving.engines import drivers
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import HookOptions, KernelOptions
from ie_serving.engines.layer_options import Batching, Caching, Recording, Sequences
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.preprocessing import Preprocessing
from ie_serving.engines.tensorflow.options import TensorFlowOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.storage.options import StorageOptions
from ie_serving.storage.stores import KINDS

OWN: Final[Mapping[str, type]] = {
    "openvino": OpenVinoOptions,
    "tensorflow": TensorFlowOptions,
    "preprocess": Preprocessing,
    "batching": Batching,
    "sequences": Sequences,
    "caching": Caching,
    "recording": Recording,
    "kernel": KernelOptions,
    "hooks": HookOptions,
}
"""Values in `EngineOptions.own`."""
_OF_MODEL: Final[Mapping[str, type]] = {"model": ModelConfig, "engine": EngineOptions, **OWN}
_OF_SERVER: Final[Mapping[str, type]] = {
    "settings": Settings,
    "server": ServerSettings,
    "storage": StorageOptions,
    "tune": TuneSettings,
}
OWNERS: Final[Mapping[str, type]] = {**_OF_MODEL, **_OF_SERVER, **KINDS}
"""The class that has a setting, by the first word of the setting's name."""

_DECLARED: Final[Mapping[str, list[Setting]]] = {
    **{name: declared(name, owner, flags=True, keys=True) for name, owner in _OF_MODEL.items()},
    **{name: declared(name, owner, flags=True) for name, owner in _OF_SERVER.items()},
    **{name: declared(name, owner) for name, owner in KINDS.items()},
}

TOPICS: Final[Mapping[str, str]] = {
    "model": "name, base path, and versions of a model",
    "shapes": "sizes of a model's inputs",
    "preprocessing": "layout, mean, scale, colours and size of images",
    "engine": "the library that runs a model, device, precision",
    "python": "Python code and pickled models that answer",
    "batching": "requests that share a batch",
    "memory": "models that requests load, and kept answers",
    "sequences": "models that keep state between requests",
    "tensorflow": "TensorFlow for signatures that OpenVINO does not take",
    "tune": "what tune measures",
    "ports": "ports, addresses, processes",
    "access": "TLS, API keys, tokens, the page",
    "limits": "sizes, connections, requests in flight, time-outs",
    "protocols": "forms of requests and answers",
    "repository": "how often models are looked for, and where they are cached",
    "lifecycle": "start, loads, warm-up, readiness, stop",
    "telemetry": "log, access log, metrics, traces",
}
"""Topics of `--help`, with their meanings. Every setting with a flag has one of them."""

_MODEL_ORDER: Final[Mapping[str, str]] = {
    "model.name": "model",
    "openvino.batch_size": "shapes",
    "preprocess.layout": "preprocessing",
    "model.version_policy": "model",
    "engine.driver": "engine",
    "openvino.target_device": "engine",
    "engine.execution": "engine",
    "kernel.source": "python",
    "hooks.source": "python",
    "kernel.isolation": "python",
    "batching.max_batch_size": "batching",
    "caching.response_cache_bytes": "memory",
    "recording.logging_config": "telemetry",
    "sequences.stateful": "sequences",
    "tensorflow.fallback": "tensorflow",
    "model.poll_wait_s": "repository",
    "model.load": "memory",
    "model.signature_changes": "model",
}
"""Places of the first settings of groups that are shown together, and the topic of each group: a
group continues, in the order of the owner's fields, to the next one in these orders."""
_SERVER_ORDER: Final[Mapping[str, str]] = {
    "server.port": "ports",
    "server.tls_certificate": "access",
    "server.max_message_bytes": "limits",
    "engine.allow_pickle": "python",
    "server.busy_poll_us": "protocols",
    "server.poll_wait_s": "repository",
    "server.load": "memory",
    "server.shared_memory": "protocols",
    "server.config_poll_wait_s": "repository",
    "server.sequence_cleaner_poll_wait_minutes": "sequences",
    "server.drain_delay_s": "lifecycle",
    "server.tensor_content": "protocols",
    "server.metrics_path": "telemetry",
    "server.invocations_model": "protocols",
    "server.allow_unavailable_models": "lifecycle",
    "server.unload_when_empty": "repository",
    "server.warmup": "lifecycle",
    "storage.cache_dir": "repository",
    "server.log_level": "telemetry",
}

_STARTS: Final = frozenset((*_MODEL_ORDER, *_SERVER_ORDER))


def _in_order(starts: Mapping[str, str]) -> Iterator[Setting]:
    for start, topic in starts.items():
        is_within = False
        for each in _DECLARED[start.partition(".")[0]]:
            if each.name in _STARTS:
                is_within = each.name == start
            if is_within:
                named = _with_drivers(each) if each.name == "engine.driver" else each
                yield named._replace(topic=topic)


def _with_drivers(setting: Setting) -> Setting:
    """Add the names of drivers, which the setting's declaration does not know."""
    return setting._replace(parse=drivers.parse_name, form="|".join(drivers.names()))


CONFIG_PATH, MODEL_REPOSITORY = (each._replace(topic="model") for each in _DECLARED["settings"])
MODEL: Final = tuple(_in_order(_MODEL_ORDER))
"""Keys of an entry in the JSON file, and flags of `ie_serving model`."""
FOR_ALL: Final = tuple(each for each in MODEL if each.for_all)
"""Flags that `ie_serving config` has too, for models whose entries name none."""
TUNE: Final = tuple(each._replace(topic="tune") for each in _DECLARED["tune"])
SERVER: Final = tuple(_in_order(_SERVER_ORDER))
"""Flags of every command."""
OF_STORE: Final[Mapping[str, tuple[Setting, ...]]] = {
    name: tuple(_DECLARED[name]) for name in KINDS
}
STORES: Final = tuple(each for settings in OF_STORE.values() for each in settings)
SETTINGS: Final = (CONFIG_PATH, MODEL_REPOSITORY, *MODEL, *TUNE, *SERVER, *STORES)

BY_TFS: Mapping[str, Setting] = {setting.tfs: setting for setting in SETTINGS if setting.tfs}


def names_in_ie_serving(flags: tuple[Setting, ...]) -> dict[str, str]:
    """Name each setting by its flag, else by its key in the file, else by its variable.

    Args:
        flags: flags of the running command.
    """
    # A name tells a setting apart; comparing settings would compare all their fields.
    taken = {setting.name for setting in flags}
    found = {}
    for setting in SETTINGS:
        if setting.name in taken and setting.flag:
            found[setting.name] = f"--{setting.flag}"
        # A model of a file has no flags, but its settings can be set in the file.
        elif setting.key:
            found[setting.name] = f"{setting.key} in the configuration file"
        elif setting.variables:
            found[setting.name] = setting.variables[0]
    return found


def names_in_tensorflow_model_server() -> dict[str, str]:
    """Name each setting that this command has, by its flag, else by its variable."""
    flags = {setting.name: f"--{setting.tfs}" for setting in BY_TFS.values()}
    others = {
        setting.name: setting.variables[0]
        for setting in SETTINGS
        if setting.variables and not setting.tfs
    }
    return {**flags, **others}
