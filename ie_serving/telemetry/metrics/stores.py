"""Metrics of requests to remote stores, by outcome, and of the bytes received."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ie_serving.telemetry.metrics.text import family, sample

STORE_CALLS: Final = "ie_serving_store_calls_total"
STORE_BYTES: Final = "ie_serving_store_received_bytes_total"


class StoreMetrics:
    """The requests to all stores of this process. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Counter[tuple[str, str, str]] = Counter()
        self._bytes: Counter[str] = Counter()

    @contextmanager
    def call(self, url: str, action: str) -> Iterator[None]:
        """Count the body as one call, by the class of the error that ends it.

        Args:
            url: its scheme names the store.
            action: its first word is the operation: `list` or `read`.
        """
        result = "ok"
        try:
            yield
        except Exception as error:
            result = type(error).__name__
            raise
        finally:
            with self._lock:
                self._calls[_scheme(url), action.partition(" ")[0], result] += 1

    def received(self, url: str, size: int) -> None:
        """Count bytes of a download."""
        with self._lock:
            self._bytes[_scheme(url)] += size

    def lines(self) -> Iterator[str]:
        """Yield the samples, none before the first call."""
        with self._lock:
            calls, received = dict(self._calls), dict(self._bytes)
        yield from family(
            STORE_CALLS,
            "counter",
            "Listings and reads of remote stores by how they ended.",
            (
                sample(STORE_CALLS, number, store=store, operation=operation, result=result)
                for (store, operation, result), number in calls.items()
            ),
        )
        yield from family(
            STORE_BYTES,
            "counter",
            "Bytes that were downloaded.",
            (sample(STORE_BYTES, size, store=store) for store, size in received.items()),
        )


def _scheme(url: str) -> str:
    return url.partition("://")[0]


STORES: Final = StoreMetrics()
"""The metrics of this process."""
