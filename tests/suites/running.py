"""One mode of the suite: serve each test's model, ask it over each interface, judge the answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.functional.servers import Server
from tests.suites import serving
from tests.suites.asking import INTERFACES, NoAnswer, NotSaid, Refused, Unanswered
from tests.suites.cases import ILL_POSED, Case, with_open_sizes
from tests.suites.judging import Kind, Outcome, Tolerance, judge

GROUP = 100
"""Models of one server: fewer start more of them, more try again to load what fails beside them."""

GOOD = frozenset({Kind.RIGHT, Kind.ILL_POSED})
FATAL = frozenset({Kind.CRASH, Kind.HANG})
"""After these the server is another one, or of no use."""

Outcomes = Mapping[str, Outcome]
"""By interface."""


@dataclass(frozen=True)
class Suite:
    """Tests, and how to serve them.

    Attributes:
        directory: for the models; empty.
        command: starts the server, up to the flags that `serving` adds.
        env: of the server.
        open_sizes: whether requests decide the sizes of inputs.
    """

    directory: Path
    command: Sequence[str]
    env: Mapping[str, str]
    open_sizes: bool = False

    def run(self, cases: Sequence[Case]) -> Iterator[tuple[str, Outcomes]]:
        """Give each test's name and what became of it, as they come.

        Where a server dies or hangs, the next one goes on without the test that it was asked; where
        it does so at a load, without those that may have been loading, which are then served alone.
        """
        for case in cases:
            if case.not_carried:
                yield case.name, _everywhere(Outcome(Kind.NOT_CARRIED, case.not_carried))
        carried = [case for case in cases if not case.not_carried]
        todo = [carried[first : first + GROUP] for first in range(0, len(carried), GROUP)]
        for case in carried:
            model = with_open_sizes(case.model) if self.open_sizes else case.model
            serving.write(self.directory, case.name, model)
        while todo:
            yield from self._serve(todo.pop(0), todo)

    def _serve(self, group: list[Case], todo: list[list[Case]]) -> Iterator[tuple[str, Outcomes]]:
        names = [case.name for case in group]
        with serving.serving(self.command, self.directory, names, self.env) as server:
            causes = serving.settled(server, len(names))
            for number, case in enumerate(group):
                outcome = _loaded(causes.get(case.name))
                if outcome.kind in FATAL and len(group) > 1:
                    todo.insert(0, [case])
                elif outcome.kind is not Kind.RIGHT:
                    yield case.name, _everywhere(outcome)
                else:
                    outcomes = _ask(server, case)
                    yield case.name, outcomes
                    if FATAL & {each.kind for each in outcomes.values()}:
                        if left := group[number + 1 :]:
                            todo.insert(0, left)
                        return


def _loaded(cause: str | None) -> Outcome:
    """What became of a load; right where the model serves."""
    if cause is None:
        return Outcome(Kind.HANG, "its load does not end")
    if serving.KILLS in cause:
        return Outcome(Kind.CRASH, cause)
    return Outcome(Kind.REFUSED, cause) if cause else Outcome(Kind.RIGHT)


def _ask(server: Server, case: Case) -> Outcomes:
    outcomes: dict[str, Outcome] = {}
    for interface in INTERFACES:
        outcome = outcomes[interface] = _answer(server, interface, case)
        if outcome.kind in FATAL:
            return _everywhere(outcome) | outcomes
    return outcomes


def _answer(server: Server, interface: str, case: Case) -> Outcome:
    """The first outcome of the test's sets that is not right, or that of the last."""
    within = Tolerance(case.rtol, case.atol, interface != "rest", ILL_POSED.get(case.name, ""))
    outcome = Outcome(Kind.RIGHT)
    for inputs, expected in case.sets:
        before = serving.deaths(server)
        try:
            got = INTERFACES[interface](server, case.name, inputs, expected)
            outcome = judge(got, expected, within)
        except Refused as error:
            outcome = Outcome(Kind.REFUSED, str(error))
        except NotSaid as error:
            outcome = Outcome(Kind.NOT_CARRIED, str(error))
        except NoAnswer:
            outcome = Outcome(Kind.HANG, "no answer in time")
        except Unanswered as error:
            is_dead = serving.dies(server, before)
            outcome = Outcome(Kind.CRASH if is_dead else Kind.REFUSED, str(error))
        if outcome.kind not in GOOD:
            break
    return outcome


def _everywhere(outcome: Outcome) -> dict[str, Outcome]:
    return dict.fromkeys(INTERFACES, outcome)
