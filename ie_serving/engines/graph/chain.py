"""A request to a graph whose steps run one after the other: the short way, beside `run.py`.

A step costs as little here as it can beside its model, since what is known when the graph is read,
or when a model's version first answers, is not asked again for each request.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ie_serving.core.errors import ServingError
from ie_serving.core.fit import exact, fit, shed
from ie_serving.core.tensors import Array, Signature
from ie_serving.engines.graph.calls import lacking, target_of
from ie_serving.engines.graph.definition import REQUEST, CallStep
from ie_serving.engines.graph.models import Loaded, Record
from ie_serving.engines.graph.planning import Plan
from ie_serving.engines.graph.run import of_step

T = TypeVar("T")
Items = Mapping[str, Array]

LAST = -1
"""In place of the place of a step: the last one, whose outputs are not kept."""

Take = tuple[str, int, str, "np.dtype[Any] | None", tuple[int, ...], tuple[int, ...] | None]
"""What fills an input: its name, the place of the step that gives it, the item; then by what the
array is seen to fit, see `core.fit.exact`. Without a dtype it has to be looked at by `fit`."""


class Ready(NamedTuple):
    """What follows from a step and the signature that it runs.

    Attributes:
        signature: it.
        takes: what fills its inputs.
        read: copies what the step gives: the engine uses the memory of its outputs again.
    """

    signature: Signature
    takes: Sequence[Take]
    read: Callable[[Items], Items]


_UNREADY = Ready(Signature("", {}, {}), (), dict)


class Link:
    """One step of a chain.

    Args of the constructor:
        step: which.
        place: of its model among those that a request holds.
        own: part of the graph that computes it in place of a model.
        given: places of the steps and of the request, by name.

    Attributes:
        signature: name of the signature.
        ready: for the one that answered last.
    """

    __slots__ = ("_given", "name", "own", "place", "ready", "signature", "step")

    def __init__(
        self, step: CallStep, place: int, own: Loaded | None, given: Mapping[str, int]
    ) -> None:
        self.step = step
        self.name = step.name
        self.signature = step.signature
        self.place = place
        self.own = own
        self._given = given
        self.ready = _UNREADY

    def prepare(self, loaded: Loaded) -> Ready:
        """Make it ready for a version.

        Raises:
            NotAvailable: the version lacks the signature.
            ServingError: it lacks an output.
        """
        target = target_of(loaded, self.signature, self.name)
        if why := lacking(self.step, target):
            raise of_step(self.step, ServingError(why))
        signature = target.signature
        known = exact(signature) or {}
        if known.keys() != self.step.inputs.keys():  # others have defaults, which `fit` fills in
            known = {}
        takes = [
            (name, self._given[ref.step], ref.item, *known.get(name, (None, (), None)))
            for name, ref in self.step.inputs.items()
        ]
        self.ready = Ready(signature, takes, _copying(self.step.outputs))
        return self.ready


class Chain:
    """Steps of which each takes something of the one before it; each is run once.

    Args of the constructor:
        plan: of the graph; `only` has the steps.
        places: of the model of each step among those that a request holds, by the step's name.
        own: parts of the graph that compute in place of a model, by the step's name.
        record: told how long each step took.
    """

    def __init__(
        self,
        plan: Plan,
        places: Mapping[str, int],
        own: Mapping[str, Loaded],
        record: Record,
    ) -> None:
        steps = plan.only or ()
        given = {REQUEST: 0, **{step.name: at for at, step in enumerate(steps, 1)}}
        self._links = [Link(s, places.get(s.name, 0), own.get(s.name), given) for s in steps]
        self._last = last = self._links[-1]
        self._record = record
        # Outputs of the last step are read where they lie, by the names that its model has.
        self._outputs = [
            (name, LAST, last.step.outputs[ref.item])
            if ref.step == last.name
            else (name, given[ref.step], ref.item)
            for name, ref in plan.outputs.items()
        ]

    async def infer(self, held: Sequence[Loaded], inputs: Items, read: Callable[[Items], T]) -> T:
        """Run the steps. Written out: a call for each step would cost as much as its work here.

        Args:
            held: the models, each held for this request.
            inputs: of the request.
            read: see `engines.base`.

        Raises:
            ServingError: of the step that failed, with its name.
        """
        given: list[Items] = [inputs]
        ended = 0.0  # when the last step's outputs were there

        def reply(outputs: Items) -> Any:  # noqa: ANN401  what `read` makes of them
            nonlocal ended
            found = {
                name: outputs[item] if place == LAST else given[place][item]
                for name, place, item in self._outputs
            }
            ended = perf_counter()
            return read(found)

        found: Any = None
        for link in self._links:
            loaded = link.own or held[link.place]
            ready = link.ready
            if loaded.signatures.get(link.signature) is not ready.signature:
                ready = link.prepare(loaded)
            signature, takes, take = ready
            filled: Items = (arrays := {})
            fits = True
            for name, place, item, dtype, whole, tail in takes:
                array = arrays[name] = given[place][item]
                shape = array.shape
                if array.dtype is not dtype or (
                    shape != whole and (shape[1:] != tail or not shape)
                ):
                    fits = False
            if link is self._last:
                take = reply
            began = perf_counter()
            try:
                if not fits:
                    filled, added = fit(signature, arrays)
                    take = partial(_shedding, take, added) if added else take
                found = await loaded.compiled.infer(signature, filled, take)
            except Exception as error:
                if not ended:
                    raise of_step(link.step, error) from error
                self._record(link.name, ended - began)  # the step has done its part
                raise
            self._record(link.name, (ended or perf_counter()) - began)
            given.append(found)
        return found  # type: ignore[no-any-return]


def _copying(outputs: Mapping[str, str]) -> Callable[[Items], Items]:
    pairs = tuple(outputs.items())

    def read(found: Items) -> Items:
        copies = {}
        for item, alias in pairs:
            copies[item] = found[alias].copy()
        return copies

    return read


def _shedding(read: Callable[[Items], T], added: int, outputs: Items) -> T:
    return read(shed(outputs, added))
