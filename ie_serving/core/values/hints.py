"""Hints: advice that names a setting in the words of the running command, or a known word.

The same setting has another name, or none, under each command: `--rest_port` of `ie_serving` is
`--rest_api_port` of `tensorflow_model_server`. So code that raises an error names the setting by
its field, and the running command registers its names of the fields once, at start.
"""

import difflib
import re
from collections.abc import Collection, Mapping

_FIELD = re.compile(r"\{([a-z0-9_.]+)\}")


class Hint:
    """Advice with settings in braces, such as `Hint("; raise {server.max_message_bytes}")`.

    As text it names each setting as the running command does, and is empty if that command lacks
    one of them: no advice is better than advice that cannot be followed.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.said(WORDS)

    @property
    def fields(self) -> tuple[str, ...]:
        """The settings that it names."""
        return tuple(_FIELD.findall(self.text))

    def said(self, names: Mapping[str, str]) -> str:
        """Return the text in the words of one command; empty if it has no word for a setting.

        Args:
            names: the command's name of each field. If empty, fields are named as they are.
        """
        # A setting without a word cannot be changed under this command.
        if names and not all(field in names for field in self.fields):
            return ""
        return _FIELD.sub(lambda match: names.get(match[1], match[1]), self.text)


WORDS: dict[str, str] = {}
"""The running command's name of each field. Written once at start, so that workers inherit it."""


def name_of(field: str) -> str:
    """Return the running command's name of a setting; empty if it has none."""
    return WORDS.get(field, "")


def speak(names: Mapping[str, str]) -> None:
    """Set the names that every hint uses from now on; `{}`: fields are named as they are."""
    WORDS.clear()
    WORDS.update(names)


def nearest(name: str, known: Collection[str]) -> str:
    """Return the end of an error text for an unknown name: `; did you mean "..."?`, or nothing."""
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f'; did you mean "{close[0]}"?' if close else ""
