"""A setting is declared once, on the field that holds its value.

    rest_port: int = PORT.setting(0, "REST port; 0 is off", "8000", tfs="rest_api_port")

Parsers, flags, keys, variables, `--help`, checks, the words of errors and the tables of `docs/`
follow from it: `config/schema/catalogue.py` collects the declarations of all owners.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

from ie_serving.core.settings.faults import Parser

T = TypeVar("T")
_UNITS: Final = {"s": "seconds", "us": "microseconds"}
"""Units at the ends of fields' names, as words of users spell them."""

NOTHING: Final[Mapping[str, Any]] = {}
REQUIRED: Final[Any] = dataclasses.MISSING
"""In place of a default, where there must be a value."""


class Setting(NamedTuple):
    """One setting, as its declaration and its owner say.

    Attributes:
        place: owner and field, such as `server.port`; also its name in a `core.values.hints.Hint`.
        parse: reads text, or JSON where it has a key, and checks it.
        form: how a value is written; that of a number names its unit.
        meaning: its effect.
        example: a useful value as text.
        shown_default: as people read it.
        required: whether there must be a value; then there is no default.
        flag: of `ie_serving`, without dashes; empty when it has none.
        tfs: flag of `tensorflow_model_server`, without dashes. Its unit and default are the
            original's; `config/dialects/tfs_flags.py` has them.
        key: of a model in the JSON file.
        variables: of the environment. The first one that is not empty counts, where no flag of the
            running command says otherwise.
        reads: how a variable's text is read, where a variable of 2020 has words of its own.
        ovms: parameters or keys of OpenVINO Model Server with this meaning, in any form.
        for_all: whether `ie_serving config` has the flag too, for models that do not say it.
        merged: whether the value goes into another setting's field instead of one of its own.
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
    place: str = ""
    flag: str = ""
    key: str = ""
    merged: bool = False

    @property
    def owner(self) -> str:
        """The part of the configuration that it belongs to."""
        return self.place.partition(".")[0]

    @property
    def field(self) -> str:
        """Its field of the owner."""
        return self.place.partition(".")[2]

    @property
    def help(self) -> str:
        """Meaning and default, in one line."""
        default = self.shown_default if self.required else f"default: {self.shown_default}"
        return f"{self.meaning} ({default})"


class SettingKind(NamedTuple):
    """What values a setting takes.

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
        is_secret: bool = False,
        merges: Mapping[str, Any] = NOTHING,
    ) -> T:
        """Declare a setting of this kind, on its field of a dataclass; see `Setting`.

        Args:
            default: of the field, or `REQUIRED`.
            meaning: see `Setting`.
            example: a useful value as text; of a boolean, by default, the other one.
            shown: the default as people read it; `required` where people must give a value.
            word: its flag and its key; by default the field's name with its unit spelt out.
            flag: where it differs from the key; empty for none.
            tfs: see `Setting`.
            ovms: with blanks between them.
            variables: with blanks between them.
            reads: see `Setting`.
            for_all: see `Setting`.
            is_secret: whether the owner's `repr` leaves the value out.
            merges: declarations of settings by name, whose values go into this field as well.
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
        )
        said: dict[str, Any] = {"setting": made, "word": word, "flag": flag, "merges": merges}
        if default is REQUIRED:
            value: dict[str, Any] = {}
        elif isinstance(default, dict):
            value = {"default_factory": default.copy}
        else:
            value = {"default": default}
        # Of the field the dataclass makes a value.
        found: T = dataclasses.field(**value, repr=not is_secret, metadata=said)
        return found


def declared(name: str, owner: type, *, flags: bool = False, keys: bool = False) -> list[Setting]:
    """List the settings of an owner in the order of their fields.

    Args:
        name: of the owner, the first word of their places.
        owner: dataclass with the fields.
        flags: whether they are flags of `ie_serving`.
        keys: whether they are keys of a model.
    """
    found: list[Setting] = []
    for field in dataclasses.fields(owner):
        said = field.metadata
        if not said:
            continue
        word = _spelt(field.name) if said["word"] is None else said["word"]
        flag = word if said["flag"] is None else said["flag"]
        words = {"flag": flag if flags else "", "key": word if keys else ""}
        found.append(said["setting"]._replace(place=f"{name}.{field.name}", **words))
        for merged, other in said["merges"].items():
            made = other.metadata["setting"]
            found.append(made._replace(place=f"{name}.{merged}", merged=True))
    return found


def fields_of(owner: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Take the values of one owner out of `found`, which has them by place; by field."""
    start = f"{owner}."
    return {
        place.removeprefix(start): value
        for place, value in found.items()
        if place.startswith(start)
    }


def _spelt(field: str) -> str:
    """Give the word of users for a field: `poll_wait_s` is `poll_wait_seconds`."""
    stem, mark, unit = field.rpartition("_")
    return stem + mark + _UNITS.get(unit, unit)


def _written(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default) or "none"
