"""The kinds of values that several settings have."""

from typing import Final

from ie_serving.core.settings import numbers, words
from ie_serving.core.settings.declaration import Kind
from ie_serving.core.values.integers import INT64_MAX

BOOLEAN: Final = Kind(words.boolean, "true|false")
"""A flag of this kind may stand without a value, which means true."""
TEXT: Final = Kind(words.text, "TEXT")
FILE: Final = Kind(words.text, "FILE")
HTTP_URL: Final = Kind(words.http_url, "URL")
PORT: Final = Kind(numbers.port, "N")
COUNT: Final = Kind(numbers.positive, "N")
BYTES: Final = Kind(numbers.integer(0, INT64_MAX), "BYTES")
DELAY: Final = Kind(numbers.delay, "SECONDS")
TIMEOUT: Final = Kind(numbers.timeout, "SECONDS")
POLL_WAIT: Final = Kind(numbers.poll_wait, "SECONDS")


def whole(low: int, high: int, form: str = "N") -> Kind:
    """Give the kind of whole numbers from `low` to `high`."""
    return Kind(numbers.integer(low, high), form)


def choice(*among: str) -> Kind:
    """Give the kind of one word out of several."""
    return Kind(words.one_of(*among), "|".join(among))
