"""Options of a kernel, the Python code that answers for a model. Settings hold them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

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

    @staticmethod
    def parse(text: object) -> Place | None:
        """Read `FILE.py` or `FILE.py:NAME`; None where it is neither."""
        given = text.strip() if isinstance(text, str) else ""
        file, _, name = given.partition(":")
        path = PurePosixPath(file)
        if path.suffix != ".py" or ".." in path.parts or (":" in given and not name.isidentifier()):
            return None
        return Place(file=file, name=name)


@dataclass(frozen=True, kw_only=True)
class Beside:
    """Where files lie that a graph of the configuration names, beside those of its version."""

    directory: str = ""


@dataclass(frozen=True, kw_only=True)
class Instances:
    """How many processes a kernel has; each runs one call, or batch of calls, at a time."""

    min: int = 1
    """There are always as many."""

    max: int = 1
    """As many at most, started one after the other while calls wait."""

    idle_seconds: float = 60.0
    """Seconds without a call after which a process beyond `min` is ended. Typical load rises and
    falls within minutes, and an idle process costs its memory."""


@dataclass(frozen=True, kw_only=True)
class KernelOptions:
    """Whether Python code answers for a model, and how it is run."""

    place: Place | None = None
    """None: the files of the version are run by a driver."""

    isolation: str = ""
    """Empty: threads of its own, so that a call that hangs takes none of other models, or processes
    if the kernel was written for a server that gives each its own."""

    max_concurrency: int = 1
    """Calls at a time: few authors think of threads."""

    instances: Instances | None = None
    """Processes that come and go with the load; None: as many as `max_concurrency`."""

    memory_limit_mb: int = 0
    """Private memory in MB (10^6 bytes) that a process of it may take; 0 sets no limit."""

    timeout_ms: float = 0.0
    """Longest time of a call in milliseconds, waiting for its turn included; 0 sets no limit."""
