"""Decides when a poll lists the files of serving versions again, to find changed files."""

COMPARED_EVERY = 30
"""Polls after which the files of the versions that serve are compared once more. For a thousand
idle models that takes about 0.2 % of a core."""


class Comparisons:
    """The file comparisons of one model.

    Attributes:
        polls_left: polls until files are compared, the comparing poll included. The thread that
            polls decrements it; a model is polled by one thread at a time.
    """

    def __init__(self) -> None:
        self.polls_left = COMPARED_EVERY
        # Apart from the count, since a thread may be counting when the event loop sets this.
        self.is_asked = False

    @property
    def is_next(self) -> bool:
        """Whether the next poll compares files."""
        return self.polls_left <= 1 or self.is_asked

    def ask(self) -> None:
        """Compare at the next poll."""
        self.is_asked = True

    def counted(self) -> bool:
        """Count a poll, in a thread; tell whether it compares files."""
        is_comparison = self.polls_left <= 1
        self.polls_left = COMPARED_EVERY if is_comparison else self.polls_left - 1
        return is_comparison

    def skip(self, polls: int) -> None:
        """Count polls that are not made, since the kernel tells of changes meanwhile."""
        self.polls_left -= polls

    def begin_anew(self) -> None:
        """Count from the poll that compares."""
        self.polls_left, self.is_asked = COMPARED_EVERY, False
