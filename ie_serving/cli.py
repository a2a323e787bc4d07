"""The command line `ie_serving {config,model} ...` to `Settings`.

What the command line says beats the file, the file beats the environment. What is wrong is all
reported together, as one `ConfigError`; arguments that cannot be told apart at all, `--help` and
`--version` end the process as `argparse` does (2, 0, 0).
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from ie_serving import __version__, config_source, values
from ie_serving.config_file import METRICS_PATH, ConfigFile
from ie_serving.engines.base import EngineOptions
from ie_serving.errors import ConfigError
from ie_serving.model_keys import KEYS, Key, model_config, nearest
from ie_serving.server_flags import (
    ALIASES,
    BOOLEAN,
    FLAGS,
    IGNORED,
    IGNORED_VARIABLES,
    VARIABLES,
    Flag,
)
from ie_serving.settings import ModelConfig, Parsed, ServerSettings, Settings
from ie_serving.values import Faults

CONFIG, MODEL = "config", "model"
CONFIG_PATH_MEANING = "configuration file, JSON or TensorFlow Serving's text form; it is watched"
CONFIG_PRECISION = next(key for key in KEYS if key.name == "inference_precision")
"""The one flag of a model that `config` takes as well: for entries that name no precision."""


@dataclass
class _Reading:
    """What is known while a command line is read."""

    given: Mapping[str, str]
    environ: Mapping[str, str]
    faults: Faults = field(default_factory=Faults)
    warnings: list[str] = field(default_factory=list)


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> Parsed:
    """Read the command line, the file it names, and the environment.

    Args:
        argv: without the program's name.
        environ: the process's environment.

    Raises:
        ConfigError: every fault, each with its flag, variable or JSON path.
        SystemExit: 0 after `--help` and `--version`, 2 when argparse cannot tell flags apart.
    """
    arguments, unknown = _parser().parse_known_args(_with_command(argv))
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    command = given.pop("command")
    reading = _Reading(given, environ)
    _note_unknown(unknown, command, reading)
    reading.warnings += _warnings(reading)
    server = dict(_server_values(reading))
    engine = _engine(server, command, reading)
    path, file = _models(command, engine, reading)
    settings = ServerSettings(**{**server, **_combined(server, file, reading)})
    _check_ports(settings, reading.faults)
    reading.faults.check()
    return Parsed(
        settings=Settings(server=settings, models=file.models, config_path=path, engine=engine),
        warnings=(*reading.warnings, *file.warnings),
    )


def version_text() -> str:
    """Give the versions of the server and of OpenVINO, without importing the latter."""
    try:
        return f"ie_serving {__version__}\nOpenVINO {metadata.version('openvino')}"
    except metadata.PackageNotFoundError:
        return f"ie_serving {__version__}\nOpenVINO is not installed"


def _with_command(argv: Sequence[str]) -> list[str]:
    """Put the command first where it is left out, as on OpenVINO Model Server's command line."""
    names = {argument.partition("=")[0] for argument in argv}
    if not argv or not argv[0].startswith("--"):
        return list(argv)
    if "--config_path" in names:
        return [CONFIG, *argv]
    return [MODEL, *argv] if names & {"--model_name", "--model_path"} else list(argv)


