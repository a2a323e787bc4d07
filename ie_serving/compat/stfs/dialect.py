"""The command lines `simple_tensorflow_serving` and `stfs` to `Settings`.

Its flags are in `flags.py`. Source: its documentation and code, version 0.8.2.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from ie_serving.compat.stfs import STFS
from ie_serving.compat.stfs.flags import FLAGS, given, session_options
from ie_serving.config.dialects import environment
from ie_serving.config.files import source
from ie_serving.config.schema.catalogue import SETTINGS
from ie_serving.config.settings import ParsedCommandLine, ServerSettings, Settings
from ie_serving.core.settings import words
from ie_serving.core.settings.faults import Faults, fault
from ie_serving.core.settings.structures import json_text
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.hints import nearest
from ie_serving.engines import driver_params
from ie_serving.engines.base import AUTO, EngineOptions
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.tensorflow.options import TensorFlowOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.repository.version_policy import All

COMMAND: Final = "simple_tensorflow_serving"
POLL_WAIT_S: Final = 10.0
"""Seconds between two looks for new versions, as in the original."""
PICKLES: Final = (".pkl", ".pickle", ".joblib")

MODEL_LIST: Final = "model_config_list"
MODEL_KEYS: Final = frozenset(
    {"name", "base_path", "platform", "custom_op_paths", "session_config"}
)
DRIVERS: Final[Mapping[str, str]] = {
    "tensorflow": AUTO,
    "onnx": AUTO,
    "scikitlearn": "sklearn",
    "xgboost": "xgboost",
    "pmml": "pmml",
}
"""Driver of each platform that is served."""

RETIRED: Final[Mapping[str, str]] = {
    "mxnet": "MXNet is retired: export the model to ONNX, and serve that with platform onnx",
    "pytorch_onnx": "Caffe2, which ran it, is retired: the file is ONNX, so name platform onnx",
    "h2o": "it needs a server of H2O: export the model to ONNX, or call H2O in a kernel",
    "spark": "convert the model to ONNX, by onnxmltools, and name platform onnx",
}
"""Platforms that are not served, and what to do instead."""


class _ModelEntry(NamedTuple):
    """One model, as flags or the file say it."""

    name: str
    base_path: str
    platform: str
    custom_op_paths: str


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> ParsedCommandLine:
    """Read the command line, the file that it names, and the environment.

    Args:
        argv: arguments without the program's name.
        environ: the process's environment.

    Raises:
        ConfigError: every fault, each with its flag, variable or JSON path.
        SystemExit: 0 after `--help`, 2 where flags cannot be told apart.
    """
    faults = Faults()
    found = given(argv, environ, faults)
    values = {**{flag.name: flag.default for flag in FLAGS}, **found}
    storage = environment.storage_options(environ, faults)
    models = tuple(_models(values, faults))
    server = _server(values, faults)
    faults.check()
    return ParsedCommandLine(
        settings=Settings(server=server, models=models),
        storage=storage,
        warnings=tuple(_warnings(found)),
        names=names(),
    )


def names() -> dict[str, str]:
    """Give what this command calls each setting, for `core.values.hints`."""
    variables = {each.name: each.variables[0] for each in SETTINGS if each.variables}
    return {**variables, **{each.setting: f"--{each.name}" for each in FLAGS if each.setting}}


def _server(values: Mapping[str, Any], faults: Faults) -> ServerSettings:
    server = ServerSettings(
        port=0,
        rest_host=values["host"],
        rest_port=values["port"],
        enable_cors=values["enable_cors"],
        poll_wait_s=POLL_WAIT_S if values["reload_models"] else 0.0,
        log_level="DEBUG" if values["debug"] else values["log_level"],
        # One model that cannot be loaded leaves the others: its status says why.
        allow_unavailable_models=True,
        old_front=STFS,
        page=False,  # it has a page of its own there
    )
    if values["enable_ssl"]:
        server = replace(server, tls_certificate=values["secret_pem"], tls_key=values["secret_key"])
    return _with_user(server, values, faults) if values["enable_auth"] else server


def _with_user(server: ServerSettings, values: Mapping[str, Any], faults: Faults) -> ServerSettings:
    name, password = values["auth_username"], values["auth_password"]
    if not (name and password):
        faults.add(
            "--enable_auth",
            "needs --auth_username and --auth_password: admin and admin, which the original takes"
            " where they are missing, are known to everybody",
        )
    # Closed: the original asks every client for them, on every route but its own /health.
    return replace(
        server, enable_auth=True, auth_username=name, auth_password=password, open_health=False
    )


def _models(values: Mapping[str, Any], faults: Faults) -> Iterator[ModelConfig]:
    file = values["model_config_file"]
    if file:
        text = _text(Path(file).absolute(), faults)
        found = faults.take(lambda given, place: _entries(given, place, faults), text, file) or []
    else:
        names = ("model_name", "model_base_path", "model_platform", "custom_op_paths")
        found = [("--", _ModelEntry(*(values[name] for name in names)))]
    for place, entry in found:
        config = faults.take(_model, entry, place)
        if config is not None:
            yield config


def _text(path: Path, faults: Faults) -> str:
    try:
        return source.read_text(path)
    except ConfigError as error:
        faults.found.extend(error.faults)
        return '{"model_config_list": []}'


def _entries(text: str, place: str, faults: Faults) -> list[tuple[str, _ModelEntry]]:
    document = json_text(text, place)
    listed = document.get(MODEL_LIST) if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ConfigError([f'{place}: expected {{"{MODEL_LIST}": [{{"name": ..., ...}}]}}'])
    found = []
    for number, entry in enumerate(listed):
        at = f"{place}: {MODEL_LIST}[{number}]."
        read = faults.take(_entry, entry, at)
        if read is not None:
            faults.take(session_options, entry.get("session_config", {}), f"{at}session_config")
            found.append((at, read))
    doubled = {each.name for _, each in found if [e.name for _, e in found].count(each.name) > 1}
    for name in sorted(doubled):
        faults.add(place, f"two models are called {name}; give each a name of its own")
    return found


def _entry(given: object, place: str) -> _ModelEntry:
    if not isinstance(given, dict):
        raise fault(place.rstrip("."), given, "an object with name and base_path")
    for key in given:
        if key not in MODEL_KEYS:
            raise ConfigError([f"{place}{key}: unknown key{nearest(str(key), MODEL_KEYS)}"])
    return _ModelEntry(
        words.text(given.get("name"), f"{place}name"),
        words.text(given.get("base_path"), f"{place}base_path"),
        words.text(given.get("platform", "tensorflow"), f"{place}platform"),
        words.unchecked(given.get("custom_op_paths", ""), f"{place}custom_op_paths"),
    )


# All paths begin where the command is started, as in the original, also the file's.
def _model(entry: _ModelEntry, place: str) -> ModelConfig:
    base_path = words.resolved(entry.base_path, Path.cwd())
    # TensorFlow computes in f32; OpenVINO would choose bf16 on processors that have it.
    openvino = OpenVinoOptions(inference_precision="f32")
    pickles = entry.platform in ("scikitlearn", "xgboost")
    # The platforms scikitlearn and xgboost permit pickles, as in the original.
    options = EngineOptions(driver=_driver(entry, place), allow_pickle=pickles)
    if options.driver in ("pmml", "xgboost"):
        options = replace(options, params={driver_params.ANSWERS: driver_params.LIBRARY})
    options = options.having(openvino) if options.driver == AUTO else options
    if entry.platform == "tensorflow":
        operations = _libraries(entry.custom_op_paths, place)
        # The original runs TensorFlow itself: what OpenVINO does not take still serves, where
        # TensorFlow is installed.
        options = options.having(TensorFlowOptions(fallback=True, custom_op_paths=operations))
    elif entry.custom_op_paths:
        raise ConfigError(
            [f"{place}custom_op_paths: only platform tensorflow has custom operations; remove it"]
        )
    return ModelConfig(
        name=entry.name,
        base_path=base_path,
        version_policy=All(),
        engine=options,
        platform=entry.platform,
    )


def _driver(entry: _ModelEntry, place: str) -> str:
    platform, at = entry.platform, f"{place}{'model_' if place == '--' else ''}platform"
    if platform in RETIRED:
        raise ConfigError([f"{at}: {platform} is not served: {RETIRED[platform]}"])
    if platform not in DRIVERS:
        known = ", ".join(DRIVERS)
        hint = nearest(platform, DRIVERS)
        raise ConfigError([f"{at}: {platform!r} given; expected one of {known}{hint}"])
    if platform == "onnx" and entry.base_path.endswith(".proto"):
        raise ConfigError(
            [f"{at}: {entry.base_path} does not end in .onnx: rename the file, or link to it"]
        )
    # A pickle holds an estimator of the kind of scikit-learn, also one from the library xgboost.
    return "sklearn" if platform == "xgboost" and _is_pickle(entry) else DRIVERS[platform]


def _is_pickle(entry: _ModelEntry) -> bool:
    return entry.base_path.endswith(PICKLES)


def _libraries(directories: str, place: str) -> tuple[str, ...]:
    """List the libraries of directories, separated by commas, in order of their names."""
    found: list[str] = []
    for each in filter(None, (part.strip() for part in directories.split(","))):
        libraries = sorted(str(path.absolute()) for path in Path(each).glob("*.so"))
        if not libraries:
            raise ConfigError(
                [f"{place}custom_op_paths: {each} holds no *.so; expected a directory with some"]
            )
        found += libraries
    return tuple(found)


def _warnings(found: Mapping[str, Any]) -> Iterator[str]:
    for flag in FLAGS:
        if not flag.works and flag.name in found:
            yield f"--{flag.name} has no effect: {flag.meaning}"
