"""Keeps a bounded number of requests with two answers, in two files that belong together."""

from collections.abc import Callable
from functools import partial
from glob import escape, glob
from typing import Any, Final

from ie_serving.telemetry.metrics.recorded import RecordMetrics
from ie_serving.telemetry.request.record_files import RecordFiles

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
        self._answers, self._shadows = (
            RecordFiles(f"{prefix}-{kind}", ANY_SIZE, counts) for kind in (ANSWERS, SHADOWS)
        )

    def put(self, nbytes: int, answer: object, shadow: object) -> None:
        """Write a request with both answers, unless there are enough. In one thread at a time.

        Args:
            nbytes: what the two hold until they are written.
            answer: what its client got.
            shadow: what the shadow has answered.
        """
        if self._left is None:
            kept = glob(f"{escape(self._prefix)}-{ANSWERS}-*.tfrecord")
            self._left = self._most - sum(map(self._count, kept))
        if self._left > 0:
            self._left -= 1
            self._answers.put(nbytes, partial(self._encode, answer))
            self._shadows.put(nbytes, partial(self._encode, shadow))

    def close(self) -> None:
        """Close the files once all that waits is written; does not wait for it."""
        self._answers.close()
        self._shadows.close()
