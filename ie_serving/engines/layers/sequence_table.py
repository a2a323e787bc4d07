"""The sequences of one version by id: admits or refuses the requests of sequences.

Texts of errors begin with those of OpenVINO Model Server, by which its clients know them.
"""

import secrets
from collections.abc import Iterable

from ie_serving.core.values.errors import (
    AlreadyExists,
    InvalidRequest,
    NotAvailable,
    NotFound,
    SequenceElsewhere,
    SequenceEnding,
)
from ie_serving.core.values.tensors import Arrays
from ie_serving.engines.layers.sequence import (
    ADMITTING,
    ANSWERED,
    ENDING,
    FAILED,
    STARTING,
    Control,
    Sequence,
    SequenceEvent,
    SequenceStage,
)
from ie_serving.engines.layers.sequence_family import Family

ID_BITS = 53
"""Ids that the server chooses are random and below 2^53: every JSON parser reads them exactly, and
one that a client still has from before a restart is not given to another."""

NOT_THERE = "Sequence with provided ID does not exist"


class SequenceTable:
    """Sequences of one version. Lives on the event loop.

    Args of the constructor:
        most: sequences at a time; a further one is refused.
        family: the tables of the model's other versions, which share one set of ids.

    Attributes:
        version: number of the version; None until it serves.
        drops_idle: whether sequences without requests are dropped.
        state_bytes: bytes that the states take.
    """

    def __init__(self, most: int, family: Family, *, drops_idle: bool = True) -> None:
        self.version: int | None = None
        self.drops_idle = drops_idle
        self._most = most
        self._family = family
        self._sequences: dict[int, Sequence] = {}
        self.state_bytes = 0

    def __len__(self) -> int:
        return len(self._sequences)

    def __contains__(self, number: object) -> bool:
        return number in self._sequences

    def serve(self, version: int) -> None:
        """Drop the warm-up's sequences, and join the family as this version."""
        self._forget_all()
        self.version = version
        self._family.join(self)

    def close(self) -> None:
        """Drop all sequences: the version is unloaded. In any thread, when no request is left."""
        self._family.leave(self, list(self._sequences))
        self._forget_all()

    def _forget_all(self) -> None:
        self._sequences.clear()
        self.state_bytes = 0

    # -- requests ------------------------------------------------------------------------------

    def admit(self, control: Control, number: int, signature: str) -> Sequence:
        """Find or make the sequence of a request that has arrived.

        The caller then waits for its turn, and calls `answered` or `failed`.

        Args:
            control: the request's place in the sequence.
            number: id; 0 for none.
            signature: signature that the request calls.

        Raises:
            InvalidRequest: there is no id, or the sequence was begun with another signature.
            NotFound: no such sequence; SequenceElsewhere where another version has it.
            AlreadyExists: a sequence of this id exists already.
            SequenceEnding: it exists, and its last request is not answered yet.
            NotAvailable: the limit of sequences is reached.
        """
        if control in STARTING:
            begun = self._begin(number, signature)
            if control in ENDING:
                begun.apply(SequenceEvent.END)
            return begun
        if not number:
            raise InvalidRequest(
                "Sequence ID has not been provided in request inputs: send sequence_id, or"
                " sequence_control_input 1 to start a sequence"
            )
        sequence = self._sequences.get(number)
        if sequence is None:
            raise self._missing(number)
        if sequence.stage not in ADMITTING:  # a client may just have cancelled the END
            raise NotFound(
                f"{NOT_THERE}: {number}, whose SEQUENCE_END is under way: if that fails the"
                " sequence goes on, and this request can be sent again; else start a new one"
            )
        _check_signature(sequence, signature)
        sequence.idle = False
        if control is Control.END:
            sequence.apply(SequenceEvent.END)
        return sequence

    def check(self, sequence: Sequence) -> None:
        """Refuse a request whose turn comes after the sequence has gone.

        Raises:
            NotFound: the START before it has failed.
        """
        if sequence.stage is SequenceStage.GONE:
            raise self._missing(sequence.number)

    def keep(self, sequence: Sequence, state: Arrays) -> None:
        """Let a sequence go on from another state."""
        before, sequence.state = sequence.state, state
        self.state_bytes += _size(state) - _size(before)

    def answered(self, control: Control, sequence: Sequence) -> None:
        """Note that a request was answered."""
        sequence.idle = False
        for event in ANSWERED[control]:
            self._move(event, sequence)

    def failed(self, control: Control, sequence: Sequence) -> None:
        """Note that a request has failed or was cancelled: it has changed nothing."""
        for event in FAILED[control]:
            self._move(event, sequence)

    def _move(self, event: SequenceEvent, sequence: Sequence) -> None:
        before, state = sequence.stage, sequence.state
        # Gone before: its id may be another sequence's by now, which must stay.
        if sequence.apply(event) is not SequenceStage.GONE or before is SequenceStage.GONE:
            return
        del self._sequences[sequence.number]
        self.state_bytes -= _size(state)

    def _begin(self, number: int, signature: str) -> Sequence:
        if number:
            self._check_free(number)
        if len(self._sequences) >= self._most:
            raise NotAvailable(
                "Max sequence number has been reached. Could not create new sequence. This version"
                f" keeps {self._most} (max_sequence_number): end some, or start it again later"
            )
        sequence = Sequence(number or self._unused(), signature)
        self._sequences[sequence.number] = sequence
        self._family.forget(sequence.number)
        return sequence

    def _check_free(self, number: int) -> None:
        """Refuse an id that is taken, by any version: a request may name none."""
        sequence = self._sequences.get(number)
        if sequence is not None and sequence.stage not in ADMITTING:
            raise SequenceEnding(
                "Sequence last request is being processed and it's not available anymore: start"
                f" sequence {number} again when that is answered"
            )
        other = self._family.version_of(number, self)
        if sequence is not None or other is not None:
            where = f" on version {other}" if other is not None else ""
            raise AlreadyExists(
                f"Sequence with provided ID already exists: {number}{where}; end it first, or take"
                " another id, or none to be given one"
            )

    def _unused(self) -> int:
        while True:
            number = secrets.randbits(ID_BITS)
            if number and number not in self and self._family.version_of(number, self) is None:
                return number

    def _missing(self, number: int) -> NotFound:
        other = self._family.version_of(number, self)
        if other is None:
            why = self._family.why_gone(number) or "; start it by sequence_control_input 1"
            return NotFound(f"{NOT_THERE}: {number}{why}")
        return SequenceElsewhere(
            f"{NOT_THERE}: {number} was started on version {other}; ask that version while it is"
            " AVAILABLE, or start a new sequence",
            other,
        )

    # -- clean-up ------------------------------------------------------------------------------

    def idle(self) -> list[Sequence]:
        """Give the sequences without a request since the last call."""
        if not self.drops_idle:
            return []
        found = [each for each in self._sequences.values() if _is_idle(each)]
        for sequence in self._sequences.values():
            sequence.idle = True
        return found

    def drop(self, idle: Iterable[Sequence]) -> list[int]:
        """Drop those that still have had none; give the ids."""
        dropped = [each for each in idle if _is_idle(each)]
        for sequence in dropped:
            self._move(SequenceEvent.IDLE, sequence)
        return [sequence.number for sequence in dropped]


def _size(state: Arrays) -> int:
    return sum([array.nbytes for array in state.values()])


def _is_idle(sequence: Sequence) -> bool:
    return sequence.idle and not sequence.turns.taken and sequence.stage is SequenceStage.OPEN


def _check_signature(sequence: Sequence, signature: str) -> None:
    if sequence.signature != signature:
        raise InvalidRequest(
            f'sequence {sequence.number} was started with signature "{sequence.signature}", and'
            f' this request calls "{signature}": call the same'
        )
