"""Parses the command line `tensorflow_model_server` of TensorFlow Serving to `Settings`.

The texts and exit codes are the original's. Source: main.cc and server.cc of TensorFlow Serving;
the environment is that of its image's entry point.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import metadata
from typing import Any, NoReturn

from ie_serving import __version__
from ie_serving.config.dialects import environment
from ie_serving.config.dialects.tfs_flags import (
    BY_NAME,
    READ,
    FlagValue,
    SplitCommandLine,
    split,
    usage,
)
from ie_serving.config.files import source
from ie_serving.config.schema.catalogue import SERVER, names_in_tensorflow_model_server
from ie_serving.config.settings import ParsedCommandLine, ServerSettings, Settings
from ie_serving.core.settings import numbers, structures, words
from ie_serving.core.settings.declaration import fields_of
from ie_serving.core.settings.faults import Faults
from ie_serving.core.settings.numbers import LARGEST_PORT
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.layer_options import Batching
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.tensorflow.options import TensorFlowOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.storage.options import StorageOptions

EXIT_CODE = 255
"""Exit code of every failure: -1 in the original."""

ENTRY_POINT_VARIABLES: Mapping[str, str] = {
    "MODEL_NAME": "model_name, where the flag is not given",
    "MODEL_BASE_PATH": "with MODEL_NAME: the directory above model_base_path",
}
CONFIG_FILE = "model_config_file"
BATCHING_FILE = "batching_parameters_file"
MONITORING_FILE = "monitoring_config_file"
PER_MODEL = "enable_per_model_batching_parameters"
TLS_PORTS = "server.tls_ports"
TOLERANCE = "precision_tolerance"
UNUSED_FILES = (
    "tensorflow_session_config_file",
    "platform_config_file",
    "thread_pool_factory_config_file",
)
FILES = (CONFIG_FILE, BATCHING_FILE, MONITORING_FILE, *UNUSED_FILES)


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> ParsedCommandLine:
    """Read the command line, the files it names, and the environment.

    Args:
        argv: arguments without the program's name.
        environ: the process's environment.

    Raises:
        SystemExit: 0 after `--version` and `--help`; 255 after printing the faults.
    """
    flags = _flags(argv)
    # A missing file is checked first: it has an exit code of its own in the original.
    faults = Faults()
    storage = environment.storage_options(environ, faults)
    files, texts = _files(flags, storage)
    try:
        return _parsed(flags, files.get(CONFIG_FILE), texts, environ, storage, faults)
    except ConfigError as error:
        fail(f"INVALID_ARGUMENT: {error}", error.faults)


def fail(status: str, faults: Sequence[str] = ()) -> NoReturn:
    """End the process as the original does when it cannot start.

    Args:
        status: `<CODE>: <text>`; on standard output, as in the original.
        faults: each on a line of standard error, where the original logs what it cannot parse.
    """
    for fault in faults:
        print(f"tensorflow_model_server: error: {fault}", file=sys.stderr)
    print(f"Failed to start server. Error: {status}", flush=True)
    raise SystemExit(EXIT_CODE)


def version_text() -> str:
    """Give the two lines of `--version`."""
    try:
        openvino = f"OpenVINO {metadata.version('openvino')}"
    except metadata.PackageNotFoundError:
        openvino = "not installed"
    return f"TensorFlow ModelServer: {__version__} (ie_serving)\nTensorFlow Library: {openvino}"


def _flags(argv: Sequence[str]) -> SplitCommandLine:
    """Split the arguments, and print the original's texts about them."""
    if "--help" in argv[:1]:
        print(usage())
        raise SystemExit(0)
    flags = split(argv)
    if flags.unreadable:
        print("\n".join([*flags.unreadable, usage()]), flush=True)
        raise SystemExit(EXIT_CODE)
    if flags.on("version"):
        print(version_text())
        raise SystemExit(0)
    if flags.unknown:
        lines = [f"unknown argument: {argument}" for argument in flags.unknown]
        print("\n".join([*lines, usage()]), flush=True)
    return flags


