"""Parses the command line `ie_serving {config,model,check,tune} ...` to `Settings`.

The command line takes precedence over the file, the file over the environment. All faults are
reported together, as one `ConfigError`; arguments that argparse cannot split, `--help` and
`--version` end the process as `argparse` does (2, 0, 0).
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ie_serving.config.dialects import environment, ovms
from ie_serving.config.dialects.own_flags import (
    CHECK,
    CONFIG,
    JSON,
    LENIENT,
    MODEL_COMMAND,
    OWN_FLAGS,
    TUNE_COMMAND,
    known_flags,
    names,
    with_underscores,
)
from ie_serving.config.dialects.own_help import parser
from ie_serving.config.files import source
from ie_serving.config.files.graph_directories import alone
from ie_serving.config.files.json_file import METRICS_PATH, ConfigFile, graph_alone
from ie_serving.config.schema import contradictions, foreign
from ie_serving.config.schema.catalogue import (
    CONFIG_PATH,
    FOR_ALL,
    MODEL,
    MODEL_REPOSITORY,
    SERVER,
    TUNE,
)
from ie_serving.config.schema.model import beside, conflicts, model_config, with_own
from ie_serving.config.settings import ParsedCommandLine, ServerSettings, Settings, TuneSettings
from ie_serving.core.settings import structures, words
from ie_serving.core.settings.declaration import Setting, fields_of
from ie_serving.core.settings.faults import Faults
from ie_serving.core.values.commands import ASKING, BESIDE, HELP, MEANINGS, VERSION
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.hints import nearest
from ie_serving.engines.base import EngineOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.fleet.repository import ModelRepository
from ie_serving.storage.options import StorageOptions

EXAMPLE = "ie_serving model --model_name resnet --model_path /models/resnet --rest_port 8000"
_ANSWERED_AT_ONCE = ("-h", "--help", "--version")


@dataclass
class _ParseState:
    """The state while a command line is read.

    Attributes:
        typed: the command.
        command: the same, or the one that `check` or `tune` stands for: `config` or `model`.
    """

    typed: str
    command: str
    given: Mapping[str, str]
    environ: Mapping[str, str]
    faults: Faults = field(default_factory=Faults)
    warnings: list[str] = field(default_factory=list)


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> ParsedCommandLine:
    """Read the command line, the file it names, and the environment.

    Args:
        argv: arguments without the program's name.
        environ: the process's environment.

    Raises:
        ConfigError: every fault, each with its flag, variable or JSON path.
        SystemExit: 0 after `--help` and `--version`, 2 when argparse cannot tell flags apart.
    """
    # First of all: which flags there are depends on the command.
    argv = with_underscores(argv)
    is_ovms, argv = ovms.is_meant(argv), ovms.with_command(argv)
    _check_command(argv)
    arguments, unknown = parser(argv).parse_known_args(argv)
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    command, as_json = given.pop("command"), bool(given.pop(JSON, False))
    lenient = bool(given.pop(LENIENT, command != CHECK))
    reading = _ParseState(command, _meant(command, given), given, environ)
    _note_unknown(unknown, reading)
    _check_subject(unknown, reading)
    reading.warnings += _warnings(reading)
    found = _server_values(reading)
    storage = environment.storage_options(
        environ, reading.faults, own_hosts_are_plain=is_ovms, **fields_of("storage", found)
    )
    engine = _engine(found, reading)
    path, file = _models(engine, storage, reading)
    repositories = _repositories(reading)
    given = fields_of("server", found)
    server = _server({**given, "is_ovms": is_ovms or file.is_ovms}, file, reading)
    tuned, models = _tuned(command, file.models, reading)
    # Faults are raised at the end, so that all are reported together.
    reading.faults.check()
    return ParsedCommandLine(
        settings=Settings(
            server=server,
            models=models,
            config_path=path,
            repositories=repositories,
            in_file=file.repositories,
            engine=engine,
        ),
        storage=storage,
        warnings=(*reading.warnings, *file.warnings),
        names=names(command if tuned else reading.command),
        only_check=command == CHECK,
        lenient=lenient,
        as_json=as_json,
        tune=tuned,
    )


def _tuned(
    command: str, models: tuple[ModelConfig, ...], reading: _ParseState
) -> tuple[TuneSettings | None, tuple[ModelConfig, ...]]:
    """Give the settings of `tune`, and its single model."""
    if command != TUNE_COMMAND:
        return None, models
    read: dict[str, Any] = {
        each.field: reading.faults.take(each.parse, reading.given[each.flag], f"--{each.flag}")
        for each in TUNE
        if each.flag in reading.given
    }
    name = reading.given.get("model_name", "")
    chosen = tuple(each for each in models if name in ("", each.name))
    if reading.command == CONFIG and len(chosen) != 1:
        known = ", ".join(each.name for each in models) or "none that can be read"
        reading.faults.add("--model_name", f"expected one model of the file: {known}")
    return TuneSettings(**read), chosen


def _check_command(argv: Sequence[str]) -> None:
    """Refuse a line without a command, which argparse would take from the value of the first flag.

    Raises:
        ConfigError: no command is given; names each unknown flag too, and shows a valid line.
    """
    first = argv[0] if argv else ""
    flag = first.partition("=")[0]
    if first in OWN_FLAGS or any(each.startswith(flag) for each in _ANSWERED_AT_ONCE if flag):
        return
    faults = Faults()
    known = [f"--{flag}" for flag in {*known_flags(CONFIG), *known_flags(CHECK)}]
    _refuse_foreign(argv, faults)
    faults.check()
    known += [each for each in _ANSWERED_AT_ONCE if each[:2] == "--"]
    for argument in argv:
        name = argument.partition("=")[0]
        if name.startswith("--") and name not in known:
            faults.add(name, f"no flag has this name: see --help{nearest(name, known)}")
    is_word = bool(first) and not first.startswith("-")
    place = f"no command {first!r}" if is_word else "no command"
    meant = nearest(first, [*OWN_FLAGS, *ASKING, *BESIDE, HELP, VERSION]) if is_word else ""
    faults.add(
        f"{place}{meant}",
        f"expected {', '.join(MEANINGS)}; to serve, for example: {EXAMPLE};"
        " ie_serving --help says what each does",
    )
    faults.check()


def _refuse_foreign(arguments: Sequence[str], faults: Faults) -> None:
    names = (each.removeprefix("--").partition("=")[0] for each in arguments if each[:2] == "--")
    for name in names:
        if name in foreign.REFUSED_FLAGS:
            faults.add(f"--{name}", foreign.REFUSED_FLAGS[name])


def _meant(command: str, given: dict[str, str]) -> str:
    """Tell whether `check` is about a file or about one model, by the name of its path."""
    if command not in (CHECK, TUNE_COMMAND):
        return command
    if CONFIG_PATH.flag in given or MODEL_REPOSITORY.flag in given:
        return CONFIG
    given.setdefault("model_name", given.get("model_path", "").rstrip("/").rpartition("/")[2])
    return MODEL_COMMAND


def _check_subject(unknown: Sequence[str], reading: _ParseState) -> None:
    """Check what `check` and `tune` are about: a file, or one model, and not both.

    Raises:
        ConfigError: neither is given; further faults would only follow from that.
    """
    command, given = reading.typed, reading.given
    if command not in (CHECK, TUNE_COMMAND):
        return
    if reading.command == CONFIG:
        known = {*known_flags(CONFIG), *(["model_name"] if command == TUNE_COMMAND else [])}
        source_flag = CONFIG_PATH.flag if CONFIG_PATH.flag in given else MODEL_REPOSITORY.flag
        for setting in MODEL:
            if setting.key and setting.flag in given.keys() - known:
                text = f"{_in_file(setting.key)}, or leave out --{source_flag}"
                reading.faults.add(f"--{setting.flag}", text)
        return
    if "model_path" in given:
        return
    path = next((each for each in unknown if not each.startswith("-")), "")
    place = f"{path}: ie_serving {command} takes no bare path"
    reading.faults.add(
        place if path else f"ie_serving {command}: nothing to {command}",
        f"expected {_SUBJECTS[command]}",
    )
    reading.faults.check()


_SUBJECTS = {
    CHECK: "--model_path DIRECTORY for one model, --config_path FILE or"
    " --model_repository DIRECTORY for several",
    TUNE_COMMAND: "--model_path DIRECTORY, or --config_path FILE with --model_name NAME",
}


def _in_file(key: str) -> str:
    return f'a setting of one model: set the key "{key}" in its entry of the file'


def _note_unknown(unknown: Sequence[str], reading: _ParseState) -> None:
    """Report arguments unknown to argparse; a value after an unknown flag belongs to it."""
    # argparse gives the value of an unknown flag as an argument of its own.
    flags = [argument for argument in unknown if argument.startswith("-")]
    known = [f"--{name}" for name in known_flags(reading.command)]
    of_model = {f"--{each.flag}": each.key for each in MODEL if each.flag and each.key}
    _refuse_foreign(flags, reading.faults)
    is_bare = reading.typed in _SUBJECTS and not flags and "model_path" not in reading.given
    for argument in flags or (() if is_bare else unknown):
        name = argument.partition("=")[0]
        if name.removeprefix("--") in foreign.REFUSED_FLAGS:
            continue
        meant = nearest(name, known)
        text = f"unknown argument of ie_serving {reading.typed}: see its --help{meant}"
        if name in of_model:
            text = _in_file(of_model[name])
        reading.faults.add(name, text)


def _warnings(reading: _ParseState) -> Iterator[str]:
    """Name the given settings without effect."""
    called = names(reading.command)
    for name, advice in foreign.FLAGS.items():
        if name in reading.given:
            yield f"--{name} has no effect: {advice.said(called)}"
    for name, advice in foreign.VARIABLES.items():
        if reading.environ.get(name):
            yield f"environment variable {name} has no effect: {advice.said(called)}"
    if "log_level" not in reading.given:
        yield from environment.warnings(reading.environ)


def _server_values(reading: _ParseState) -> dict[str, Any]:
    """Give the server's settings that have a valid flag or variable, by name."""
    found: dict[str, Any] = {}
    for setting in SERVER:
        if setting.flag in reading.given:
            text = reading.given[setting.flag]
            value = reading.faults.take(setting.parse, text, f"--{setting.flag}")
            found |= {} if value is None else {setting.name: value}
        else:
            found |= environment.read([setting], reading.environ, reading.faults)
    return found


