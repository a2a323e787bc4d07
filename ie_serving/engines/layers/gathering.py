"""The batching policy: which requests make a batch, and when it is sent. No clock or event loop.

Requests wait in groups of one form (the shapes of their rows), each in the order of arrival. A
batch is sent while a *lane* is free, that is while fewer batches than lanes are being inferred:

- at once on an idle model;
- else when a group has rows for a full batch, when its oldest request has waited for the time limit
  (0: as soon as a lane is free), or when rows of other groups make up for the missing ones.

Where the engine can queue a batch beyond the running one (`BatchRules.ahead`), a batch is sent
ahead as soon as as many rows wait as the last batch had. Sent sooner, it would be smaller than
necessary; sent later, the engine would idle between the two batches.

A *turn* is the set of requests that the event loop reads in one iteration. Where inferences run on
the event loop, each ends before the next request of the turn is read: no lane would ever be busy,
and no batch would form. So requests of one turn share a batch only if the first waits for the end
of the turn, which costs a callback that a lone client should not pay. Therefore most requests go at
once, and only some turns are observed; if an observed turn had several requests, requests of the
next turns wait for the end of theirs. They wait only for requests that have already arrived.
"""

import enum
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Generic, TypeVar

from ie_serving.core.values.errors import QueueFull, advised
from ie_serving.core.values.hints import Hint

T = TypeVar("T")

WATCHED_EVERY = 8
"""One in eight immediate requests opens an observed turn. A callback of the event loop costs some
5 us, a tenth of a tiny request."""

CROWDED_TURNS = 16
"""After a turn of several requests, so many turns have their requests wait for their end. With
fewer, a few clients whose requests at times come one by one would no longer be batched."""


class Reason(str, enum.Enum):
    """Why a batch was sent with the rows that it has."""

    FULL = "full"
    TIMEOUT = "timeout"
    LANE_FREE = "lane_free"
    AHEAD = "ahead"  # as many rows as the last batch had; it is inferred behind that
    ALLOWED_SIZE = "allowed_size"  # cut to one; the rest waits for the next batch
    OTHER_SHAPE = "other_shape"  # the other waiting requests have rows of another form


@dataclass(frozen=True, kw_only=True)
class BatchRules:
    """The parameters of the policy.

    Attributes:
        rows: most rows of a batch.
        lanes: batches that are inferred at a time.
        timeout_s: longest wait in seconds for more rows, while another lane works.
        sizes: sizes to which batches are padded, increasing, `rows` the last; empty for any.
        most_waiting: rows that may wait, of requests that fit into a batch; and as many rows of
            requests that are cut into pieces.
        ahead: whether a batch is sent before there is a lane for it.
    """

    rows: int
    lanes: int = 1
    timeout_s: float = 0.0
    sizes: tuple[int, ...] = ()
    most_waiting: int = 1 << 62
    ahead: bool = False

    @property
    def likely_sizes(self) -> Iterator[int]:
        """Yield the sizes that batches may have, those that a busy server sends most first."""
        return iter(self.sizes[::-1] or chain((self.rows,), range(1, self.rows)))

    @property
    def count_of_sizes(self) -> int:
        """Number of `likely_sizes`."""
        return len(self.sizes) or self.rows

    def size_for(self, rows: int) -> int:
        """Give the size that so many rows are filled up to."""
        return next((size for size in self.sizes if size >= rows), rows)

    def cut(self, rows: int) -> int:
        """Give the largest batch that so many rows make without being filled up, if there is one.

        Fewer rows than the smallest size are filled up to it.
        """
        if rows >= self.rows:
            return self.rows
        return max((size for size in self.sizes if size <= rows), default=rows)


@dataclass(eq=False, slots=True)
class WaitingRows(Generic[T]):
    """A request that waits, or one piece of it.

    Attributes:
        content: whatever the caller wants back.
        rows: number of rows, at most those of a batch.
        form: parts of equal forms may share a batch.
        since: time at which it came, in seconds.
        is_piece: its request has others.
    """

    content: T
    rows: int
    form: Hashable
    since: float
    is_piece: bool = False


@dataclass(frozen=True, slots=True)
class Batch(Generic[T]):
    """Requests that are inferred together: `rows` in all."""

    parts: Sequence[WaitingRows[T]]
    rows: int
    reason: Reason


@dataclass(eq=False, slots=True)
class _Group(Generic[T]):
    """Waiting parts of one form, the oldest first; a dictionary, so that any can leave."""

    parts: dict[WaitingRows[T], None] = field(default_factory=dict)
    rows: int = 0

    @property
    def oldest(self) -> WaitingRows[T]:
        return next(iter(self.parts))


