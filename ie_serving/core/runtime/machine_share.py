"""The part of the machine that this process has, beside others of the same server."""


class Share:
    """Set once in each process, before anything asks.

    Attributes:
        workers: how many processes divide what the server may take of processors and memory.
    """

    def __init__(self) -> None:
        self.workers = 1

    def of(self, whole: int) -> int:
        """Give this process's part of a number, at least 1."""
        return max(1, whole // self.workers)

    def of_limit(self, whole: int) -> int:
        """The same of a limit; 0, which sets none, stays 0."""
        return self.of(whole) if whole else 0


SHARE = Share()
"""Of this process."""
