"""The share of the machine that this process has among the workers of one server."""


class Share:
    """Set once in each process, before its first use.

    Attributes:
        workers: number of processes that divide the server's processors and memory.
    """

    def __init__(self) -> None:
        self.workers = 1

    def of(self, whole: int) -> int:
        """Return this process's part of a number, at least 1."""
        return max(1, whole // self.workers)

    def of_limit(self, whole: int) -> int:
        """Return this process's part of a limit; 0, which sets no limit, stays 0."""
        return self.of(whole) if whole else 0


SHARE = Share()
"""The share of this process."""
