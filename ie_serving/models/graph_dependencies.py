"""Makes a graph wait, before it is compiled, for the models that it uses."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from ie_serving.core.runtime.threads import tell
from ie_serving.core.values.errors import LoadFailed, ServingError
from ie_serving.core.values.integers import MOST_NESTED
from ie_serving.models.served_models import PreparedModels, ServedModel
from ie_serving.models.stream import ModelStream

Uses = Mapping[str, frozenset[int]]
"""Models that a version uses, each with the versions that it names; none where any will do."""

ModelsOf = Callable[[Path], Uses | None]
"""Names the models that a version uses; None for one that is no graph. Blocking."""


class GraphDependencies:
    """Keeps which graph uses which models. Lives on one event loop, except `before`.

    Args of the constructor:
        models: all models.
        models_of: reads what a version uses.
    """

    def __init__(self, models: PreparedModels, models_of: ModelsOf) -> None:
        self._models = models
        self._models_of = models_of
        self._uses: dict[str, frozenset[str]] = {}
        # How many versions of graphs hold each version of a model.
        self._held: Counter[tuple[str, int]] = Counter()

    def keep(self, names: Collection[str]) -> None:
        """Forget the graphs that are not among `names`: they are configured no more."""
        for name in set(self._uses) - set(names):
            self._uses.pop(name, None)  # in its thread `before` may do so, too

    def held(self, name: str) -> frozenset[int]:
        """Give the versions of a model that graphs name: they stay loaded, whatever is newer."""
        return frozenset(number for model, number in self._held if model == name)

    def used(self) -> Collection[str]:
        """Name the models that graphs use: one that is loaded on demand stays loaded for them."""
        return frozenset().union(*list(self._uses.values()))

    def before(
        self, name: str, directory: Path
    ) -> Callable[[], Awaitable[Callable[[], None]]] | None:
        """See `models.version.loader.Awaits`. In a thread."""
        used = self._models_of(directory)
        if used is None:
            self._uses.pop(name, None)
            return None
        return partial(self._serve, name, used)

    async def _serve(self, name: str, uses: Uses) -> Callable[[], None]:
        """Wait until every model in `uses` serves, and hold the versions that it names.

        Returns:
            A function that releases these versions, to call in any thread.

        Raises:
            LoadFailed: a model does not serve, and no load is under way that could change that; or
                the model uses this graph itself.
        """
        used = self._uses[name] = frozenset(uses)
        # A copy: `before` may take an entry away in its thread meanwhile.
        every = {**self._uses, name: used}
        if circle := _way_back(name, every):
            raise LoadFailed(f"graphs use each other: {' -> '.join(circle)}; remove one use")
        if _levels(name, every) > MOST_NESTED:
            raise LoadFailed(
                f"graphs within graphs: at most {MOST_NESTED} levels are served; make two one"
            )
        self._hold(uses, 1)
        with ExitStack() as undone:
            undone.callback(self._hold, uses, -1)
            for each in sorted(used):
                await self._serves(each, uses[each])
            undone.pop_all()
        return partial(tell, asyncio.get_running_loop(), self._hold, uses, -1)

    def _hold(self, uses: Uses, count: int) -> None:
        """Hold the versions that a graph names once more, or once less."""
        self._held.update({(model, n): count for model in uses for n in uses[model]})
        self._held = +self._held
        for model in uses:
            served = self._models.find(model)
            if uses[model] and served is not None:
                served.stream.aspire()

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

    async def _serves(self, name: str, numbers: Collection[int]) -> None:
        while True:
            served = self._models.find(name)
            if served is None:
                known = ", ".join(self._models.names()) or "none"
                raise LoadFailed(
                    f'it uses model "{name}", which is not configured; there is {known}'
                )
            stream = served.stream
            if stream.loads_for(None):
                await _loaded(stream)
            lacking = set(numbers).difference(stream.available)
            if stream.default is not None and not lacking:
                return
            if stream.is_settled or stream.trouble is not None:
                what = f"version {min(lacking)} of " if lacking else ""
                why = _why_none(served)
                raise LoadFailed(f'it uses {what}model "{name}", which does not serve{why}')
            await stream.changed()


async def _loaded(stream: ModelStream) -> None:
    """Load a model on demand. Raises: LoadFailed."""
    try:
        await stream.load()
    except ServingError as error:
        raise LoadFailed(f'it uses model "{stream.name}": {error}') from error


def _why_none(served: ServedModel) -> str:
    why = served.stream.why_none
    return f": {why}" if why else ""


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
