"""All settings, and their names in each command."""

from collections.abc import Mapping

from ie_serving.config.schema.model import MODEL
from ie_serving.config.schema.server import CONFIG_PATH, SERVER
from ie_serving.config.schema.setting import Setting
from ie_serving.config.schema.storage import STORES
from ie_serving.config.schema.tune import TUNE

SETTINGS: tuple[Setting, ...] = (CONFIG_PATH, *MODEL, *TUNE, *SERVER, *STORES)


BY_TFS: Mapping[str, Setting] = {setting.tfs: setting for setting in SETTINGS if setting.tfs}


def names_in_ie_serving(flags: tuple[Setting, ...]) -> dict[str, str]:
    """Name each setting by its flag, else by its key in the file, else by its variable.

    Args:
        flags: whose flags the running command takes.
    """
    # By place: to look for a setting itself would compare it with each of them, field by field.
    taken = {setting.place for setting in flags}
    found = {}
    for setting in SETTINGS:
        if setting.place in taken and setting.flag:
            found[setting.place] = f"--{setting.flag}"
        # A model of a file has no flags, but its settings can be set in the file.
        elif setting.key:
            found[setting.place] = f"{setting.key} in the configuration file"
        elif setting.variables:
            found[setting.place] = setting.variables[0]
    return found


def names_in_tensorflow_model_server() -> dict[str, str]:
    """Name each setting that this command has, by its flag, else by its variable."""
    flags = {setting.place: f"--{setting.tfs}" for setting in BY_TFS.values()}
    others = {
        setting.place: setting.variables[0]
        for setting in SETTINGS
        if setting.variables and not setting.tfs
    }
    return {**flags, **others}
