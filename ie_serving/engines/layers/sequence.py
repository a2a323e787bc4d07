"""One sequence of requests: its stage, its state, and the order of its requests.

    starting   started      -> open
    starting   start failed -> gone
    starting   end          -> brief
    brief      started      -> ending
    brief      start failed -> gone
    brief      end failed   -> starting
    open       end          -> ending
    open       idle         -> gone
    ending     ended        -> gone
    ending     end failed   -> open

A request for a sequence that exists is admitted when it arrives and inferred when all that were
admitted before it have been: requests of a sequence never overtake each other. A START that fails
leaves nothing, an END that fails leaves the sequence as it was. `docs/guide/sequences.md` has the
rules for clients.
"""

import asyncio
import enum
from collections import deque
from collections.abc import Mapping
from typing import Final

from ie_serving.core.runtime.states import after
from ie_serving.core.values.errors import QueueFull
from ie_serving.core.values.tensors import Arrays

MOST_SEQUENCE_WAITERS = 100
"""Requests that wait for their turn in one sequence; the next is refused. A client that is so many
steps ahead of the answers will not see them in time."""


class Control(enum.IntEnum):
    """A request's place in the sequence. Source: OpenVINO Model Server, but for `ONLY`."""

    NONE = 0
    START = 1
    END = 2
    ONLY = 3
    """It starts the sequence and ends it, as Triton's clients may ask."""


class SequenceStage(enum.Enum):
    """Where a sequence is in its life."""

    STARTING = "starting"
    """The request that starts it is not answered yet."""
    BRIEF = "brief"
    """The request that starts it is not answered yet, and the one that ends it has arrived
    already."""
    OPEN = "open"
    """Started; requests may come."""
    ENDING = "ending"
    """The request that ends it has arrived; no other is admitted."""
    GONE = "gone"
    """The sequence is over; its id may be used again."""


class SequenceEvent(enum.Enum):
    """Events that move a sequence to another stage."""

    STARTED = "started"
    """The request that starts it was answered."""
    START_FAILED = "start failed"
    """The request that starts it failed, or its client has left."""
    END = "end"
    """A request that ends it has arrived."""
    ENDED = "ended"
    """The request that ends it was answered."""
    END_FAILED = "end failed"
    """The request that ends it failed, or its client has left."""
    IDLE = "idle"
    """No request came for too long."""


TRANSITIONS: Final[Mapping[SequenceStage, Mapping[SequenceEvent, SequenceStage]]] = {
    SequenceStage.STARTING: {
        SequenceEvent.STARTED: SequenceStage.OPEN,
        SequenceEvent.START_FAILED: SequenceStage.GONE,
        SequenceEvent.END: SequenceStage.BRIEF,
    },
    SequenceStage.BRIEF: {
        SequenceEvent.STARTED: SequenceStage.ENDING,
        SequenceEvent.START_FAILED: SequenceStage.GONE,
        SequenceEvent.END_FAILED: SequenceStage.STARTING,
    },
    SequenceStage.OPEN: {
        SequenceEvent.END: SequenceStage.ENDING,
        SequenceEvent.IDLE: SequenceStage.GONE,
    },
    SequenceStage.ENDING: {
        SequenceEvent.ENDED: SequenceStage.GONE,
        SequenceEvent.END_FAILED: SequenceStage.OPEN,
    },
    # The END that waited for a START which failed.
    SequenceStage.GONE: {SequenceEvent.END_FAILED: SequenceStage.GONE},
}

ADMITTING = frozenset({SequenceStage.STARTING, SequenceStage.OPEN})
"""Stages in which further requests are admitted."""

STARTING: Final = (Control.START, Control.ONLY)
ENDING: Final = (Control.END, Control.ONLY)

ANSWERED: Final[Mapping[Control, tuple[SequenceEvent, ...]]] = {
    Control.NONE: (),
    Control.START: (SequenceEvent.STARTED,),
    Control.END: (SequenceEvent.ENDED,),
    Control.ONLY: (SequenceEvent.STARTED, SequenceEvent.ENDED),
}
FAILED: Final[Mapping[Control, tuple[SequenceEvent, ...]]] = {
    Control.NONE: (),
    Control.START: (SequenceEvent.START_FAILED,),
    Control.END: (SequenceEvent.END_FAILED,),
    Control.ONLY: (SequenceEvent.START_FAILED,),
}
"""The event of a failed request, by its control; other controls move nothing."""


class Sequence:
    """One sequence. Lives on the event loop.

    Attributes:
        number: its id.
        signature: name of the signature that started it, which all its requests call.
        stage: present stage.
        state: the state after the last answered request, by name; empty before the first.
        idle: whether no request came since the last scan.
        turns: turns of admitted requests, in the order of their arrival.
    """

    __slots__ = ("idle", "number", "signature", "stage", "state", "turns")

    def __init__(self, number: int, signature: str) -> None:
        self.number = number
        self.signature = signature
        self.stage = SequenceStage.STARTING
        self.state: Arrays = {}
        self.idle = False
        self.turns = SequenceTurns()

    def apply(self, event: SequenceEvent) -> SequenceStage:
        """Move on, and return the new stage.

        Raises:
            IllegalMove: the table has no such move; nothing has changed.
        """
        self.stage = following = after(TRANSITIONS, self.stage, event, f"sequence {self.number}")
        # A request that still waits holds the sequence, and would hold the memory of its state.
        if following is SequenceStage.GONE:
            self.state = {}
        return following


class SequenceTurns:
    """Lets one request in at a time, in the order of their arrival. Lives on the event loop.

    Attributes:
        taken: whether a request is in.
    """

    __slots__ = ("_waiting", "taken")

    def __init__(self) -> None:
        self.taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        """Wait for the turn.

        Raises:
            QueueFull: `MOST_SEQUENCE_WAITERS` wait already.
        """
        if not self.taken:
            self.taken = True
            return
        if len(self._waiting) >= MOST_SEQUENCE_WAITERS:
            raise QueueFull(
                f"{MOST_SEQUENCE_WAITERS} requests wait in this sequence already: send the next one"
                " when some are answered"
            )
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove(turn)
            else:  # it had been let in already
                self.release()
            raise

    async def __aexit__(self, *_: object) -> None:
        """End the turn."""
        self.release()

    def release(self) -> None:
        """Let the next request in, whose client has not left."""
        turn = next((turn for turn in self._waiting if not turn.done()), None)
        self.taken = turn is not None
        if turn is not None:
            self._waiting.remove(turn)
            turn.set_result(None)
