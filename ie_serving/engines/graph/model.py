"""A graph as a compiled model: to whoever serves it, it is one like any other."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TypeVar

from ie_serving.core.errors import NotAvailable, NotFound, UnknownLabel
from ie_serving.core.requests import ModelSpec
from ie_serving.core.tensors import Array, Signature
from ie_serving.engines.graph.definition import ModelStep
from ie_serving.engines.graph.models import Held, Models, Record
from ie_serving.engines.graph.planning import Plan
from ie_serving.engines.graph.run import Run

T = TypeVar("T")


class GraphModel:
    """Runs the steps of a graph. See `engines.base.CompiledModel`.

    Args of the constructor:
        plan: fits the models that are served.
        models: gives their versions.
        record: told how long each step's model took.
    """

    def __init__(self, plan: Plan, models: Models, record: Record) -> None:
        self._plan = plan
        self._models = models
        self._record = record
        steps = (step for step in plan.steps.values() if isinstance(step, ModelStep))
        self._used = {step.model: step.name for step in steps}

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """See `engines.base`: the one of the graph."""
        return {self._plan.signature.name: self._plan.signature}

    async def infer(
        self,
        signature: Signature,
        inputs: Mapping[str, Array],
        read: Callable[[Mapping[str, Array]], T],
    ) -> T:
        """See `engines.base`.

        The version of every model is chosen in this turn of the event loop, and held to the end: a
        reload meanwhile changes nothing for this request.
        """
        with ExitStack() as held:
            used = {spec: held.enter_context(self._found(spec)) for spec in self._used}
            return read(await Run(self._plan, used, inputs, self._record).outputs())

    def _found(self, spec: ModelSpec) -> Held:
        try:
            return self._models.handle(spec)
        except (NotFound, UnknownLabel) as error:
            raise NotAvailable(f'step "{self._used[spec]}": {error}') from error

    def at_once(self, signature: Signature) -> int:
        """See `engines.base`: the models have limits of their own."""
        return 1

    def close(self) -> None:
        """See `engines.base`: nothing is held between requests."""
