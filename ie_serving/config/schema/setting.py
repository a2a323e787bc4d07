"""What one setting is: a value of the configuration, how it is read, and its name in each dialect.

`model.py`, `server.py` and `storage.py` declare every setting once. Parsers, `--help`, checks, the
words of errors and the tables of `docs/` all come from these declarations.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ie_serving.config.settings import ServerSettings, Settings, TuneSettings
from ie_serving.config.values.faults import Parser
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.batching import Batching
from ie_serving.engines.hooks import HookOptions
from ie_serving.engines.kernels import KernelOptions
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.preprocessing import Preprocessing
from ie_serving.engines.sequences import Sequences
from ie_serving.engines.tensorflow.options import TensorFlowOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.storage.options import GcsOptions, MinioOptions, S3Options, StorageOptions

OWNERS: Mapping[str, type] = {
    "settings": Settings,
    "model": ModelConfig,
    "engine": EngineOptions,
    "openvino": OpenVinoOptions,
    "preprocess": Preprocessing,
    "batching": Batching,
    "sequences": Sequences,
    "tensorflow": TensorFlowOptions,
    "kernel": KernelOptions,
    "hooks": HookOptions,
    "server": ServerSettings,
    "storage": StorageOptions,
    "s3": S3Options,
    "gcs": GcsOptions,
    "minio": MinioOptions,
    "tune": TuneSettings,
}
"""The value that a setting is part of, by the first word of its place."""

BOOLEAN = "true|false"
"""Form of a boolean. A flag of this form may stand without a value, which means true."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting.

    Attributes:
        place: owner and field, such as `server.port`; also its name in a `core.values.hints.Hint`.
        parse: reads text, or JSON where it has a key, and checks it.
        form: how a value is written; that of a number names its unit.
        meaning: what it does.
        example: a value as text that means something.
        default: as people read it; empty takes the field's own default.
        required: whether there must be a value; then there is no default.
        flag: of `ie_serving`, without dashes; empty when it has none.
        tfs: flag of `tensorflow_model_server`, without dashes. Its unit and default are the
            original's; `dialects/tfs_flags.py` has them.
        key: of a model in the JSON file.
        variables: of the environment. The first one that is not empty counts, where no flag of the
            running command says otherwise.
        reads: how a variable's text is read, where a variable of 2020 has words of its own.
        ovms: parameters or keys of OpenVINO Model Server with this meaning, whatever their form.
        merged: whether the value goes into another setting's field instead of one of its own.
    """

    place: str
    parse: Parser[Any]
    form: str
    meaning: str
    example: str
    default: str = ""
    required: bool = False
    flag: str = ""
    tfs: str = ""
    key: str = ""
    variables: tuple[str, ...] = ()
    reads: Parser[Any] | None = None
    ovms: tuple[str, ...] = ()
    merged: bool = False

    @property
    def owner(self) -> str:
        """The part of the configuration that it belongs to, a key of `OWNERS`."""
        return self.place.partition(".")[0]

    @property
    def field(self) -> str:
        """Its field of the owner."""
        return self.place.partition(".")[2]

    @property
    def shown_default(self) -> str:
        """The default as help and docs show it."""
        if self.required:
            return "required"
        return self.default or _written(_default_of(OWNERS[self.owner], self.field))

    @property
    def help(self) -> str:
        """Meaning and default, in one line."""
        default = self.shown_default if self.required else f"default: {self.shown_default}"
        return f"{self.meaning} ({default})"


def fields_of(owner: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Take the values of one owner out of `found`, which has them by place; by field."""
    start = f"{owner}."
    return {
        place.removeprefix(start): value
        for place, value in found.items()
        if place.startswith(start)
    }


def _default_of(owner: type, name: str) -> object:
    return next(field.default for field in dataclasses.fields(owner) if field.name == name)


def _written(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default) or "none"