def _engine(found: Mapping[str, Any], reading: _ParseState) -> EngineOptions:
    """Give the options that hold for every model; a cache that was named keeps compiled ones."""
    cache = found.get("storage.cache_dir")
    consent = fields_of("engine", found)
    options = EngineOptions(cache_dir=cache / "compiled" if cache else None, **consent)
    unsaid = [each for each in FOR_ALL if each.flag not in reading.given]
    own = environment.read(unsaid, reading.environ, reading.faults)
    if reading.command == CONFIG:
        own |= {
            each.name: reading.faults.take(each.parse, reading.given[each.flag], f"--{each.flag}")
            for each in FOR_ALL
            if each.flag in reading.given
        }
    return with_own(options, own)


def _models(
    engine: EngineOptions, storage: StorageOptions, reading: _ParseState
) -> tuple[source.ConfigPath | None, ConfigFile]:
    """Read the models from the file or from the flags; none when there are faults."""
    if reading.command == CONFIG:
        return _from_file(engine, storage, reading)
    given = reading.given
    graph = alone(given.get("model_name", ""), given.get("model_path", ""))
    if graph is not None:
        read = partial(graph_alone, engine=engine)
        return None, reading.faults.take(read, graph, "--model_path") or ConfigFile(models=())
    models, warnings = _from_flags(engine, reading)
    return None, ConfigFile(models=models, warnings=tuple(warnings))


