"""Declares a setting once, on the field that holds its value.

    rest_port: int = PORT.setting(0, "REST port; 0 is off", "8000", tfs="rest_api_port")

Parsers, flags, keys, variables, `--help`, checks, names in errors and the tables of `docs/` follow
from the declaration: `config/schema/catalogue.py` collects those of all owners.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

from ie_serving.core.settings import numbers, words
from ie_serving.core.settings.faults import Parser
from ie_serving.core.values.integers import INT64_MAX

T = TypeVar("T")
_UNITS: Final = {"s": "seconds", "us": "microseconds"}
"""Unit suffixes of field names, and their form in flags and keys."""

NOTHING: Final[Mapping[str, Any]] = {}
REQUIRED: Final[Any] = dataclasses.MISSING
"""Stands for the default of a setting that must be given."""


class Setting(NamedTuple):
    """One setting, made from its declaration and its owner.

    Attributes:
        name: owner and field, such as `server.port`; also its name in a `core.values.hints.Hint`.
        parse: reads text, or JSON if the setting has a key, and checks it.
        form: form of a value; for a number it names the unit.
        meaning: its effect.
        example: a useful value as text.
        shown_default: the default as documentation shows it.
        required: whether it must be given; then there is no default.
        flag: flag of `ie_serving`, without dashes; empty for none.
        tfs: flag of `tensorflow_model_server`, without dashes. Its unit and default are the
            original's; `config/dialects/tfs_flags.py` has them.
        key: key of a model in the JSON file.
        variables: environment variables. The first that is not empty counts, unless a flag is
            given.
        reads: parser of a variable's text, for a variable of 2020 with other words.
        ovms: parameters or keys of OpenVINO Model Server with this meaning, in any form.
        for_all: whether `ie_serving config` has the flag too, for models without the key.
        is_common: whether `--help` shows it before a topic is asked for.
        topic: the topic of `--help` that shows it.
        merged: whether the value goes into another setting's field instead of its own.
    """

    parse: Parser[Any]
    form: str
    meaning: str
    example: str
    shown_default: str
    required: bool
    tfs: str
    variables: tuple[str, ...]
    reads: Parser[Any] | None
    ovms: tuple[str, ...]
    for_all: bool
    is_common: bool
    topic: str = ""
    name: str = ""
    flag: str = ""
    key: str = ""
    merged: bool = False

    @property
    def owner(self) -> str:
        """The owner: the part of the configuration that has the setting."""
        return self.name.partition(".")[0]

    @property
    def field(self) -> str:
        """The owner's field of the setting."""
        return self.name.partition(".")[2]

    @property
    def help(self) -> str:
        """Meaning and default, in one line."""
        default = self.shown_default if self.required else f"default: {self.shown_default}"
        return f"{self.meaning} ({default})"


