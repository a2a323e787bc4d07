"""Flags and variables of OpenVINO Model Server, 2025.4 to 2026.4. Source: its `cli_parser.cpp`."""

from tests.unit.config.migration.rows import already, ends, mapped, no_effect, refused, taken

BASE = ("--model_name", "m", "--model_path", "/models/m", "--rest_port=8000")

_LOOP = "one event loop serves every call; `--nireq` sets how many infer at once"
_WORKERS = "`--workers`: processes, at most one for each processor; a warning says how many"
_CORS = "use `--enable_cors`, which lets every origin in"
_PULL = "models are not pulled: put them into the repository"
_GENERATIVE = "there are no generative endpoints"
_OPENVINO = "models.ModelConfig.engine.own.OpenVinoOptions"
_BEFORE = "models.ModelConfig.engine.own.Preprocessing"
_SEQUENCES = "models.ModelConfig.engine.own.Sequences"

SERVER = (
    ends("help", "ie_serving --help", "usage: ie_serving"),
    ends("version", "ie_serving --version", "ie_serving "),
    taken(
        "port", "9001", "server.port=9001", "gRPC is on without it, too: `--port 0` turns it off"
    ),
    taken("rest_port", "8001", "server.rest_port=8001"),
    taken("grpc_bind_address", "127.0.0.1", "server.grpc_host=127.0.0.1"),
    taken("rest_bind_address", "127.0.0.1", "server.rest_host=127.0.0.1"),
    mapped("grpc_workers", "2", "server.workers=2", _WORKERS),
    no_effect("grpc_max_threads", "8", _LOOP),
    no_effect("grpc_memory_quota", "1000000", "use `--memory_budget_bytes`"),
    taken(
        "grpc_channel_arguments",
        "grpc.max_connection_age_ms=2000",
        "server.grpc_max_connection_age_s=2.0",
        "age, its grace and idle time; all others need `--grpc_transport grpcio`",
    ),
    mapped("rest_workers", "2", "server.workers=2", _WORKERS),
    taken(
        "file_system_poll_wait_seconds",
        "10",
        "server.config_poll_wait_s=10.0",
        "for repositories and the file, as in `ovms`",
    ),
    taken(
        "idle_unload_timeout_seconds",
        "9",
        "server.idle_unload_timeout_s=9.0",
        "refused at the start without models that are loaded on demand: `--load on_demand`",
    ),
    taken("sequence_cleaner_poll_wait_minutes", "1", "server.sequence_cleaner_poll_wait_minutes=1"),
    no_effect(
        "custom_node_resources_cleaner_interval_seconds",
        "5",
        "custom nodes are Python code, which nothing cleans up at intervals",
    ),
    taken("log_level", "TRACE", "server.log_level=DEBUG", "TRACE is DEBUG"),
    taken("log_path", "/var/log/a.log", "server.log_path=/var/log/a.log"),
    no_effect("trace_path", "/t", "there is nothing in its place"),
    taken(
        "cache_dir",
        "/c",
        "storage.cache_dir=/c",
        "copies of remote models lie there as well",
    ),
    taken(
        "cpu_extension",
        "README.md",
        "OpenVinoOptions.cpu_extension=",
        "for all models, or as key of one",
    ),
    taken("metrics_enable", "false", "server.metrics_path=", "on by default, at `/metrics`"),
    taken(
        "metrics_list",
        "ovms_streams",
        "server.metrics_families=('ovms_streams',)",
        "a name that is not served is refused",
        "--metrics_enable",
    ),
    no_effect("allow_credentials", "true", _CORS),
    no_effect("allowed_origins", "a", _CORS),
    no_effect("allowed_methods", "GET", _CORS),
    no_effect("allowed_headers", "a", _CORS),
    taken(
        "api_key_file",
        "/k",
        "server.api_key_file=/k",
        "but it has lines of `ie_serving key new`, and one with a bare key ends the start; all"
        " routes and RPCs then ask for credentials",
    ),
    refused("allowed_media_domains", "a", _GENERATIVE),
    refused("allowed_local_media_path", "/p", _GENERATIVE),
    refused("disable_input_count_validation", "true", "all inputs have to be given"),
    refused("verbose_response", "true", _GENERATIVE),
)

