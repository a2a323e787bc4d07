"""Flags of TensorFlow Serving 2.21, and variables of its image. Source: main.cc, entry point."""

from tests.unit.config.migration.rows import already, ends, no_effect, refused, taken

BASE = ("--model_base_path=/models/m",)
"""What the other flags stand beside."""

_GPU = "this server computes on the CPU, or on the device of the configuration"
_RETRIES = "a load that fails is tried again for as long as it is wanted, ever more rarely"
_SESSION = "there is no session: OpenVINO computes"
_FILE = f"{_SESSION}; a file with faults, or fields that change answers, is refused"

FLAGS = (
    taken("port", "8600", "server.port=8600"),
    taken(
        "grpc_socket_path",
        "/run/s",
        "server.grpc_socket_path=/run/s",
        "replaces the socket of a running server once this one serves, with a warning",
    ),
    taken("rest_api_port", "8501", "server.rest_port=8501"),
    no_effect("rest_api_num_threads", "4", "one event loop serves every call"),
    taken("rest_api_timeout_in_ms", "1500", "server.rest_timeout_s=1.5"),
    taken("rest_api_enable_cors_support", "true", "server.enable_cors=True"),
    taken(
        "enable_batching",
        "true",
        "engine.own.Batching.max_batch_size=1000",
        "for each model and signature; [batching](batching.md) has what differs",
    ),
    taken(
        "batching_parameters_file",
        "config/batching_parameters.pbtxt",
        "engine.own.Batching.batch_timeout_micros=1000",
        "needs `--enable_batching`, as in the original",
        "--enable_batching=true",
    ),
    taken(
        "enable_per_model_batching_parameters",
        "true",
        "engine.own.Batching.in_version=True",
        "",
        "--enable_batching=true",
    ),
    taken(
        "allow_version_labels_for_unavailable_models", "true", "server.labels_for_unavailable=True"
    ),
    taken(
        "model_config_file",
        "config/model_server_config.pbtxt",
        "models.ModelConfig.version_policy.num_versions=2",
        "`model_platform` is `tensorflow` or `openvino`",
    ),
    taken("model_config_file_poll_wait_seconds", "60", "server.config_poll_wait_s=60.0"),
    taken("model_name", "m", "models.ModelConfig.name=m"),
    taken("model_base_path", "/models/n", "models.ModelConfig.base_path=/models/n"),
    taken("num_load_threads", "4", "server.load_threads=4", "0 takes 2"),
    no_effect("num_unload_threads", "4", "a version that is unloaded holds no other one up"),
    no_effect("max_num_load_retries", "1", _RETRIES),
    no_effect("load_retry_interval_micros", "1000", _RETRIES),
    taken("file_system_poll_wait_seconds", "10", "server.poll_wait_s=10.0", "less than 0 is as 0"),
    no_effect("flush_filesystem_caches", "false", "nothing is flushed"),
    taken(
        "tensorflow_session_parallelism",
        "2",
        "engine.own.OpenVinoOptions.plugin_config={'INFERENCE_NUM_THREADS': '2'}",
        "threads of one inference",
    ),
    taken(
        "tensorflow_intra_op_parallelism",
        "2",
        "engine.own.OpenVinoOptions.plugin_config={'INFERENCE_NUM_THREADS': '2'}",
        "threads of one inference",
    ),
    no_effect("tensorflow_inter_op_parallelism", "2", _SESSION),
    no_effect("tensorflow_session_config_file", "/dev/null", _FILE),
    refused("use_alts_credentials", "true", "there is no ALTS; `--ssl_config_file` encrypts"),
    taken(
        "ssl_config_file",
        "ssl.pbtxt",
        "server.ssl_config_file=ssl.pbtxt",
        "for gRPC alone, as in the original; `TLS_PORTS=both` in the environment adds REST",
    ),
    no_effect("platform_config_file", "/dev/null", _FILE),
    no_effect("per_process_gpu_memory_fraction", "0.5", _GPU),
    taken(
        "saved_model_tags",
        "serve,gpu",
        "models.ModelConfig.engine.saved_model_tags=('serve', 'gpu')",
        "where no graph has these alone, one that has others too",
    ),
    taken(
        "grpc_channel_arguments",
        "grpc.max_connection_age_ms=2000",
        "server.grpc_max_connection_age_s=2.0",
        "age, its grace and idle time; all others need `--grpc_transport grpcio` of `ie_serving`",
    ),
    no_effect("grpc_max_threads", "8", "one event loop serves every call"),
    taken("enable_model_warmup", "false", "server.warmup=False"),
    taken("num_request_iterations_for_warmup", "3", "server.warmup_iterations=3"),
    ends("version", "tensorflow_model_server --version", "TensorFlow ModelServer: "),
    taken(
        "monitoring_config_file",
        "config/monitoring_config.pbtxt",
        "server.monitoring_path=/monitoring/prometheus/metrics",
        "beside `/metrics`, which is on by default",
        "--rest_api_port=8501",
    ),
    no_effect("remove_unused_fields_from_bundle_metagraph", "false", _SESSION),
    taken("prefer_tflite_model", "true", "engine.own.OpenVinoOptions.prefer_tflite_model=True"),
    no_effect("num_tflite_pools", "2", "OpenVINO runs TensorFlow Lite"),
    no_effect("num_tflite_interpreters_per_pool", "2", "OpenVINO runs TensorFlow Lite"),
    taken("enable_signature_method_name_check", "true", "server.method_name_check=True"),
    no_effect("xla_cpu_compilation_enabled", "true", "OpenVINO compiles every model"),
    no_effect("xla_gpu_compilation_enabled", "true", _GPU),
    taken(
        "enable_profiler",
        "false",
        "server.enable_profiler=False",
        "a trace has the requests and their stages, and the client writes it",
    ),
    no_effect("thread_pool_factory_config_file", "/dev/null", _FILE),
    taken(
        "mixed_precision",
        "bfloat16",
        "engine.own.OpenVinoOptions.inference_precision=bf16",
        "`auto` as well: a lower precision where that costs little",
    ),
    no_effect("skip_initialize_tpu", "true", "there is no TPU"),
    already("enable_grpc_healthcheck_service", "true", "always on"),
    taken("enable_serialization_as_tensor_content", "true", "server.tensor_content=True"),
)

VARIABLES = (
    taken("MODEL_NAME", "n", "models.ModelConfig.name=n", "where the flag is not given"),
    taken(
        "MODEL_BASE_PATH",
        "/data",
        "models.ModelConfig.base_path=/data/n",
        "with `MODEL_NAME`: the directory above; a flag that is given beats it",
    ),
)
