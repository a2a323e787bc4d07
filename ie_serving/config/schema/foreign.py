"""Words of the server of 2020 and of OpenVINO Model Server that have no effect here.

They are accepted, so that a command line or file written for those servers starts this one; each
use gives advice. Words without which a model would compute something else are refused: answers
would be wrong, and warnings are not read.
"""

from collections.abc import Mapping

from ie_serving.core.values.hints import Hint

_OFF = ("", "false", "0", "no", "off")
_NOTHING = Hint("there is nothing in its place")
_USE_CORS = Hint("use {server.enable_cors}")
_USE_NIREQ = Hint("use {engine.nireq}")
_USE_DEVICE = Hint("use {openvino.target_device}")

# A flag that had an effect there and has none here could be missed, hence the advice; refusing it
# would only make people delete it and learn nothing.
FLAGS: Mapping[str, Hint] = {
    "grpc_max_threads": Hint(
        "one event loop serves every call; {engine.nireq} sets how many infer at once"
    ),
    "grpc_memory_quota": Hint("use {server.memory_budget_bytes}"),
    "custom_node_resources_cleaner_interval_seconds": Hint(
        "custom nodes are Python code, which nothing cleans up at intervals"
    ),
    "trace_path": _NOTHING,
    # This key, of generative models and in GB, would else be a beginning of one of ours.
    "cache_size": Hint("use {storage.cache_size_bytes} for copies of remote models"),
    "allow_credentials": _USE_CORS,
    "allowed_origins": _USE_CORS,
    "allowed_methods": _USE_CORS,
    "allowed_headers": _USE_CORS,
}
"""Flags, each with advice."""

_PULLED = "models are not pulled: put them into the repository"
_GENERATIVE = "there are no generative endpoints"
REFUSED_FLAGS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "pull",
            "source_model",
            "source_loras",
            "gguf_filename",
            "overwrite_models",
            "weight-format",
            "extra_quantization_params",
            "vocoder",
            "configure",
        ),
        _PULLED,
    ),
    **dict.fromkeys(
        (
            "task",
            "max_num_seqs",
            "pipeline_type",
            "enable_prefix_caching",
            "tool_parser",
            "reasoning_parser",
            "num_streams",
            "normalize",
            "truncate",
            "pooling",
            "verbose_response",
            "allowed_media_domains",
            "allowed_local_media_path",
        ),
        _GENERATIVE,
    ),
}
"""Flags of OpenVINO Model Server's generative models, each with the reason of its refusal."""

REFUSED_KEYS: Mapping[str, Hint] = {
    "custom_loader_options": Hint(
        "there are no custom loaders: the files would be read as they lie"
    )
}
"""Keys of a model that are refused where they are neither off nor empty."""


def asks(value: object) -> bool:
    """Tell whether a refused word has a value that demands something: neither off nor empty."""
    if not isinstance(value, str):
        return bool(value)
    return value.lower() not in _OFF


# They say where or how fast something is computed, or how long requests wait: a model computes the
# same without them, so a warning is enough.
VARIABLES: Mapping[str, Hint] = {
    "PLUGIN_DIR": Hint("OpenVINO finds its plugins itself"),
    "REST_REQUESTS_QUEUE_SIZE": _NOTHING,
    "ENGINE_REQUESTS_QUEUE_SIZE": _USE_NIREQ,
    "ENGINE_REQUESTS_QUEUE_TIMEOUT": _NOTHING,
    "DEVICE": _USE_DEVICE,
    "OVMS_MODEL_DEVICES": _USE_DEVICE,
    "GRPC_SERVERS": Hint("one event loop serves every gRPC call"),
    "DROGON_LOG_LEVEL": Hint("use {server.log_level}"),
    "AZURE_STORAGE_USE_HTTP_PROXY": Hint("a proxy is used for requests of its own scheme"),
    # There only for the generative endpoints; but its user wants callers to need a key.
    "API_KEY": Hint("use {server.api_key_file}"),
}
"""Variables, each with advice."""

MODEL_KEYS = frozenset({"allow_cache", "graph_path", "subconfig"})
"""Keys of a model in the file of OpenVINO Model Server. Source: its `schema.cpp`."""

TOP_KEYS = frozenset({"custom_loader_config_list"})
"""Keys beside the list of models in that file."""
