"""Flags and variables of `ie_serving` 2020.3, of its wrapper AMS, and `DEVICE` of before."""

from tests.unit.config.migration.rows import already, ends, mapped, no_effect, taken

BASE = ("--model_name", "m", "--model_path", "/models/m", "--rest_port=8000")

_WORKERS = "`--workers`: processes, at most one for each processor; a warning says how many"
_OPENVINO = "models.ModelConfig.engine.own.OpenVinoOptions"

FLAGS = (
    ends(
        "config_path",
        "ie_serving check --config_path {config}",
        "model m, version 2",
        "read again when it changes; a wrong file ends the start with exit code 2",
    ),
    taken("port", "9001", "server.port=9001", "0 turns gRPC off"),
    taken("rest_port", "8001", "server.rest_port=8001", "a negative number is an error"),
    mapped("grpc_workers", "2", "server.workers=2", _WORKERS),
    mapped("rest_workers", "2", "server.workers=2", _WORKERS),
    mapped("max_workers", "2", "server.workers=2", f"of 2018; {_WORKERS}"),
    taken("model_name", "o", "models.ModelConfig.name=o"),
    taken("model_path", "gs://models/o", "models.ModelConfig.base_path=gs://models/o"),
    taken(
        "batch_size",
        "auto",
        f"{_OPENVINO}.batch_size=-1",
        "compiled once for any batch, not anew for each; in the file also a number",
    ),
    taken(
        "shape",
        '{"data": "(1,3,600,600)"}',
        f"{_OPENVINO}.shape={{'data': (1, 3, 600, 600)}}",
        "what is no shape is an error, no longer the model's own",
    ),
    taken(
        "model_version_policy",
        '{"latest": {"num_versions": 2}}',
        "models.ModelConfig.version_policy.num_versions=2",
        "`num_versions` is 1 or more",
    ),
    taken("nireq", "4", "models.ModelConfig.engine.nireq=4", "0 lets the engine choose"),
    taken("target_device", "HETERO:GPU,CPU", f"{_OPENVINO}.target_device=HETERO:GPU,CPU"),
    taken(
        "plugin_config",
        '{"CPU_THROUGHPUT_STREAMS": "2"}',
        f"{_OPENVINO}.plugin_config={{'CPU_THROUGHPUT_STREAMS': '2'}}",
        "keys of 2020 are translated; `AFFINITY` has no effect, with a warning",
    ),
)

VARIABLES = (
    taken("LOG_LEVEL", "DEBUG", "server.log_level=DEBUG", "also WARNING"),
    taken(
        "LOG_PATH",
        "/var/log/a.log",
        "server.log_path=/var/log/a.log",
        "a warning, and no file, where it cannot be written; the flag is then an error",
    ),
    taken(
        "FILE_SYSTEM_POLL_WAIT_SECONDS",
        "0.5",
        "server.poll_wait_s=0.5",
        "also between two looks at the file",
    ),
    taken(
        "CPU_EXTENSION",
        "README.md",
        f"{_OPENVINO}.cpu_extension=",
        "it must exist",
    ),
    taken(
        "SERIALIZATION_FUNCTION",
        "_prepare_output_as_AppendArrayToTensorProto",
        "server.tensor_content=False",
    ),
    taken("AWS_ACCESS_KEY_ID", "a", "storage.own.S3Options.access_key=a"),
    taken("AWS_SECRET_ACCESS_KEY", "b", "storage.own.S3Options.secret_key=b"),
    taken("AWS_REGION", "eu-central-1", "storage.own.S3Options.region=eu-central-1"),
    taken("S3_ENDPOINT", "http://h:9000", "storage.own.S3Options.endpoint=http://h:9000"),
    taken("S3_SIGNATURE", "s3v4", "storage.own.S3Options.signature=s3v4"),
    taken("GOOGLE_APPLICATION_CREDENTIALS", "/g", "storage.own.GcsOptions.credentials=/g"),
    already("http_proxy", "http://p", "the same, by the stores' own libraries"),
    already("https_proxy", "http://p", "the same, by the stores' own libraries"),
    already("no_proxy", "a", "the same, by the stores' own libraries"),
    no_effect("PLUGIN_DIR", "/p", "OpenVINO finds its plugins itself"),
    no_effect("REST_REQUESTS_QUEUE_SIZE", "100", "there is nothing in its place"),
    no_effect("ENGINE_REQUESTS_QUEUE_SIZE", "3", "use `--nireq`"),
    no_effect("ENGINE_REQUESTS_QUEUE_TIMEOUT", "5", "there is nothing in its place"),
    no_effect("DEVICE", "GPU", "use `--target_device`"),
    no_effect("OVMS_MODEL_DEVICES", "a=CPU", "use `--target_device`"),
)