def _from_file(
    engine: EngineOptions, storage: StorageOptions, reading: _ParseState
) -> tuple[source.ConfigPath | None, ConfigFile]:
    path = reading.given.get(CONFIG_PATH.flag)
    if not path and MODEL_REPOSITORY.flag in reading.given:
        return None, ConfigFile(models=())
    if not path:
        _note_missing(CONFIG_PATH, reading)
        return None, ConfigFile(models=())
    try:
        absolute = source.at(path, storage).absolute()
        return absolute, source.read(absolute, engine)
    except ConfigError as error:
        reading.faults.found.extend(error.faults)
        return None, ConfigFile(models=())


def _repositories(reading: _ParseState) -> tuple[ModelRepository, ...]:
    flag = MODEL_REPOSITORY.flag
    if flag not in reading.given:
        return ()
    return reading.faults.take(MODEL_REPOSITORY.parse, reading.given[flag], f"--{flag}") or ()


def _from_flags(
    engine: EngineOptions, reading: _ParseState
) -> tuple[tuple[ModelConfig, ...], list[str]]:
    found: dict[str, Any] = {}
    before = len(reading.faults.found)
    for setting in OWN_FLAGS[MODEL_COMMAND]:
        text = reading.given.get(setting.flag)
        if text is not None:
            found[setting.name] = reading.faults.take(setting.parse, text, f"--{setting.flag}")
        elif setting.required:
            _note_missing(setting, reading)
    # Unreadable values are None in `found`, so no settings can be made of them.
    if len(reading.faults.found) > before:
        return (), []
    for name, text in conflicts(found):
        reading.faults.add(names(MODEL_COMMAND)[name], text)
    found["model.base_path"] = words.resolved(found["model.base_path"], Path.cwd())
    beside(found, Path.cwd())
    model, warnings = model_config(found, engine)
    return (model,), warnings


