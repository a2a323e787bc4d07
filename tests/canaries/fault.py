"""What OpenVINO computes wrongly: each fault is declared once, with a canary that still shows it.

`python -m tests.canaries` runs the canaries, and `--write` prints the declarations into
`docs/reference/openvino-faults.md`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Canary = Callable[[], bool]
"""Asks OpenVINO alone; gives whether it is still wrong. It may end the process, which is wrong."""


@dataclass(frozen=True)
class Fault:
    """One fault.

    Args:
        what: the operations, the form, and what OpenVINO gives instead.
        done: what keeps it from answers, and in which module: below `engines/openvino/faults`,
            `engines/openvino` or `engines`.
        where: the graphs that are changed, and what it costs them.
        tests: `FILE::FUNCTION` below the same folders of `tests/unit`.
        issue: its number, or that of one of its kind, in OpenVINO's public tracker.
        no_canary: why nothing shows it each time; then the canary is not run.
    """

    canary: Canary
    what: str
    done: str
    where: str
    tests: Sequence[str]
    issue: int | None
    no_canary: str

    @property
    def name(self) -> str:
        """The name of its canary."""
        return self.canary.__name__

    @property
    def room(self) -> str:
        """The module that declares it."""
        return self.canary.__module__.rpartition(".")[2]


FAULTS: dict[str, Fault] = {}


def fault(
    what: str,
    *,
    done: str,
    where: str = "",
    tests: Sequence[str],
    issue: int | None = None,
    no_canary: str = "",
) -> Callable[[Canary], Canary]:
    """Declare a fault whose canary is the function."""

    def declare(canary: Canary) -> Canary:
        FAULTS[canary.__name__] = Fault(canary, what, done, where, tests, issue, no_canary)
        return canary

    return declare