def _files(
    flags: SplitCommandLine, storage: StorageOptions
) -> tuple[dict[str, source.ConfigPath], dict[str, str]]:
    """Find and read the files that flags name; both by flag."""
    files: dict[str, source.ConfigPath] = {}
    texts: dict[str, str] = {}
    for name in FILES:
        path = flags.text(name)
        try:
            files |= {name: source.at(path, storage)} if path else {}
            texts |= {name: source.read_text(files[name])} if path else {}
        except ConfigError as error:
            # The code and words of the original, which scripts look for in its output.
            missing = isinstance(error.__cause__, FileNotFoundError)
            not_found = f"NOT_FOUND: {path}; No such file or directory"
            fail(not_found if missing else f"INVALID_ARGUMENT: {error}", error.faults)
    return files, texts


def _parsed(
    flags: SplitCommandLine,
    config: source.ConfigPath | None,
    texts: Mapping[str, str],
    environ: Mapping[str, str],
    storage: StorageOptions,
    faults: Faults,
) -> ParsedCommandLine:
    faults.found += [*_conflicts(flags), *_port_faults(flags)]
    _check_unused(flags, texts, faults)
    engine = _engine(flags, faults).having(_batching(flags, texts, faults))
    # The original has no flag for these, so the variables of `ie_serving` are all there is.
    variables = environment.read([each for each in SERVER if not each.tfs], environ, faults)
    metrics = _metrics(flags, texts, faults)
    if config:
        models = _file_models(config, texts[CONFIG_FILE], engine, faults)
    else:
        models = _flag_models(flags, environ, engine, faults)
    faults.check()
    config_path = config.absolute() if config else None
    ports, open_ports = _encrypted_ports(flags, variables)
    server = _server(flags, metrics, fields_of("server", ports | variables))
    return ParsedCommandLine(
        settings=Settings(server=server, models=models, config_path=config_path, engine=engine),
        storage=storage,
        warnings=(*open_ports, *_warnings(flags, texts), *environment.warnings(environ)),
        names=names_in_tensorflow_model_server(),
        only_check=flags.on("dry_run"),
    )


def _conflicts(flags: SplitCommandLine) -> Iterator[str]:
    """Name flags that exclude each other or that would promise a security there is not."""
    if flags.text(BATCHING_FILE) and not flags.on("enable_batching"):
        yield (
            "server_options.batching_parameters_file is set without setting "
            "server_options.enable_batching to true."
        )
    # To accept ALTS and answer in plain text would promise encryption.
    if flags.on("use_alts_credentials"):
        yield (
            "use_alts_credentials is set, but this server does not speak ALTS: encrypt by "
            "ssl_config_file"
        )
    separate = ("tensorflow_intra_op_parallelism", "tensorflow_inter_op_parallelism")
    if flags.integer("tensorflow_session_parallelism") > 0 and any(map(flags.integer, separate)):
        yield (
            "Either configure server_options.tensorflow_session_parallelism or "
            "(server_options.tensorflow_intra_op_parallelism, "
            "server_options.tensorflow_inter_op_parallelism) separately. "
            "You cannot configure all."
        )


def _check_unused(flags: SplitCommandLine, texts: Mapping[str, str], faults: Faults) -> None:
    """Tell the faults of files that have no effect here."""
    for name in UNUSED_FILES:
        if name in texts:
            from ie_serving.config.files.option_files import check_session

            faults.take(partial(check_session, name), texts[name], flags.text(name))


NO_GRPC_PORT = (
    "At least one of server_options.grpc_port or server_options.grpc_socket_path must be set."
)
"""The original's words."""


def _port_faults(flags: SplitCommandLine) -> Iterator[str]:
    port, rest_port = flags.integer("port"), flags.integer("rest_api_port")
    for name, given in (("port", port), ("rest_api_port", rest_port)):
        if not 0 <= given <= LARGEST_PORT:
            yield f"--{name}: {given} given; expected a whole number from 0 to {LARGEST_PORT}"
    if not port and not flags.text("grpc_socket_path"):
        yield NO_GRPC_PORT
    elif port and port == rest_port:
        yield f"--rest_api_port: {port} is the gRPC port already; change one"
    if flags.integer("rest_api_timeout_in_ms") <= 0:
        yield "--rest_api_timeout_in_ms: expected more than 0 milliseconds"


