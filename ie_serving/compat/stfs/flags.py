"""Every flag of `simple_tensorflow_serving`, its variable, and its meaning here.

Source: its documentation and code, version 0.8.2. A flag that is not given may stand in the
environment as `STFS_` and its name in capitals.
"""

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ie_serving.core.settings import numbers, words
from ie_serving.core.settings.declaration import BOOLEAN, FILE, TEXT, SettingKind, whole
from ie_serving.core.settings.faults import Faults, fault
from ie_serving.core.settings.structures import mapping
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.hints import nearest

PREFIX: Final = "STFS_"
B64 = "enable_b64_autoconvert"
B64_VARIABLE: Final = "STFS_B64_AUTOCONVERT"
"""The one variable that is not called like its flag."""
SESSION_KEYS: Final = (
    "log_device_placement",
    "allow_soft_placement",
    "allow_growth",
    "per_process_gpu_memory_fraction",
)


@dataclass(frozen=True)
class StfsFlag:
    """One flag.

    Attributes:
        name: name without dashes.
        kind: reader and writer of the flag's text.
        default: value where neither flag nor variable is given.
        meaning: effect of the flag; for one without effect, why it has none.
        setting: name of the setting that it says, where it says just one.
        works: whether it has an effect here.
    """

    name: str
    kind: SettingKind
    default: Any
    meaning: str
    setting: str = ""
    works: bool = True

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return f"{PREFIX}{self.name.upper()}"


def _switch(value: object, place: str) -> bool:
    """Read a boolean; an empty text is false, as in the original's own defaults."""
    return words.boolean(value, place) if value != "" else False


def session_options(value: object, place: str) -> Mapping[str, Any]:
    """Read options of a session; an unknown option is a fault."""
    options = mapping(value, place, 'an object such as {"allow_growth": true}')
    for key in options:
        if key not in SESSION_KEYS:
            advice = f"; remove it{nearest(key, SESSION_KEYS)}"
            raise ConfigError([f"{place}: unknown key {key!r}{advice}"])
    return options


def _never(value: object, place: str) -> bool:
    if _switch(value, place):
        raise fault(place, value, "false: what clients send is never kept on disk")
    return False


SWITCH: Final = SettingKind(_switch, BOOLEAN.form)
ANY_TEXT: Final = SettingKind(words.unchecked, "TEXT")
FLAGS: Final = (
    StfsFlag(
        "host",
        SettingKind(words.address, "ADDRESS"),
        "0.0.0.0",
        "address of the HTTP port",
        "server.rest_host",
    ),
    StfsFlag(
        "port",
        whole(1, numbers.LARGEST_PORT, "PORT"),
        8500,
        "HTTP port; there is no gRPC",
        "server.rest_port",
    ),
    StfsFlag("enable_ssl", SWITCH, False, "encrypt the port, by the next two files"),
    StfsFlag("secret_pem", FILE, "secret.pem", "certificate, PEM", "server.tls_certificate"),
    StfsFlag("secret_key", FILE, "secret.key", "its key, PEM", "server.tls_key"),
    StfsFlag("model_name", TEXT, "default", "name of the one model", "model.name"),
    StfsFlag(
        "model_base_path",
        SettingKind(words.text, "PATH|URL"),
        "./model",
        "where its versions lie, or its file",
        "model.base_path",
    ),
    StfsFlag(
        "model_platform",
        TEXT,
        "tensorflow",
        "what it was made by: tensorflow, onnx, scikitlearn, xgboost, pmml",
    ),
    StfsFlag(
        "model_config_file",
        SettingKind(words.unchecked, "FILE"),
        "",
        "several models instead of one",
        "settings.config_path",
    ),
    StfsFlag("reload_models", SWITCH, True, "look for new versions every 10 s"),
    StfsFlag(
        "custom_op_paths",
        SettingKind(words.unchecked, "DIRECTORY,.."),
        "",
        "load every *.so of these directories into TensorFlow's process",
        "tensorflow.custom_op_paths",
    ),
    StfsFlag(
        "session_config",
        SettingKind(session_options, "JSON"),
        {},
        "options of TensorFlow's session for GPUs",
        works=False,
    ),
    StfsFlag(
        "enable_auth",
        SWITCH,
        False,
        "answer one user alone, on every route but /health",
        "server.enable_auth",
    ),
    StfsFlag(
        "auth_username",
        ANY_TEXT,
        "",
        "name of that user; there is no default",
        "server.auth_username",
    ),
    StfsFlag(
        "auth_password",
        ANY_TEXT,
        "",
        "password of that user; there is no default",
        "server.auth_password",
    ),
    StfsFlag("enable_cors", SWITCH, True, "let pages of other sites ask", "server.enable_cors"),
    StfsFlag(B64, SWITCH, True, '{"b64": ...} is always read as bytes', works=False),
    StfsFlag(
        "download_inference_images",
        SettingKind(_never, BOOLEAN.form),
        False,
        "true is refused: what clients send is never kept on disk",
    ),
    StfsFlag("debug", SWITCH, False, "log more"),
    StfsFlag(
        "log_level",
        SettingKind(words.log_level, "TEXT"),
        "INFO",
        "log from this level on",
        "server.log_level",
    ),
    StfsFlag(
        "workers",
        whole(1, 1000),
        1,
        "of its uwsgi wrapper: one process takes all processors",
        works=False,
    ),
    StfsFlag(
        "threads",
        whole(1, 1000),
        1,
        "of its uwsgi wrapper: one process takes all processors",
        works=False,
    ),
)


def given(argv: Iterable[str], environ: Mapping[str, str], faults: Faults) -> dict[str, Any]:
    """Read the flags that are given, else their variables.

    Returns:
        Value of each that is there and right, by its name.

    Raises:
        SystemExit: 0 after `--help`, 2 where flags cannot be told apart.
    """
    arguments = vars(_parser().parse_args(list(argv)))
    found: dict[str, Any] = {}
    for flag in FLAGS:
        text, place = arguments[flag.name], f"--{flag.name}"
        variables = (flag.variable, *([B64_VARIABLE] if flag.name == B64 else []))
        for variable in variables:
            if text is None and environ.get(variable):
                text, place = environ[variable], variable
        if text is not None:
            value = faults.take(flag.kind.parse, text, place)
            found |= {} if value is None else {flag.name: value}
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="simple_tensorflow_serving",
        description="Serve models over the HTTP API of simple_tensorflow_serving, and that of"
        " TensorFlow Serving. docs/guide/migration-simple-tensorflow-serving.md says what differs.",
        epilog=f"A flag that is not given is read from the environment, as {PREFIX}MODEL_NAME.",
        allow_abbrev=False,
    )
    for flag in FLAGS:
        bare = {"nargs": "?", "const": "true"} if flag.kind.form == BOOLEAN.form else {}
        text = f"{flag.meaning} ({'no effect' if not flag.works else f'default: {flag.default}'})"
        parser.add_argument(f"--{flag.name}", metavar=flag.kind.form, help=text, **bare)  # type: ignore[arg-type]
    return parser