def _note_missing(setting: Setting, reading: _ParseState) -> None:
    reading.faults.add(f"--{setting.flag}", f"missing; expected the {setting.meaning}")


def _server(given: dict[str, Any], file: ConfigFile, reading: _ParseState) -> ServerSettings:
    """Make the settings of the server, including those that follow from several flags."""
    transport = given.get("grpc_transport", ServerSettings.grpc_transport)
    reading.warnings += structures.settle(given, transport)
    # One interval is for models and configuration, as in OpenVINO Model Server.
    if "poll_wait_s" in given:
        given.setdefault("config_poll_wait_s", given["poll_wait_s"])
    if file.rest_port:
        given.setdefault("rest_port", file.rest_port)
    enabled = ovms.metrics_enabled(reading.given, file.metrics, reading.faults)
    families = ovms.families(reading.given, file.metrics_list, reading.faults)
    if "metrics_path" not in given and enabled is not None:
        given["metrics_path"] = METRICS_PATH if enabled else ""
        given["metrics_families"] = families if enabled else ()
    settings = _with_workers(ServerSettings(**given), "workers" in given, file, reading)
    _check_ports(settings, reading.faults, metrics_asked_for=bool(given.get("metrics_path")))
    return settings


def _with_workers(
    settings: ServerSettings, is_said: bool, file: ConfigFile, reading: _ParseState
) -> ServerSettings:
    """Take old flags for several workers, where several workers can serve the models."""
    workers, words = ovms.workers(reading.given, len(os.sched_getaffinity(0)), reading.faults)
    if is_said or not words:
        return settings
    several = replace(settings, workers=workers)
    against = contradictions.of_workers(several, file.models)
    reading.warnings += [ovms.not_taken(reading.given, against[0])] if against else words
    return settings if against else several


def _check_ports(settings: ServerSettings, faults: Faults, *, metrics_asked_for: bool) -> None:
    rest = settings.rest_port or settings.rest_socket_path
    if not (settings.port or settings.grpc_socket_path or rest):
        faults.add("--port", "port and rest_port cannot both be unset; turn one on")
    for name, text in contradictions.of_shared_port(settings):
        faults.add(f"--{name.removeprefix('server.')}", text)
    if metrics_asked_for and not rest:
        faults.add("--metrics_path", "metrics are served on the REST port; give --rest_port")
    if settings.invocations_model and not rest:
        faults.add("--invocations_model", "it is asked on the REST port; give --rest_port")
