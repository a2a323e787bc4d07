"""The configuration in force, setting by setting as their fields declare them; no secrets.

A secret is recognised by its name, and by its field, which the class's own `repr` leaves out. All
other values are masked like a line of the log.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Final

from ie_serving.config.schema.catalogue import MODEL, OWN, SERVER, STORES
from ie_serving.config.settings import ServerSettings
from ie_serving.core.settings.declaration import Setting
from ie_serving.core.values.hints import name_of
from ie_serving.models.configuration import ModelConfig
from ie_serving.storage.options import StorageOptions
from ie_serving.storage.stores import KINDS
from ie_serving.telemetry.log.events import is_secret, mask

IN_FILE: Final = " in the configuration file"
"""Suffix that advice in a sentence has behind the name of a key."""
SET: Final = "(set, not shown)"
"""Shown in place of a secret."""
LONGEST: Final = 2000
"""Most characters of one value: a graph in a configuration may have a hundred thousand."""


def configuration(server: ServerSettings, storage: StorageOptions) -> list[dict[str, Any]]:
    """Describe every setting of the server and of its stores."""
    owners = {
        "server": server,
        "storage": storage,
        **{name: storage.of(kind) for name, kind in KINDS.items()},
    }
    return _described((*SERVER, *STORES), owners)


def of_model(config: ModelConfig) -> list[dict[str, Any]]:
    """Describe the settings of one model that differ from their defaults."""
    own: dict[str, Any] = {owner: config.engine.of(kind) for owner, kind in OWN.items()}
    shown = _described(MODEL, {"model": config, "engine": config.engine, **own})
    return [each for each in shown if each["changed"]]


def _described(settings: tuple[Setting, ...], owners: Mapping[str, Any]) -> list[dict[str, Any]]:
    # A setting that is stored in another setting's field has no field of its own.
    held = [s for s in settings if s.owner in owners and s.field in _fields(owners[s.owner])]
    return [_one(setting, owners[setting.owner]) for setting in held]


def _one(setting: Setting, owner: object) -> dict[str, Any]:
    field = _fields(owner)[setting.field]
    value = getattr(owner, setting.field)
    hidden = not field.repr or is_secret(setting.field)
    # The name in the running command; the field's name if that command has no word for the setting.
    said = name_of(setting.name) or setting.name
    return {
        "name": said.removesuffix(IN_FILE),
        "value": (SET if value else "") if hidden else _text(value),
        "changed": _default(field) not in (value, dataclasses.MISSING),
        "default": setting.shown_default,
        "meaning": setting.meaning,
    }


def _fields(owner: Any) -> dict[str, dataclasses.Field[Any]]:  # noqa: ANN401  any dataclass
    return {field.name: field for field in dataclasses.fields(owner)}


def _default(field: dataclasses.Field[Any]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or value == "":
        return ""
    if dataclasses.is_dataclass(value):
        return _cut(mask(_worded(value)))
    if isinstance(value, Mapping | tuple | list | frozenset):
        return _cut(mask(json.dumps(_without_secrets(value), default=str)))
    return _cut(mask(f"{value:g}" if isinstance(value, float) else str(value)))


def _worded(value: Any) -> str:  # noqa: ANN401  any dataclass
    """Write a dataclass as its own text, else as its name and fields: `latest num_versions=2`."""
    if "__str__" in vars(type(value)):  # as a flag takes it, such as `FILE:NAME`
        return str(value)
    found = [f"{field.name}={getattr(value, field.name)}" for field in dataclasses.fields(value)]
    return " ".join([type(value).__name__.lower(), *found])


def _without_secrets(value: object) -> object:
    """Mask the secrets in a value of settings, at any depth."""
    if isinstance(value, Mapping):
        return {
            key: SET if is_secret(str(key)) else _without_secrets(each)
            for key, each in value.items()
        }
    if isinstance(value, tuple | list | frozenset):
        return [_without_secrets(each) for each in value]
    return value


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"
