"""Options of the batching layer, which gathers requests for one model into batches.

Field names are those of TensorFlow Serving's BatchingParameters, where it has the word.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Batching:
    """Rules of one model, for each of its signatures. Rows are counted, not requests."""

    max_batch_size: int = 0
    """Most rows of a batch, a longer request is split; 0 takes the last of the allowed sizes, and
    gathers nothing where there are none."""

    batch_timeout_micros: int = 0
    """Longest time in microseconds that requests are gathered for a free lane while another lane
    works. On an idle model a request does not wait."""

    # A client that waits longer for its turn than a hundred batches take has mostly given up.
    max_enqueued_batches: int = 100
    """Full batches that may wait, in rows; beyond, requests are refused."""

    num_batch_threads: int = 0
    """Batches inferred at a time; 0 takes as many as the engine has infer requests."""

    allowed_batch_sizes: tuple[int, ...] = ()
    """Sizes that batches are filled up to, increasing; none allows any."""

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
