"""Every flag of `simple_tensorflow_serving`, its variable, and what it means here.

Source: its documentation and code, version 0.8.2. A flag that is not given may stand in the
environment as `STFS_` and its name in capitals.
"""

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ie_serving.core.settings import numbers, words
from ie_serving.core.settings.faults import Faults, Parser, fault
from ie_serving.core.settings.kinds import BOOLEAN
from ie_serving.core.settings.structures import mapping
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.nearest import nearest

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


@dataclass(frozen=True, kw_only=True)
class StfsFlag:
    """One flag.

    Attributes:
        name: without dashes.
        parse: reads its text.
        form: how a value is written.
        default: that counts where neither flag nor variable is given.
        meaning: what it does; for one without effect why it has none.
        place: the setting that it says, where it says just one.
        works: whether it has an effect here.
    """

    name: str
    parse: Parser[Any]
    form: str
    default: Any
    meaning: str
    place: str = ""
    works: bool = True

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return f"{PREFIX}{self.name.upper()}"


def _switch(value: object, place: str) -> bool:
    """Read a boolean; an empty text is false, as in the original's own defaults."""
    return words.boolean(value, place) if value != "" else False


def session_options(value: object, place: str) -> Mapping[str, Any]:
    """Read options of a session, all of which are known."""
    options = mapping(value, place, 'an object such as {"allow_growth": true}')
    for key in options:
        if key not in SESSION_KEYS:
            raise ConfigError([f"{place}: unknown key {key!r}{nearest(key, SESSION_KEYS)}"])
    return options


def _never(value: object, place: str) -> bool:
    if _switch(value, place):
        raise fault(place, value, "false: what clients send is never kept on disk")
    return False


FLAGS: Final = (
    StfsFlag(
        name="host",
        parse=words.address,
        form="ADDRESS",
        default="0.0.0.0",
        meaning="address of the HTTP port",
        place="server.rest_host",
    ),
    StfsFlag(
        name="port",
        parse=numbers.integer(1, numbers.LARGEST_PORT),
        form="PORT",
        default=8500,
        meaning="HTTP port; there is no gRPC",
        place="server.rest_port",
    ),
    StfsFlag(
        name="enable_ssl",
        parse=_switch,
        form=BOOLEAN.form,
        default=False,
        meaning="encrypt the port, by the next two files",
    ),
    StfsFlag(
        name="secret_pem",
        parse=words.text,
        form="FILE",
        default="secret.pem",
        meaning="certificate, PEM",
        place="server.tls_certificate",
    ),
    StfsFlag(
        name="secret_key",
        parse=words.text,
        form="FILE",
        default="secret.key",
        meaning="its key, PEM",
        place="server.tls_key",
    ),
    StfsFlag(
        name="model_name",
        parse=words.text,
        form="TEXT",
        default="default",
        meaning="name of the one model",
        place="model.name",
    ),
    StfsFlag(
        name="model_base_path",
        parse=words.text,
        form="PATH|URL",
        default="./model",
        meaning="where its versions lie, or its file",
        place="model.base_path",
    ),
    StfsFlag(
        name="model_platform",
        parse=words.text,
        form="TEXT",
        default="tensorflow",
        meaning="what it was made by: tensorflow, onnx, scikitlearn, xgboost, pmml",
    ),
    StfsFlag(
        name="model_config_file",
        parse=words.unchecked,
        form="FILE",
        default="",
        meaning="several models instead of one",
        place="settings.config_path",
    ),
    StfsFlag(
        name="reload_models",
        parse=_switch,
        form=BOOLEAN.form,
        default=True,
        meaning="look for new versions every 10 s",
    ),
    StfsFlag(
        name="custom_op_paths",
        parse=words.unchecked,
        form="DIRECTORY,..",
        default="",
        meaning="load every *.so of these directories into TensorFlow's process",
        place="tensorflow.custom_op_paths",
    ),
    StfsFlag(
        name="session_config",
        parse=session_options,
        form="JSON",
        default={},
        meaning="options of TensorFlow's session for GPUs",
        works=False,
    ),
    StfsFlag(
        name="enable_auth",
        parse=_switch,
        form=BOOLEAN.form,
        default=False,
        meaning="answer one user alone, on every route but /health",
        place="server.enable_auth",
    ),
    StfsFlag(
        name="auth_username",
        parse=words.unchecked,
        form="TEXT",
        default="",
        meaning="name of that user; there is no default",
        place="server.auth_username",
    ),
    StfsFlag(
        name="auth_password",
        parse=words.unchecked,
        form="TEXT",
        default="",
        meaning="password of that user; there is no default",
        place="server.auth_password",
    ),
    StfsFlag(
        name="enable_cors",
        parse=_switch,
        form=BOOLEAN.form,
        default=True,
        meaning="let pages of other sites ask",
        place="server.enable_cors",
    ),
    StfsFlag(
        name=B64,
        parse=_switch,
        form=BOOLEAN.form,
        default=True,
        meaning='{"b64": ...} is always read as bytes',
        works=False,
    ),
    StfsFlag(
        name="download_inference_images",
        parse=_never,
        form=BOOLEAN.form,
        default=False,
        meaning="true is refused: what clients send is never kept on disk",
    ),
    StfsFlag(
        name="debug",
        parse=_switch,
        form=BOOLEAN.form,
        default=False,
        meaning="log more",
    ),
    StfsFlag(
        name="log_level",
        parse=words.log_level,
        form="TEXT",
        default="INFO",
        meaning="log from this level on",
        place="server.log_level",
    ),
    StfsFlag(
        name="workers",
        parse=numbers.integer(1, 1000),
        form="N",
        default=1,
        meaning="of its uwsgi wrapper: one process takes all processors",
        works=False,
    ),
    StfsFlag(
        name="threads",
        parse=numbers.integer(1, 1000),
        form="N",
        default=1,
        meaning="of its uwsgi wrapper: one process takes all processors",
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
            value = faults.take(flag.parse, text, place)
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
        bare = {"nargs": "?", "const": "true"} if flag.form == BOOLEAN.form else {}
        text = f"{flag.meaning} ({'no effect' if not flag.works else f'default: {flag.default}'})"
        parser.add_argument(f"--{flag.name}", metavar=flag.form, help=text, **bare)  # type: ignore[arg-type]
    return parser
