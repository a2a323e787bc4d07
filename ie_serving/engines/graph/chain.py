"""Runs a request to a graph whose steps form a chain; `run.py` runs all other graphs.

A step costs little beside its model: checks made when the graph is read, or when a model's version
first answers, are not repeated for each request.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.fit import ExactShapes, exact, fit, fits, shed
from ie_serving.core.values.tensors import Arrays, Read, Signature
from ie_serving.engines.graph.calls import lacking, target_of
from ie_serving.engines.graph.definition import REQUEST, CallStep
from ie_serving.engines.graph.planning import Plan
from ie_serving.engines.graph.run import of_step
from ie_serving.engines.other_models import LoadedModel, RecordStep

T = TypeVar("T")

LAST = -1
"""The last step, whose outputs are not kept, in place of a step's index."""

TakenItem = tuple[str, int, str]
"""The source of an input: the input's name, the index of the step that gives it, the item."""


class StepFacts(NamedTuple):
    """Facts derived once from a step and the signature that it runs.

    Attributes:
        signature: signature of the step's model.
        takes: the sources of its inputs.
        known: shapes known to fit; None where `fit` has to check them.
        read: copies the step's outputs, since the engine reuses their memory.
    """

    signature: Signature
    takes: Sequence[TakenItem]
    known: ExactShapes | None
    read: Callable[[Arrays], Any]


_UNREADY = StepFacts(Signature("", {}, {}), (), None, dict)


class ChainStep:
    """One step of a chain.

    Args of the constructor:
        step: index of the step.
        index: index of its model among those that a request holds.
        own: part of the graph that computes it in place of a model.
        given: indices of the steps and of the request, by name.

    Attributes:
        signature: name of the signature.
        ready: prepared call of the version that answered last.
    """

    __slots__ = ("_given", "index", "name", "own", "ready", "signature", "step")

    def __init__(
        self, step: CallStep, index: int, own: LoadedModel | None, given: Mapping[str, int]
    ) -> None:
        self.step = step
        self.name = step.name
        self.signature = step.signature
        self.index = index
        self.own = own
        self._given = given
        self.ready = _UNREADY

    def prepare(self, loaded: LoadedModel) -> StepFacts:
        """Make it ready for a version.

        Raises:
            NotAvailable: the version lacks the signature.
            ServingError: it lacks an output.
        """
        target = target_of(loaded, self.signature, self.name)
        if why := lacking(self.step, target):
            raise of_step(self.step, ServingError(why), nullcontext)
        signature = target.signature
        taken = self.step.inputs
        takes = [(name, self._given[ref.step], ref.item) for name, ref in taken.items()]
        # Others have defaults, which `fit` fills in.
        known = exact(signature) if signature.inputs.keys() == taken.keys() else None
        self.ready = StepFacts(signature, takes, known, _copying(self.step.outputs))
        return self.ready


class StepChain:
    """Steps that each take items of the step before; each step runs once.

    Args of the constructor:
        plan: plan of the graph; `only` has the steps.
        indices: index of each step's model among those that a request holds, by the step's name.
        own: parts of the graph that compute in place of a model, by the step's name.
        record: called with the time of each step.
    """

    def __init__(
        self,
        plan: Plan,
        indices: Mapping[str, int],
        own: Mapping[str, LoadedModel],
        record: RecordStep,
    ) -> None:
        steps = plan.only or ()
        self._about = plan.about
        given = {REQUEST: 0, **{step.name: at for at, step in enumerate(steps, 1)}}
        self._links = [ChainStep(s, indices.get(s.name, 0), own.get(s.name), given) for s in steps]
        self._last = last = self._links[-1]
        self._record = record
        # Outputs of the last step are read where they lie, by the names that its model has.
        self._outputs = [
            (name, LAST, last.step.outputs[ref.item])
            if ref.step == last.name
            else (name, given[ref.step], ref.item)
            for name, ref in plan.outputs.items()
        ]

    async def infer(self, held: Sequence[LoadedModel], inputs: Arrays, read: Read[T]) -> T:
        """Run the steps.

        Args:
            held: the models, each held for this request.
            inputs: inputs of the request.
            read: argument of `infer` in `engines.base`.

        Raises:
            ServingError: of the step that failed, with its name.
        """
        given: list[Any] = [inputs]
        ended: list[float] = []  # when the last step's outputs were there
        reply = partial(_reply, self._outputs, given, ended, read)
        for link in self._links:
            loaded = link.own or held[link.index]
            ready = link.ready
            if loaded.signatures.get(link.signature) is not ready.signature:
                ready = link.prepare(loaded)
            signature, takes, known, take = ready
            filled: Arrays = (arrays := {})
            for name, index, item in takes:
                arrays[name] = given[index][item]
            if link is self._last:
                take = reply
            began = perf_counter()
            try:
                if known is None or not fits(arrays, known):
                    filled, take = _fitted(signature, arrays, take)
                given.append(await loaded.compiled.infer(signature, filled, take))
            except Exception as error:
                if not ended:
                    raise of_step(link.step, error, self._about) from error
                self._record(link.name, ended[0] - began)  # the step has done its part
                raise
            self._record(link.name, (ended[0] if ended else perf_counter()) - began)
        return given[-1]  # type: ignore[no-any-return]


def _reply(
    names: Sequence[tuple[str, int, str]],
    given: Sequence[Arrays],
    ended: list[float],
    read: Read[T],
    outputs: Arrays,
) -> T:
    """Read the graph's outputs from the last step's `outputs`, and note the time."""
    found = {}
    for name, index, item in names:
        found[name] = outputs[item] if index == LAST else given[index][item]
    ended.append(perf_counter())
    return read(found)


def _fitted(signature: Signature, arrays: Arrays, take: Read[T]) -> tuple[Arrays, Read[T]]:
    """Cast and complete the inputs of a step; dimensions that are added come off its outputs."""
    filled, added = fit(signature, arrays)
    return filled, partial(_shedding, take, added) if added else take


def _copying(outputs: Mapping[str, str]) -> Callable[[Arrays], Arrays]:
    pairs = tuple(outputs.items())

    def read(found: Arrays) -> Arrays:
        copies = {}
        for item, alias in pairs:
            copies[item] = found[alias].copy()
        return copies

    return read


def _shedding(read: Read[T], added: int, outputs: Arrays) -> T:
    return read(shed(outputs, added))
