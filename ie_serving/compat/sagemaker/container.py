"""`ie_serving serve`, as Amazon SageMaker starts a container: everything comes by the environment.

The models are those of the archive that SageMaker has unpacked. Flags of `ie_serving model` may
follow, and hold for all of them. Source: SageMaker's documentation of custom inference code, and
the variables of its TensorFlow Serving container.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ie_serving.config.dialects import ie_serving
from ie_serving.config.settings import ParsedCommandLine
from ie_serving.core.values.errors import ConfigError

MODEL_DIR: Final = "/opt/ml/model"
PORT: Final = "8080"
DEEPEST: Final = 4
"""Directories within each other in which models are looked for; `export/Servo` is two."""
MOST_LOOKED_AT: Final = 10_000
"""Directories that are looked at: assets of a model may be as many files as they like."""

PORT_VARIABLE: Final = "SAGEMAKER_BIND_TO_PORT"
RANGE: Final = "SAGEMAKER_SAFE_PORT_RANGE"
COUNT: Final = "SAGEMAKER_TFS_INSTANCE_COUNT"
LEVEL: Final = "SAGEMAKER_CONTAINER_LOG_LEVEL"
BATCHING: Mapping[str, str] = {
    "SAGEMAKER_TFS_MAX_BATCH_SIZE": "max_batch_size",
    "SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS": "batch_timeout_micros",
    "SAGEMAKER_TFS_NUM_BATCH_THREADS": "num_batch_threads",
    "SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES": "max_enqueued_batches",
}
"""Flags by the variables that count with `SAGEMAKER_TFS_ENABLE_BATCHING`."""
_BATCH: Mapping[str, str] = {"max_batch_size": "8", "batch_timeout_micros": "1000"}
"""Their defaults in SageMaker's container."""

DEAD: Mapping[str, str] = {
    "SAGEMAKER_TFS_INTER_OP_PARALLELISM": "the engine chooses; plugin_config says otherwise",
    "SAGEMAKER_TFS_INTRA_OP_PARALLELISM": "the engine chooses; plugin_config says otherwise",
    "SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN": "the engine takes what it needs",
    "SAGEMAKER_GUNICORN_WORKERS": "no Python service stands in between",
    "SAGEMAKER_GUNICORN_THREADS": "no Python service stands in between",
    "SAGEMAKER_TFS_NGINX_LOGLEVEL": "no nginx stands in between; --log_level is the server's",
}
_LEVELS: Mapping[str, str] = {"10": "DEBUG", "20": "INFO", "30": "WARNING", "40": "ERROR"}
"""Python's numbers, which SAGEMAKER_CONTAINER_LOG_LEVEL has."""

_VARIABLES: Mapping[str, str] = {"rest_port": PORT_VARIABLE, "port": RANGE, "workers": COUNT}
"""Others, by flag."""
_PORT: Final = re.compile(r"[1-9][0-9]*")


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> ParsedCommandLine:
    """Read the environment, and the flags behind the command.

    Args:
        argv: arguments of the process, the command included.
        environ: the process's environment.

    Raises:
        ConfigError: there is no model, or a variable asks for something that this server lacks.
    """
    root = Path(environ.get("SAGEMAKER_MODEL_DIR") or MODEL_DIR)
    if faults := list(_missing(root, environ)):
        raise ConfigError(faults)
    found = _by_name(sorted(_models(root)))
    if not found:
        raise ConfigError([f"{root}: no model; expected versions, such as export/Servo/1"])
    name = environ.get("SAGEMAKER_TFS_DEFAULT_MODEL_NAME") or next(iter(found))
    if name not in found:
        raise ConfigError(
            [f"SAGEMAKER_TFS_DEFAULT_MODEL_NAME: {name} given; expected {', '.join(found)}"]
        )
    try:
        parsed = ie_serving.parse(_line(name, found[name], environ, argv[1:]), environ)
    except ConfigError as error:
        raise ConfigError([_of_variable(fault, argv[1:]) for fault in error.faults]) from None
    (model,) = parsed.settings.models
    models = tuple(
        replace(model, name=each, base_path=str(path.absolute())) for each, path in found.items()
    )
    warnings = [
        f"environment variable {name} has no effect: {why}"
        for name, why in DEAD.items()
        if environ.get(name)
    ]
    return replace(
        parsed,
        settings=replace(parsed.settings, models=models),
        warnings=(*parsed.warnings, *warnings),
    )