class SettingKind(NamedTuple):
    """The kind of values of a setting.

    Attributes:
        parse, form: see `Setting`.
    """

    parse: Parser[Any]
    form: str

    def setting(
        self,
        default: T,
        meaning: str,
        example: str = "",
        *,
        shown: str = "",
        word: str | None = None,
        flag: str | None = None,
        tfs: str = "",
        ovms: str = "",
        variables: str = "",
        reads: Parser[Any] | None = None,
        for_all: bool = False,
        is_common: bool = False,
        is_secret: bool = False,
        merges: Mapping[str, Any] = NOTHING,
    ) -> T:
        """Declare a setting of this kind, on its field of a dataclass; see `Setting`.

        Args:
            default: default of the field, or `REQUIRED`.
            meaning: text of `Setting.meaning`.
            example: a useful value as text; by default, for a boolean, the value not the default.
            shown: the default as documentation shows it; `required` if users must give a value.
            word: its flag and its key; by default the field's name with its unit spelt out.
            flag: flag, if it differs from the key; empty for none.
            tfs: value of `Setting.tfs`.
            ovms: separated by blanks.
            variables: separated by blanks.
            reads: value of `Setting.reads`.
            for_all: value of `Setting.for_all`.
            is_common: value of `Setting.is_common`.
            is_secret: whether the owner's `repr` leaves the value out.
            merges: declarations by name of settings whose values go into this field as well.
        """
        is_needed = shown == "required" or (default is REQUIRED and not shown)
        made = Setting(
            parse=self.parse,
            form=self.form,
            meaning=meaning,
            example=example or _written(not default),
            shown_default="required" if is_needed else shown or _written(default),
            required=is_needed,
            tfs=tfs,
            variables=tuple(variables.split()),
            reads=reads,
            ovms=tuple(ovms.split()),
            for_all=for_all,
            is_common=is_common,
        )
        said: dict[str, Any] = {"setting": made, "word": word, "flag": flag, "merges": merges}
        if default is REQUIRED:
            value: dict[str, Any] = {}
        elif isinstance(default, dict):
            value = {"default_factory": default.copy}
        else:
            value = {"default": default}
        # The dataclass replaces the field by a value.
        found: T = dataclasses.field(**value, repr=not is_secret, metadata=said)
        return found


def declared(name: str, owner: type, *, flags: bool = False, keys: bool = False) -> list[Setting]:
    """List the settings of an owner in the order of their fields.

    Args:
        name: name of the owner, the first word of the settings' places.
        owner: dataclass with the fields.
        flags: whether the settings are flags of `ie_serving`.
        keys: whether the settings are keys of a model.
    """
    found: list[Setting] = []
    for field in dataclasses.fields(owner):
        said = field.metadata
        if not said:
            continue
        word = _spelt(field.name) if said["word"] is None else said["word"]
        flag = word if said["flag"] is None else said["flag"]
        words = {"flag": flag if flags else "", "key": word if keys else ""}
        found.append(said["setting"]._replace(name=f"{name}.{field.name}", **words))
        for merged, other in said["merges"].items():
            made = other.metadata["setting"]
            found.append(made._replace(name=f"{name}.{merged}", merged=True))
    return found


def fields_of(owner: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Select the values of one owner from `found`, which is by name; give them by field."""
    start = f"{owner}."
    return {
        name.removeprefix(start): value for name, value in found.items() if name.startswith(start)
    }


def _spelt(field: str) -> str:
    """Give a field's name with its unit spelt out: `poll_wait_s` is `poll_wait_seconds`."""
    stem, mark, unit = field.rpartition("_")
    return stem + mark + _UNITS.get(unit, unit)


def _written(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default) or "none"


BOOLEAN: Final = SettingKind(words.boolean, "true|false")
"""A flag of this kind may stand without a value, which means true."""
TEXT: Final = SettingKind(words.text, "TEXT")
NAMES: Final = SettingKind(words.listed, "NAME,..")
"""A flag of this kind may stand several times."""
PLACES: Final = "PATH|URL,.."
"""Form of a flag that may stand several times, too."""
FILE: Final = SettingKind(words.text, "FILE")
HTTP_URL: Final = SettingKind(words.http_url, "URL")
PORT: Final = SettingKind(numbers.port, "N")
COUNT: Final = SettingKind(numbers.positive, "N")
BYTES: Final = SettingKind(numbers.integer(0, INT64_MAX), "BYTES")
DELAY: Final = SettingKind(numbers.delay, "SECONDS")
TIMEOUT: Final = SettingKind(numbers.timeout, "SECONDS")
POLL_WAIT: Final = SettingKind(numbers.poll_wait, "SECONDS")


def whole(low: int, high: int, form: str = "N") -> SettingKind:
    """Give the kind of whole numbers from `low` to `high`."""
    return SettingKind(numbers.integer(low, high), form)


def choice(*among: str) -> SettingKind:
    """Give the kind of settings that take one of several words."""
    return SettingKind(words.one_of(*among), "|".join(among))
