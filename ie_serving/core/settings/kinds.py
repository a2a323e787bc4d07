"""The kinds of values that several settings share."""

from typing import Final

from ie_serving.core.settings import numbers, words
from ie_serving.core.settings.declaration import SettingKind
from ie_serving.core.values.integers import INT64_MAX

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
