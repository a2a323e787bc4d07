"""Reads settings from variables of the environment, which hold for every command.

An empty variable counts as not set. A command reads the variables of the settings for which it has
no flag, or whose flag is not given.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ie_serving.config.schema.catalogue import STORES
from ie_serving.core.settings import words
from ie_serving.core.settings.declaration import Setting, fields_of
from ie_serving.core.settings.faults import Faults
from ie_serving.core.values.errors import ConfigError
from ie_serving.storage.options import StorageOptions
from ie_serving.storage.stores import KINDS

LOG_LEVEL = "LOG_LEVEL"
LOG_PATH = "LOG_PATH"


def read(settings: Iterable[Setting], environ: Mapping[str, str], faults: Faults) -> dict[str, Any]:
    """Read the variables of `settings`.

    Args:
        settings: those whose variables count.
        environ: the process's environment.
        faults: takes the faults, by variable.

    Returns:
        Value of each valid setting, by its place.
    """
    found: dict[str, Any] = {}
    for setting in settings:
        # Manifests and shells set a variable to nothing in order to unset it.
        name = next((name for name in setting.variables if environ.get(name)), None)
        if name is not None:
            value = faults.take(setting.reads or setting.parse, environ[name], name)
            found |= {} if value is None else {setting.name: value}
    return found


def warnings(environ: Mapping[str, str]) -> list[str]:
    """Give a warning for each variable that is accepted although its value is wrong."""
    given = environ.get(LOG_LEVEL)
    if not given:
        return []
    try:
        words.log_level(given, LOG_LEVEL)
    except ConfigError as error:
        return [f"{error}; INFO is used"]
    return []


def storage_options(
    environ: Mapping[str, str],
    faults: Faults,
    *,
    cache_dir: Path | None = None,
    own_hosts_are_plain: bool = False,
    **more: int,
) -> StorageOptions:
    """Read the connection options of each store.

    Args:
        environ: the process's environment.
        faults: takes the faults, by variable.
        cache_dir: None means `ie_serving` in the user's cache directory.
        own_hosts_are_plain: whether a private endpoint without a scheme is HTTP, as in OpenVINO
            Model Server; otherwise each endpoint without a scheme is HTTPS.
        more: other fields of the options, which have flags instead of variables.
    """
    found = read(STORES, environ, faults)
    return StorageOptions(
        cache_dir=cache_dir or _user_cache(environ),
        own=tuple(
            kind.read(fields_of(name, found), environ, own_hosts_are_plain)
            for name, kind in KINDS.items()
        ),
        **more,
    )


def _user_cache(environ: Mapping[str, str]) -> Path:
    """Source: XDG Base Directory Specification."""
    # The user of a container may have no home.
    base = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or "/tmp") / ".cache")
    return Path(base) / "ie_serving"