def _engine(flags: SplitCommandLine, faults: Faults) -> EngineOptions:
    """Give the options for every model: full precision by default, as the original."""
    # f32 is the default: OpenVINO would choose bf16 on processors that have it, and answers would
    # differ from those of the original in the third digit.
    precisions = {"": "f32", "bfloat16": "bf16", "auto": "auto"}
    given = flags.text("mixed_precision")
    if given not in precisions:
        faults.add(
            "--mixed_precision", f"{given} given; expected bfloat16, auto, or nothing for f32"
        )
    # Both say the threads of one inference; `_conflicts` lets only one of them be set.
    threads = max(
        flags.integer("tensorflow_session_parallelism"),
        flags.integer("tensorflow_intra_op_parallelism"),
    )
    openvino = OpenVinoOptions(
        inference_precision=precisions.get(given, ""),
        precision_tolerance=faults.take(numbers.share, flags.value(TOLERANCE), f"--{TOLERANCE}")
        or 0.0,
        plugin_config={"INFERENCE_NUM_THREADS": str(threads)} if threads > 0 else {},
        prefer_tflite_model=flags.on("prefer_tflite_model"),
    )
    paths = flags.text("custom_op_paths")
    place = "--custom_op_paths"
    tensorflow = TensorFlowOptions(
        fallback=flags.on("tensorflow_fallback"),
        custom_op_paths=(faults.take(words.files, paths, place) or ()) if paths else (),
        memory_bytes=max(flags.integer("tensorflow_memory_bytes"), 0),
    )
    options = EngineOptions(
        allow_pickle=flags.on("allow_pickle"),
        allow_python=flags.on("allow_python"),
        saved_model_tags=tuple(filter(None, flags.text("saved_model_tags").split(","))),
    )
    return options.having(openvino).having(tensorflow)


def _batching(flags: SplitCommandLine, texts: Mapping[str, str], faults: Faults) -> Batching:
    """Give the batching options for every model; off without `--enable_batching`."""
    if not flags.on("enable_batching"):
        return Batching()
    from ie_serving.config.files import option_files

    place = flags.text(BATCHING_FILE)
    given = faults.take(option_files.batching_of, texts.get(BATCHING_FILE, ""), place)
    if given is None or not flags.on(PER_MODEL):
        return given or Batching()
    return Batching(in_version=True, num_batch_threads=given.num_batch_threads)


def _metrics(flags: SplitCommandLine, texts: Mapping[str, str], faults: Faults) -> dict[str, str]:
    """Give the settings that the monitoring file decides: where the metrics are beside /metrics."""
    if MONITORING_FILE not in texts:
        return {}
    # Imported on first use: a server without such files does not load protobuf.
    from ie_serving.config.files import option_files

    place = flags.text(MONITORING_FILE)
    path = faults.take(option_files.metrics_path, texts[MONITORING_FILE], place)
    return {"monitoring_path": path} if path else {"metrics_path": ""}


def _file_models(
    file: source.ConfigPath, text: str, engine: EngineOptions, faults: Faults
) -> tuple[ModelConfig, ...]:
    def models(text: str, _: str) -> tuple[ModelConfig, ...]:
        return source.parse(text, file, engine).models

    return faults.take(models, text, str(file)) or ()