class Gatherer(Generic[T]):
    """The waiting and the running requests. Every event is one call; `take` gives the batches.

    Attributes:
        rules: parameters of the policy.
        waiting: rows that wait.
        pieces: waiting rows of requests that were cut.
        busy: lanes that are not free; one more than all lanes while a batch is sent ahead.
        in_turn: requests of the turn that is open; 0 while none is.
    """

    def __init__(self, rules: BatchRules) -> None:
        self.rules = rules
        self.waiting = 0
        self.pieces = 0
        self.busy = 0
        self.in_turn = 0
        self._last_rows = 1  # of the last batch sent
        self._groups: dict[Hashable, _Group[T]] = {}
        self._crowded = 0  # turns for which requests still wait for the end of theirs
        self._unwatched = WATCHED_EVERY - 1  # the very first is watched

    def arrive(self, whole: bool = True, brief: bool = False) -> bool:
        """Tell whether a request may be inferred alone, at once; if not, the caller adds it.

        If so, it holds a lane until `free_lane`. Where it has opened a turn (`in_turn` is set), the
        caller must call `end_turn` at the end of the turn.

        Args:
            whole: whether it can be a batch as it is; else it must be split or padded.
            brief: whether batching would cost more time than its inference.
        """
        if not self._goes_at_once(whole, brief):
            self.in_turn += 1
            return False
        self.busy += 1
        self._last_rows = 1
        self._unwatched += 1
        if self._unwatched >= WATCHED_EVERY:
            self._unwatched = 0
            self.in_turn += 1
        return True

    def _goes_at_once(self, whole: bool, brief: bool) -> bool:
        alone = brief or not (self.in_turn or self._crowded)
        if not (alone and whole) or self.waiting:
            return False
        return self.busy == 0 or (self.busy < self.rules.lanes and not self.rules.timeout_s)

    def end_turn(self) -> None:
        """Take note that everything which had arrived has been added."""
        self._crowded = CROWDED_TURNS if self.in_turn > 1 else max(0, self._crowded - 1)
        self.in_turn = 0

    def add(self, parts: Sequence[WaitingRows[T]]) -> None:
        """Let a request wait, all its pieces or none.

        Raises:
            QueueFull: too many rows wait already.
        """
        is_cut = len(parts) > 1
        rows = sum([part.rows for part in parts]) if is_cut else parts[0].rows
        # Apart: a request of thousands of rows would leave no room for those of a few.
        waiting = self.pieces if is_cut else self.waiting - self.pieces
        # A request of more rows than may wait is taken where none waits, or it never could be.
        if waiting and waiting + rows > self.rules.most_waiting:
            raise QueueFull(
                advised(
                    "The batch scheduling queue to which this task was submitted is full",
                    f": {waiting} rows wait, {self.rules.most_waiting} may; ask again later"
                    f"{Hint(', or raise {batching.max_enqueued_batches}')}",
                )
            )
        if is_cut:
            self.pieces += rows
        for part in parts:
            part.is_piece = is_cut
            group = self._groups.get(part.form)
            if group is None:
                group = self._groups[part.form] = _Group()
            group.parts[part] = None
            group.rows += part.rows
        self.waiting += rows

    def remove(self, part: WaitingRows[T]) -> None:
        """Forget a part that is no longer wanted, if it still waits."""
        group = self._groups.get(part.form)
        if group is not None and part in group.parts:
            self._leave(group, part)

    def free_lane(self) -> None:
        """Free the lane of a batch, or of a lone request, that has ended."""
        self.busy -= 1

    def take(self, now: float) -> Batch[T] | None:
        """Give a batch to send now, if there is one; it holds a lane from then on."""
        if self.busy >= self.rules.lanes:
            return self._take_ahead()
        for group in self._by_age():
            why = self._due(group, now)
            if why is not None:
                self.busy += 1
                return self._batch(group, why)
        return None

    def _take_ahead(self) -> Batch[T] | None:
        rules = self.rules
        if not rules.ahead or self.busy > rules.lanes or self.in_turn or not self._groups:
            return None
        # The oldest alone: it would never come, were those of others always sent ahead of it.
        group = self._by_age()[0]
        if group.rows < self._last_rows:
            return None
        self.busy += 1
        return self._batch(group, Reason.AHEAD)

    def due_at(self) -> float | None:
        """Tell when, with nothing else happening, `take` gives a batch; None if that is never."""
        if self.busy >= self.rules.lanes or self.in_turn or not self._groups:
            return None
        return min(each.oldest.since for each in self._groups.values()) + self.rules.timeout_s

    def _by_age(self) -> Sequence[_Group[T]]:
        groups = list(self._groups.values())
        if len(groups) > 1:
            # The oldest first, so that no form waits for ever behind the others.
            groups.sort(key=lambda each: each.oldest.since)
        return groups

    def _due(self, group: _Group[T], now: float) -> Reason | None:
        """Say why a batch of the group is due, if it is."""
        rules = self.rules
        if group.rows >= rules.rows:
            return Reason.FULL
        if self.in_turn:
            return None
        others = self.waiting > group.rows
        if not self.busy or not rules.timeout_s:
            return Reason.OTHER_SHAPE if others else Reason.LANE_FREE
        if now >= group.oldest.since + rules.timeout_s:
            return Reason.TIMEOUT
        return Reason.OTHER_SHAPE if self.waiting >= rules.rows else None

    def _batch(self, group: _Group[T], why: Reason) -> Batch[T]:
        before = group.rows
        most = max(self.rules.cut(before), self.rules.size_for(group.oldest.rows))
        if before <= most:  # mostly all of it
            parts, rows = list(group.parts), before
            self.waiting -= before
            if self.pieces:
                self.pieces -= sum([part.rows for part in parts if part.is_piece])
            del self._groups[parts[0].form]
        else:
            parts, rows = self._first(group, most)
        if rows < before and why is not Reason.FULL:
            why = Reason.ALLOWED_SIZE
        self._last_rows = rows
        return Batch(parts, rows, why)

    def _first(self, group: _Group[T], most: int) -> tuple[list[WaitingRows[T]], int]:
        """Take the oldest parts, of at most `most` rows together; give them and their rows."""
        parts: list[WaitingRows[T]] = []
        rows = 0
        for part in group.parts:
            if rows + part.rows > most:
                break
            parts.append(part)
            rows += part.rows
        for part in parts:
            self._leave(group, part)
        return parts, rows

    def _leave(self, group: _Group[T], part: WaitingRows[T]) -> None:
        del group.parts[part]
        group.rows -= part.rows
        self.waiting -= part.rows
        self.pieces -= part.rows * part.is_piece
        if not group.parts:
            del self._groups[part.form]