MODEL = (
    taken("model_name", "o", "models.ModelConfig.name=o"),
    taken("model_path", "/models/o", "models.ModelConfig.base_path=/models/o"),
    taken("batch_size", "4", f"{_OPENVINO}.batch_size=4", "a range, too: `1:8`"),
    taken("shape", "(1,3)", f"{_OPENVINO}.shape=(1, 3)"),
    taken("layout", "NHWC:NCHW", f"{_BEFORE}.layout.client=NHWC"),
    taken("mean", "1", f"{_BEFORE}.mean=(1.0,)"),
    taken("scale", "2", f"{_BEFORE}.scale=(2.0,)"),
    taken("color_format", "BGR:RGB", f"{_BEFORE}.color_format.client=BGR"),
    taken("precision", "uint8:fp32", f"{_BEFORE}.precision.client=u8"),
    taken("model_version_policy", '{"all": {}}', "models.ModelConfig.version_policy=All"),
    taken("nireq", "4", "models.ModelConfig.engine.nireq=4"),
    taken("target_device", "GPU", f"{_OPENVINO}.target_device=GPU"),
    taken(
        "plugin_config",
        '{"NUM_STREAMS": "2"}',
        f"{_OPENVINO}.plugin_config={{'NUM_STREAMS': '2'}}",
    ),
    taken("stateful", "true", f"{_SEQUENCES}.stateful=True"),
    taken("idle_sequence_cleanup", "false", f"{_SEQUENCES}.idle_sequence_cleanup=False"),
    taken(
        "low_latency_transformation",
        "true",
        f"{_SEQUENCES}.low_latency_transformation=True",
        "needs `--stateful`",
        "--stateful=true",
    ),
    taken(
        "max_sequence_number",
        "9",
        f"{_SEQUENCES}.max_sequence_number=9",
        "needs `--stateful`",
        "--stateful=true",
    ),
)

MANAGEMENT = (
    ends("config_path", "ie_serving check --config_path {config}", "model m, version 2"),
    ends("list_models", "ie_serving --list_models --model_repository_path {repository}", "m"),
    ends(
        "model_repository_path",
        "ie_serving --add_to_config --model_repository_path {repository} --model_name m",
        "model m added",
        "as in `ovms`, `OVMS_MODEL_REPOSITORY_PATH` too",
    ),
    ends(
        "add_to_config",
        "ie_serving --add_to_config --config_path {new} --model_name m --model_path {repository}/m",
        "model m added",
        "a file with comments is not changed",
    ),
    ends(
        "remove_from_config",
        "ie_serving --remove_from_config --config_path {config} --model_name m",
        "model m removed",
        "a file with comments is not changed",
    ),
    no_effect("cache_size", "2", "it is of generative models; copies: `--cache_size_bytes`"),
    *(
        refused(word, given, _PULL, _PULL)
        for word, given in (
            ("pull", "true"),
            ("source_model", "OpenVINO/a"),
            ("source_loras", "a"),
            ("gguf_filename", "a.gguf"),
            ("overwrite_models", "true"),
            ("weight-format", "int8"),
            ("extra_quantization_params", "a"),
            ("vocoder", "a"),
            ("configure", "true"),
        )
    ),
    *(
        refused(word, given, _GENERATIVE, _GENERATIVE)
        for word, given in (
            ("task", "embeddings"),
            ("max_num_seqs", "4"),
            ("pipeline_type", "LM"),
            ("enable_prefix_caching", "true"),
            ("tool_parser", "a"),
            ("reasoning_parser", "a"),
            ("num_streams", "1"),
            ("normalize", "true"),
            ("truncate", "true"),
            ("pooling", "CLS"),
        )
    ),
)

VARIABLES = (
    taken("AWS_ACCESS_KEY_ID", "a", "storage.own.S3Options.access_key=a"),
    taken("AWS_SECRET_ACCESS_KEY", "b", "storage.own.S3Options.secret_key=b"),
    taken("AWS_SESSION_TOKEN", "c", "storage.own.S3Options.session_token=c"),
    taken("AWS_REGION", "eu-central-1", "storage.own.S3Options.region=eu-central-1"),
    taken(
        "S3_ENDPOINT",
        "minio:9000",
        "storage.own.S3Options.endpoint=http://minio:9000",
        "a [public](stores.md#encryption-on-the-way) address without a scheme is HTTPS",
    ),
    already("AWS_PROFILE", "p", "the same, by the library of AWS itself"),
    taken("GOOGLE_APPLICATION_CREDENTIALS", "/g", "storage.own.GcsOptions.credentials=/g"),
    already("http_proxy", "http://p", "the same, by the stores' own libraries; `https_proxy` too"),
    taken(
        "AZURE_STORAGE_CONNECTION_STRING",
        "AccountName=a;AccountKey=a2V5",
        "storage.own.AzureOptions.key=a2V5",
        "`az://` is read, `azfs://`, a file share, is refused",
    ),
    no_effect(
        "AZURE_STORAGE_USE_HTTP_PROXY", "true", "a proxy is used for requests of its own scheme"
    ),
    no_effect("GRPC_SERVERS", "2", "one event loop serves every gRPC call"),
    no_effect("DROGON_LOG_LEVEL", "DEBUG", "use `--log_level`"),
    no_effect("API_KEY", "a", "use `--api_key_file`"),
    already("OVMS_MEDIA_URL_ALLOW_REDIRECTS", "1", f"not read: {_GENERATIVE}"),
    already(
        "HF_TOKEN", "a", "not read: models are not pulled; the other variables of `--pull` too"
    ),
)