def _parser() -> argparse.ArgumentParser:
    """Build the parser. Every value stays text: parsers of `values` read it later."""
    parser = argparse.ArgumentParser(
        prog="ie_serving",
        description="Serve models over the TensorFlow Serving API (gRPC and REST) with OpenVINO.",
        epilog=_variables_text(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=version_text())
    commands = parser.add_subparsers(dest="command", required=True, metavar="{config,model}")
    several = commands.add_parser(CONFIG, help="serve the models of a configuration file")
    several.add_argument("--config_path", metavar="FILE", help=f"{CONFIG_PATH_MEANING} (required)")
    _add(several, CONFIG_PRECISION, " of models whose entry names none")
    single = commands.add_parser(MODEL, help="serve one model")
    for key in KEYS:
        if key.flag:
            _add(single, key)
    for command in (several, single):
        _add_server_flags(command)
    return parser


def _add(parser: argparse.ArgumentParser, key: Key, which: str = "") -> None:
    text = f"{key.meaning}{which} (default: {key.default})"
    text = text.replace("default: required", "required")
    parser.add_argument(f"--{key.flag}", dest=key.flag, metavar=key.form, help=text)


def _add_server_flags(parser: argparse.ArgumentParser) -> None:
    server = parser.add_argument_group("server")
    for flag in FLAGS:
        _add_server_flag(server, flag)
    other = parser.add_argument_group("for users of OpenVINO Model Server")
    for name, meaning in ALIASES.items():
        other.add_argument(f"--{name}", nargs="?", const="true", metavar="VALUE", help=meaning)
    dead = parser.add_argument_group("accepted without effect")
    for name, advice in IGNORED.items():
        dead.add_argument(f"--{name}", nargs="?", const="", metavar="VALUE", help=advice)


def _add_server_flag(group: "argparse._ArgumentGroup", flag: Flag) -> None:
    text = f"{flag.meaning} (default: {flag.default})"
    if flag.form == BOOLEAN:
        group.add_argument(f"--{flag.name}", nargs="?", const="true", metavar=flag.form, help=text)
    else:
        group.add_argument(f"--{flag.name}", metavar=flag.form, help=text)


def _variables_text() -> str:
    lines = [f"  {variable.name}: as --{variable.flag}" for variable in VARIABLES]
    return "\n".join(["environment, where the flag is not given:", *lines])


def known_flags(command: str) -> list[str]:
    """Name every flag of `config` or `model`, without dashes."""
    keys = [key.flag for key in KEYS if key.flag]
    own = ["config_path", CONFIG_PRECISION.flag] if command == CONFIG else keys
    return [*own, *(flag.name for flag in FLAGS), *ALIASES, *IGNORED]


def _note_unknown(unknown: Sequence[str], command: str, reading: _Reading) -> None:
    """Report what argparse left over; a value that follows an unknown flag is part of it."""
    flags = [argument for argument in unknown if argument.startswith("-")]
    known = [f"--{name}" for name in known_flags(command)]
    for argument in flags or unknown:
        name = argument.partition("=")[0]
        reading.faults.add(name, f"unknown argument of ie_serving {command}{nearest(name, known)}")


def _warnings(reading: _Reading) -> Iterator[str]:
    """Name what was given and has no effect."""
    for name, advice in IGNORED.items():
        if name in reading.given:
            yield f"--{name} has no effect: {advice}"
    for name, advice in IGNORED_VARIABLES.items():
        if reading.environ.get(name):
            yield f"environment variable {name} has no effect: {advice}"


def _server_values(reading: _Reading) -> Iterator[tuple[str, Any]]:
    """Yield field and value of each server flag or variable that is given and right."""
    variables = {variable.flag: variable for variable in VARIABLES}
    for flag in FLAGS:
        variable = variables.get(flag.name)
        if flag.name in reading.given:
            text, parse, place = reading.given[flag.name], flag.parse, f"--{flag.name}"
        elif variable and reading.environ.get(variable.name):
            text, parse, place = reading.environ[variable.name], variable.parse, variable.name
        else:
            continue
        value = reading.faults.take(parse, text, place)
        if value is not None:
            yield flag.field, value


def _engine(server: Mapping[str, Any], command: str, reading: _Reading) -> EngineOptions:
    """Give the options that hold for every model; a cache that was named keeps compiled ones."""
    cache = server.get("cache_dir")
    given = reading.given.get(CONFIG_PRECISION.flag) if command == CONFIG else None
    precision = None
    if given is not None:
        precision = reading.faults.take(CONFIG_PRECISION.parse, given, f"--{CONFIG_PRECISION.flag}")
    return EngineOptions(
        inference_precision=precision or "", cache_dir=cache / "compiled" if cache else None
    )


def _models(
    command: str, engine: EngineOptions, reading: _Reading
) -> tuple[Path | None, ConfigFile]:
    """Read the models from the file or from the flags; none when there are faults."""
    if command == CONFIG:
        return _from_file(engine, reading)
    models, warnings = _from_flags(engine, reading)
    return None, ConfigFile(models=models, warnings=tuple(warnings))


def _from_file(engine: EngineOptions, reading: _Reading) -> tuple[Path | None, ConfigFile]:
    path = reading.given.get("config_path")
    if not path:
        reading.faults.add("--config_path", f"missing; expected the {CONFIG_PATH_MEANING}")
        return None, ConfigFile(models=())
    absolute = Path(path).absolute()
    try:
        return absolute, config_source.read(absolute, engine)
    except ConfigError as error:
        reading.faults.found.extend(error.faults)
        return None, ConfigFile(models=())


def _from_flags(
    engine: EngineOptions, reading: _Reading
) -> tuple[tuple[ModelConfig, ...], list[str]]:
    found: dict[str, Any] = {}
    before = len(reading.faults.found)
    for key in (key for key in KEYS if key.flag):
        text, place = reading.given.get(key.flag), f"--{key.flag}"
        if text is not None:
            found[key.name] = reading.faults.take(key.parse, text, place)
        elif key.required:
            reading.faults.add(place, f"missing; expected the {key.meaning}")
    if len(reading.faults.found) > before:
        return (), []
    found["base_path"] = values.resolved(found["base_path"], Path.cwd())
    model, warnings = model_config(found, engine)
    return (model,), warnings


def _combined(server: Mapping[str, Any], file: ConfigFile, reading: _Reading) -> dict[str, Any]:
    """Give the fields that follow from more than one flag."""
    combined: dict[str, Any] = {"host": server.get("host", _bind_address(server, reading))}
    if "poll_wait_s" in server:
        combined["config_poll_wait_s"] = server.get("config_poll_wait_s", server["poll_wait_s"])
    if "metrics_path" not in server and _metrics_enabled(file, reading):
        combined["metrics_path"] = METRICS_PATH
    return combined


def _metrics_enabled(file: ConfigFile, reading: _Reading) -> bool:
    given = reading.given.get("metrics_enable")
    if given is None:
        return file.metrics
    return bool(reading.faults.take(values.boolean, given, "--metrics_enable"))


def _bind_address(server: Mapping[str, Any], reading: _Reading) -> str:
    """Take the one address out of the two flags of OpenVINO Model Server."""
    names = [name for name in ("grpc_bind_address", "rest_bind_address") if name in reading.given]
    found = {
        reading.faults.take(values.address, reading.given[name], f"--{name}") for name in names
    }
    both_ports = server.get("port", 1) and server.get("rest_port", 0)
    if len(found) > 1 or (len(names) == 1 and both_ports):
        reading.faults.add(
            f"--{names[0]}", "one address serves both ports; give --host, or both flags alike"
        )
    return next(iter(found), None) or ""


def _check_ports(settings: ServerSettings, faults: Faults) -> None:
    if not settings.port and not settings.rest_port:
        faults.add("--port", "port and rest_port cannot both be unset; turn one on")
    elif settings.port == settings.rest_port:
        faults.add("--rest_port", "port and rest_port cannot have the same values; change one")
    if settings.metrics_path and not settings.rest_port:
        faults.add("--metrics_path", "metrics are served on the REST port; give --rest_port")
