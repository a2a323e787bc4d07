"""Advice that names a setting, in the words of the command that runs.

The same setting has another name, or none, under each command: what `ie_serving` calls
`--rest_port` is `--rest_api_port` for `tensorflow_model_server`. So whoever raises an error names
the setting by its field, and the command that runs says once, at start, what it calls each field.
"""

import re
from collections.abc import Mapping

_FIELD = re.compile(r"\{([a-z0-9_.]+)\}")


class Hint:
    """Advice with settings in braces, such as `Hint("; raise {server.max_message_bytes}")`.

    As text it names each setting as the running command does, and is empty where that command
    lacks one of them: no advice is better than one that cannot be followed.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.said(_running)

    @property
    def fields(self) -> tuple[str, ...]:
        """The settings that it names."""
        return tuple(_FIELD.findall(self.text))

    def said(self, names: Mapping[str, str]) -> str:
        """Give the text in the words of one command; empty where it has no word for a setting.

        Args:
            names: the command's name of each field. Without any, fields stand for themselves.
        """
        # Without a word for it, the setting cannot be changed under this command.
        if names and not all(field in names for field in self.fields):
            return ""
        return _FIELD.sub(lambda match: names.get(match[1], match[1]), self.text)


_running: dict[str, str] = {}
"""The running command's name of each field. Written once at start, so that workers inherit it."""


def name_of(field: str) -> str:
    """Give what the running command calls a setting; empty where it has no word for it."""
    return _running.get(field, "")


def speak(names: Mapping[str, str]) -> None:
    """Let every hint name settings so from now on; `{}` lets fields stand for themselves."""
    _running.clear()
    _running.update(names)
