"""What a model's entry says of the Python code that answers for it. Settings hold it."""

from dataclasses import dataclass

INLINE, THREAD, PROCESS = "inline", "thread", "process"
"""How a kernel is run: in threads that all models share, in threads or in processes of its own."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a kernel stands: `FILE[:NAME]`.

    Attributes:
        file: in the version directory, else beside the configuration; or absolute.
        name: of a class, a function or an object; empty: the one class there is.
        beside: directory of the configuration.
    """

    file: str
    name: str = ""
    beside: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.name}" if self.name else self.file


@dataclass(frozen=True, kw_only=True)
class KernelOptions:
    """Whether Python code answers for a model, and how it is run."""

    place: Place | None = None
    """None: the files of the version are run by a driver."""

    # A call that hangs takes a thread for good: of its own model, not of the others.
    isolation: str = THREAD

    max_concurrency: int = 1
    """Calls at a time: few authors think of threads."""

    memory_limit_mb: int = 0
    """Private memory in MB that a process of it may take; 0 sets no limit."""

    timeout_ms: float = 0.0
    """Longest time of a call in milliseconds, waiting for its turn included; 0 sets no limit."""
