"""When the files of the versions that serve are listed again, to find those that were changed."""

COMPARED_EVERY = 30
"""Polls after which the files of the versions that serve are compared once more. For a thousand
idle models that takes about 0.2 % of a core."""


class Comparisons:
    """Those of one model.

    Attributes:
        polls_left: how many there are until files are compared, that one included. Whoever makes a
            poll counts it, in any thread, one at a time.
    """

    def __init__(self) -> None:
        self.polls_left = COMPARED_EVERY
        # Apart from the count, since a thread may be counting when the event loop asks.
        self._is_asked = False

    @property
    def is_next(self) -> bool:
        """Whether the next poll is to compare."""
        return self.polls_left <= 1 or self._is_asked

    def ask(self) -> None:
        """Compare at the next poll."""
        self._is_asked = True

    def begin_anew(self) -> None:
        """Count from the poll that compares."""
        self.polls_left, self._is_asked = COMPARED_EVERY, False
