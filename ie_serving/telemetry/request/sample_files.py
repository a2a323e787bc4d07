"""Keeps a bounded number of requests with two answers, in two files that belong together."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from glob import escape, glob
from typing import Any, Final

from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.metrics.recorded import RecordMetrics
from ie_serving.telemetry.request.record_files import RecordFiles

log = logging.getLogger(__name__)

ANSWERS, SHADOWS = "answers", "shadows"
"""Parts of the files' names."""
ANY_SIZE: Final = 1 << 62

Encode = Callable[[Any], bytes]
"""Gives the bytes of one record."""


class SampleFiles:
    """Writes each request to both files: with the answer that its client got, and the shadow's.

    So the record of a place in one file and that of the same place in the other are of one request,
    and each file alone can be replayed. Files of earlier starts count, too: their number of records
    is bounded, whatever happens.

    Args of the constructor:
        prefix: of the files' paths.
        most: records in all files of a kind, together with those that are there already.
        encode: writes a record.
        count: gives the number of records in a file.
    """

    def __init__(self, prefix: str, most: int, encode: Encode, count: Callable[[str], int]) -> None:
        self._prefix = prefix
        self._most = most
        self._encode = encode
        self._count = count
        self._left: int | None = None
        counts = RecordMetrics()
        self._troubled = False
        # Its thread is joined when the process ends, so that what waits is written.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="samples")
        self._answers, self._shadows = (
            RecordFiles(f"{prefix}-{kind}", ANY_SIZE, counts) for kind in (ANSWERS, SHADOWS)
        )

    def put(self, answer: object, shadow: object) -> None:
        """Write a request with both answers, unless there are enough; does not wait for it.

        Args:
            answer: what its client got.
            shadow: what the shadow has answered.
        """
        self._thread.submit(self._write, answer, shadow)

    def close(self, *, wait: bool = False) -> None:
        """Close the files once all that waits is written."""
        self._thread.submit(self._answers.end_file)
        self._thread.submit(self._shadows.end_file)
        self._thread.shutdown(wait=wait)

    def _write(self, answer: object, shadow: object) -> None:
        try:
            if self._left is None:
                kept = glob(f"{escape(self._prefix)}-{ANSWERS}-*.tfrecord")
                self._left = self._most - sum(map(self._count, kept))
            if self._left > 0:
                self._append(self._encode(answer), self._encode(shadow))
                self._left -= 1
        except Exception as error:
            if not self._troubled:  # once: the metric counts answers that differ
                event = Event("requests not recorded", prefix=self._prefix, cause=error)
                log.error(event, exc_info=not isinstance(error, OSError))
            self._troubled = True

    def _append(self, answer: bytes, shadow: bytes) -> None:
        """Write both, or neither."""
        self._shadows.append(shadow)
        try:
            self._answers.append(answer)
        except OSError:
            self._shadows.take_back(len(shadow))
            raise