def _by_name(paths: Sequence[Path]) -> Mapping[str, Path]:
    found = {path.name: path for path in sorted(paths, key=lambda path: path.name)}
    for path in paths:
        if found[path.name] != path:
            raise ConfigError(
                [f"{path} and {found[path.name]}: two models are named {path.name}; rename one"]
            )
    return found


def _line(name: str, path: Path, environ: Mapping[str, str], flags: Sequence[str]) -> Sequence[str]:
    """Write the line of `ie_serving model` for one model."""
    given = {
        "model_name": name,
        "model_path": str(path),
        # That container names each version that there is.
        "model_version_policy": '{"all": {}}',
        "invocations_model": name,
        "rest_port": environ.get(PORT_VARIABLE) or PORT,
        **_grpc(environ),
    }
    if count := environ.get(COUNT):
        given["workers"] = count
    if level := environ.get(LEVEL):
        given["log_level"] = _LEVELS[level]
    if environ.get("SAGEMAKER_TFS_ENABLE_BATCHING", "").lower() == "true":
        own = {flag: environ[each] for each, flag in BATCHING.items() if environ.get(each)}
        given |= {**_BATCH, **own}
    return ["model", *(f"--{flag}={value}" for flag, value in given.items()), *flags]


def _of_variable(fault: str, flags: Sequence[str]) -> str:
    """Blame the variable that a value is of, and not the flag that it was made."""
    variables = {**{flag: each for each, flag in BATCHING.items()}, **_VARIABLES}
    for flag, variable in variables.items():
        is_given = any(each.partition("=")[0] == f"--{flag}" for each in flags)
        if fault.startswith(f"--{flag}: ") and not is_given:
            return variable + fault.removeprefix(f"--{flag}")
    return fault


def _grpc(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Give the gRPC port: the first of the range that the container may use, for this host alone.

    Without a range there is none, since SageMaker sends HTTP.
    """
    port = environ.get(RANGE, "").partition("-")[0].strip()
    return {"port": port, "grpc_bind_address": "127.0.0.1"} if port else {"port": "0"}


def _missing(root: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Name the variables and files of SageMaker's containers that this server does not support."""
    if environ.get("SAGEMAKER_MULTI_MODEL", "").lower() == "true":
        yield (
            "SAGEMAKER_MULTI_MODEL: true given; expected false: endpoints of several models, which"
            " load them while they run, are not served; put several into one archive"
        )
    level = environ.get(LEVEL)
    if level and level not in _LEVELS:
        yield f"{LEVEL}: {level} given; expected {', '.join(_LEVELS)}"
    port = environ.get(PORT_VARIABLE)
    if port and not _PORT.fullmatch(port):
        yield f"{PORT_VARIABLE}: {port} given; expected a port, such as {PORT}"
    script = root / "code" / "inference.py"
    if script.exists():
        yield (
            f"{script}: handlers of SageMaker's container are not run, and answers would be others"
            " than theirs: remove them, or make them hooks of the model (docs/guide/hooks.md)"
        )


def _models(root: Path) -> Iterator[Path]:
    """Find the directories that have versions."""
    looked, waiting = 0, [(root, 0)]
    while waiting and looked < MOST_LOOKED_AT:
        path, depth = waiting.pop()
        looked += 1
        try:
            inside = [each for each in path.iterdir() if each.is_dir()]
        except OSError:
            continue
        if any(each.name.isascii() and each.name.isdecimal() for each in inside):
            yield path
        elif depth < DEEPEST:
            waiting += [(each, depth + 1) for each in inside]