def _flag_models(
    flags: SplitCommandLine, environ: Mapping[str, str], engine: EngineOptions, faults: Faults
) -> tuple[ModelConfig, ...]:
    """Make the one model of the flags or the environment, checked as one of a file."""
    from ie_serving.config.files.graph_directories import alone
    from ie_serving.config.files.json_file import graph_alone
    from ie_serving.config.files.text_proto import TENSORFLOW, from_message
    from ie_serving.wire.protobuf import messages

    base_path = _base_path(flags, environ)
    if not base_path:
        faults.found.append(
            "Both server_options.model_base_path and server_options.model_config_file are empty!"
        )
        return ()
    graph = alone(_name(flags, environ), base_path)
    if graph is not None:
        file = faults.take(partial(graph_alone, engine=engine), graph, "--model_base_path")
        return file.models if file else ()
    message = messages.ModelServerConfig()
    message.model_config_list.config.add(
        name=_name(flags, environ), base_path=base_path, model_platform=TENSORFLOW
    )
    return faults.take(lambda given, _: from_message(given, engine), message, "") or ()


def _name(flags: SplitCommandLine, environ: Mapping[str, str]) -> str:
    if "model_name" in flags.given:
        return flags.text("model_name")
    return environ.get("MODEL_NAME") or flags.text("model_name")


def _base_path(flags: SplitCommandLine, environ: Mapping[str, str]) -> str:
    """Source: `--model_base_path=${MODEL_BASE_PATH}/${MODEL_NAME}` of the image's entry point."""
    parent, name = environ.get("MODEL_BASE_PATH"), environ.get("MODEL_NAME")
    if "model_base_path" in flags.given or not parent or not name:
        return flags.text("model_base_path")
    return f"{parent}/{name}"


def _server(
    flags: SplitCommandLine, metrics: Mapping[str, str], variables: Mapping[str, Any]
) -> ServerSettings:
    """Give the settings of the server.

    Args:
        flags: flags as given.
        metrics: fields that the monitoring file decides.
        variables: fields of the settings that only the environment gives.
    """
    named = [
        setting
        for setting in SERVER
        if setting.owner == "server" and setting.tfs and setting.tfs not in FILES
    ]
    given = {
        setting.field: READ.get(setting.tfs, _same)(flags.value(setting.tfs)) for setting in named
    }
    structures.settle(given, ServerSettings.grpc_transport)
    return ServerSettings(
        **{**given, **variables, **metrics},
        announce_as_tfs=True,
        takes_grpc_socket=True,
        rest_metadata="snake",
        page=False,  # the original answers 404 there
        # The original waits for a base path that does not exist yet.
        allow_unavailable_models=True,
        require_available=True,
    )


def _encrypted_ports(
    flags: SplitCommandLine, variables: Mapping[str, Any]
) -> tuple[dict[str, str], list[str]]:
    """Give the ports that `ssl_config_file` encrypts, as in the original, and a warning or none."""
    if not flags.text("ssl_config_file") or TLS_PORTS in variables:
        return {}, []
    warning = (
        "--ssl_config_file encrypts gRPC alone, as in TensorFlow Serving; REST is plain:"
        " TLS_PORTS=both in the environment encrypts it, too"
    )
    return {TLS_PORTS: "grpc"}, [warning] if flags.integer("rest_api_port") else []


def _same(value: FlagValue) -> FlagValue:
    return value


def _warnings(flags: SplitCommandLine, texts: Mapping[str, str]) -> Iterator[str]:
    """Name the flags that have no effect, once."""
    dead = [f"--{name}" for name in flags.given if not BY_NAME[name].meaning]
    if dead:
        yield f"flags without meaning here are ignored: {', '.join(dead)}"
    arguments = READ["grpc_channel_arguments"](flags.text("grpc_channel_arguments"))
    yield from structures.settle(
        {"grpc_channel_arguments": arguments}, ServerSettings.grpc_transport
    )
    if BATCHING_FILE in texts:
        from ie_serving.config.files import option_files

        yield from option_files.unmet_batching(texts[BATCHING_FILE], flags.text(BATCHING_FILE))
    if flags.on(PER_MODEL) and not flags.on("enable_batching"):
        yield f"--{PER_MODEL} has no effect without --enable_batching"
    if flags.text(MONITORING_FILE) and not flags.integer("rest_api_port"):
        yield "--monitoring_config_file has no effect: metrics need --rest_api_port"
