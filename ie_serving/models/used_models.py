"""A graph waits, before it is compiled, for the models that it uses."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from pathlib import Path

from ie_serving.core.errors import LoadFailed
from ie_serving.models.served import Served, WithPrepared

ModelsOf = Callable[[Path], Collection[str] | None]
"""Names the models that a version uses; None for one that is no graph. Blocking."""

MOST_NESTED = 16
"""Graphs within one another, the outermost included: each holds the one within it in some ten of
Python's 1,000 frames. As in `engines.graph.definition`, for graphs that no file lists together."""


class UsedModels:
    """Which model uses which. Lives on one event loop, but for `before`.

    Args of the constructor:
        models: all models.
        models_of: reads what a version uses.
    """

    def __init__(self, models: WithPrepared, models_of: ModelsOf) -> None:
        self._models = models
        self._models_of = models_of
        self._uses: dict[str, frozenset[str]] = {}

    def keep(self, names: Collection[str]) -> None:
        """Forget the graphs that are not among `names`: they are configured no more."""
        for name in set(self._uses) - set(names):
            self._uses.pop(name, None)  # in its thread `before` may do so, too

    def before(self, name: str, directory: Path) -> Callable[[], Awaitable[None]] | None:
        """See `models.version.loader.Awaits`. In a thread."""
        used = self._models_of(directory)
        if used is None:
            self._uses.pop(name, None)
            return None
        return partial(self._serve, name, frozenset(used))

    async def _serve(self, name: str, used: frozenset[str]) -> None:
        """Wait until every model in `used` serves.

        Raises:
            LoadFailed: one does not, and nothing is under way that could change it; or it uses this
                graph itself.
        """
        self._uses[name] = used
        # A copy: `before` may take an entry away in its thread meanwhile.
        uses = {**self._uses, name: used}
        if circle := _way_back(name, uses):
            raise LoadFailed(f"graphs use each other: {' -> '.join(circle)}")
        if _levels(name, uses) > MOST_NESTED:
            raise LoadFailed(f"graphs within graphs: at most {MOST_NESTED} levels are served")
        for each in sorted(used):
            await self._serves(each)

    def note_load(self, name: str, succeeded: bool) -> None:
        """Load at once, after a load of model `name`, the graphs that failed and use it."""
        if succeeded:  # it serves at the end of this turn of the loop
            asyncio.get_running_loop().call_soon(self._retry, name)

    def _retry(self, name: str) -> None:
        # A copy: `before` may take an entry away in its thread meanwhile.
        for graph, used in list(self._uses.items()):
            served = self._models.find(graph)
            if name in used and served and served.stream.failures():
                served.stream.retry_now()
                served.stream.poll_now()

    async def _serves(self, name: str) -> None:
        while True:
            served = self._models.find(name)
            if served is None:
                known = ", ".join(self._models.names()) or "none"
                raise LoadFailed(
                    f'it uses model "{name}", which is not configured; there is {known}'
                )
            stream = served.stream
            if stream.default is not None:
                return
            if stream.is_settled or stream.trouble is not None:
                raise LoadFailed(f'it uses model "{name}", which does not serve{_why(served)}')
            await stream.changed()


def _why(served: Served) -> str:
    failures = served.stream.failures()
    if failures:
        return f": version {max(failures)}: {failures[max(failures)]}"
    return f": {served.stream.trouble}" if served.stream.trouble else ""


def _way_back(name: str, uses: Mapping[str, frozenset[str]]) -> list[str]:
    """Give the way from `name` to itself; empty where there is none."""
    ways = [[name, each] for each in sorted(uses[name])]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        if way[-1] == name:
            return way
        if way[-1] not in seen:
            seen.add(way[-1])
            ways += [[*way, each] for each in sorted(uses.get(way[-1], ()))]
    return []


def _levels(name: str, uses: Mapping[str, frozenset[str]]) -> int:
    """Count how deep graphs lie within a graph, itself included; one more than may be is enough."""
    found, level = 1, {each for each in uses[name] if each in uses}
    while level and found <= MOST_NESTED:
        found += 1
        level = {below for each in level for below in uses[each] if below in uses}
    return found
