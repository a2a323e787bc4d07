"""Options of the batching layer, which gathers requests for one model into batches.

Field names are those of TensorFlow Serving's BatchingParameters, where it has the word.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ie_serving.core.settings.declaration import COUNT, SettingKind, whole
from ie_serving.core.settings.faults import fault
from ie_serving.core.settings.numbers import whole as whole_number
from ie_serving.core.values.integers import INT32_MAX


def batch_sizes(value: object, place: str) -> tuple[int, ...]:
    """Read increasing sizes: a list of JSON, or numbers between commas, in brackets or not."""
    given = _listed(value) if isinstance(value, str) else value
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise fault(place, value, "a list of sizes such as [8, 16, 32]")
    sizes = [whole_number(each) for each in given]
    known = [size for size in sizes if size is not None and 1 <= size <= INT32_MAX]
    if len(known) < len(sizes) or any(low >= high for low, high in pairwise(known)):
        raise fault(place, value, "whole numbers from 1, each larger than the one before")
    return tuple(known)


def _listed(value: str) -> Sequence[str]:
    text = value.strip()
    inner = text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text
    return inner.split(",") if inner.strip() else []


@dataclass(frozen=True, kw_only=True)
class Batching:
    """Rules of one model, for each of its signatures. Rows are counted, not requests."""

    max_batch_size: int = whole(0, INT32_MAX, "ROWS").setting(
        0,
        "gather requests into batches of at most so many rows; longer requests are split; 0"
        " gathers none",
        "32",
        is_common=True,
    )
    """Most rows of a batch, a longer request is split; 0 takes the last of the allowed sizes, and
    gathers nothing where there are none."""

    batch_timeout_micros: int = whole(0, INT32_MAX, "MICROSECONDS").setting(
        0,
        "longest time that a batch is gathered for a free lane while another lane works; a"
        " request that finds the model idle goes at once",
        "1000",
    )
    allowed_batch_sizes: tuple[int, ...] = SettingKind(batch_sizes, "[ROWS,..]").setting(
        (),
        "sizes that batches are filled up to, increasing; the largest is max_batch_size",
        "[8,16,32]",
        shown="any",
    )
    # A client that waits longer for its turn than a hundred batches take has mostly given up.
    max_enqueued_batches: int = COUNT.setting(
        100,
        "full batches whose rows may wait for each signature; beyond, requests get"
        " RESOURCE_EXHAUSTED or 429",
        "10",
    )
    num_batch_threads: int = whole(0, 1000).setting(
        0, "batches of a signature that are inferred at a time (lanes)", "2", shown="nireq"
    )
    """Batches inferred at a time; 0 takes as many as the engine has infer requests."""

    most_request_rows: int = 0
    """Rows from which a request is refused instead of split; 0 splits every one."""

    in_version: bool = False
    """Take `batching_params.pbtxt` of the version directory instead, and gather nothing where there
    is none; lanes are these."""

    @property
    def rows(self) -> int:
        """Most rows of a batch; 0 where nothing is gathered."""
        return self.max_batch_size or max(self.allowed_batch_sizes, default=0)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes that batches are filled up to, the largest batch among them; empty for any."""
        if not self.allowed_batch_sizes:
            return ()
        return (*(size for size in self.allowed_batch_sizes if size < self.rows), self.rows)
