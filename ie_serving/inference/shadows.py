"""Lets shadows answer copies of requests once these are answered, and compares the outputs.

A model with a shadow has its versions wrapped by a layer that copies sampled requests; other models
have none. A copy waits in a short queue. `models/traffic/shadow.py` decides when it is compared:
seldom enough not to be seen in the latency of the 99th percentile, and while no request would wait
for it. Whatever goes wrong is counted, and no request learns of it.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary, ref

from ie_serving.core.values.difference import drifts
from ie_serving.core.values.errors import InvalidTensor, ServingError
from ie_serving.core.values.fit import fit, shed
from ie_serving.core.values.requests import ModelSpec
from ie_serving.core.values.tensors import Arrays, Signature, Take, copies, size_of
from ie_serving.engines.base import REHEARSED, CompiledModel
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.served_models import ServedModels
from ie_serving.models.traffic.shadow import (
    LONGEST_REST_S,
    Moment,
    Shadow,
    has_room,
    rest_s,
    wait_s,
)
from ie_serving.models.version.handle import Servable
from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.request.record_files import SampleFiles

log = logging.getLogger(__name__)

LONGEST_S = 10.0
"""Seconds that a shadow may take for one request."""
ABSENT_S = 1.0
"""Seconds after which a shadow that does not serve is looked for again."""

SAME, DIFFERENT, FAILED = "same", "different", "failed"
UNAVAILABLE, SHED = "unavailable", "shed"
RESULTS = (SAME, DIFFERENT, FAILED, UNAVAILABLE, SHED)
"""Outcomes of sampled requests; labels of the metric."""

MakeLayer = Callable[
    [CompiledModel, float, Callable[[Signature, Arrays], Take | None]], CompiledModel
]
"""Wraps a version in the layer that copies requests: see `engines.layers.sampling.Copied`."""


@dataclass(eq=False)
class AnsweredRequest:
    """A request as a version has answered it.

    Attributes:
        model: name of the model.
        version: its number.
        signature: signature of that version.
        inputs: inputs of the version.
        outputs: outputs of the version; none until it has answered.
        taken: time at which it was copied.
        nbytes: bytes of its tensors; of one that is not answered yet, an estimate.
    """

    model: str
    version: int
    signature: Signature
    inputs: Arrays
    outputs: Arrays
    taken: float = 0.0
    nbytes: int = 0


class ShadowCopier:
    """Copies requests of one model, and compares their outputs with those of its shadow.

    Args of the constructor:
        name: name of the model.
        rule: its shadow.
        shadows: shadows of all models.
        counts: counts of sampled requests, by what has become of them.
        samples: keep different answers; None: none are kept.

    Attributes:
        rule: rule of the shadow.
        of: name and number of the version that answers as the shadow.
        seen: counts since it does.
    """

    def __init__(
        self,
        name: str,
        rule: Shadow,
        shadows: "Shadows",
        counts: Counter[str],
        samples: SampleFiles | None,
    ) -> None:
        self.rule = rule
        self.of = ("", 0)
        self.seen: Counter[str] = Counter()
        self._counts = counts
        counts.update(dict.fromkeys(RESULTS, 0))  # so that a rate sees the first of each
        self._name = name
        self._shadows = shadows
        self._samples = samples
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[AnsweredRequest] = deque()
        self._copies: list[ref[AnsweredRequest]] = []  # weak: a failed request drops its copy
        self._outputs_bytes = 0  # of the last answer
        self._rested = 0.0
        self._absent_until = 0.0
        self._work: asyncio.Task[None] | None = None
        self._told: set[str] = set()
        self._is_closed = False

    def target(self) -> Servable:
        """Find the shadow. Raises: ServingError, where it does not serve."""
        rule = self.rule
        return self._shadows.served.main(
            ModelSpec(rule.model or self._name, rule.version, rule.label)
        )

    def sampled(self, version: int, signature: Signature, inputs: Arrays) -> Take | None:
        """See `engines.layers.sampling.ChooseSample`."""
        if self._is_closed:  # requests go on while the server ends
            return None
        self._copies = [each for each in self._copies if each() is not None]
        # First without a look at the tensors, since all requests may come here while it is full.
        if not self._has_room(0) or not self._has_room(
            nbytes := size_of(inputs) + self._outputs_bytes
        ):
            self._count(SHED)
            return None
        if self._loop.time() < self._absent_until:
            self._count(UNAVAILABLE)
            return None
        try:
            target = self.target()
        except ServingError as error:
            self._absent_until = self._loop.time() + ABSENT_S
            self._failed(UNAVAILABLE, error)
            return None
        if (target.name, target.version) == (self._name, version):
            return None
        try:
            kept = copies(inputs)
        except MemoryError:  # the request may still fit
            self._count(SHED)
            return None
        copy = AnsweredRequest(self._name, version, signature, kept, {}, nbytes=nbytes)
        self._copies.append(ref(copy))
        return partial(self._take, copy)

    def _has_room(self, nbytes: int, beside: AnsweredRequest | None = None) -> bool:
        """Tell whether `nbytes` fit beside all copies, or all but one; in any thread."""
        found = (each() for each in self._copies)
        sizes = [copy.nbytes for copy in found if copy is not None and copy is not beside]
        return has_room(len(sizes), sum(sizes), nbytes)

    def _take(self, copy: AnsweredRequest, outputs: Arrays) -> None:
        """Add the outputs to a copy; in any thread."""
        if self._is_closed:
            return
        self._outputs_bytes = size_of(outputs)
        nbytes = size_of(copy.inputs) + self._outputs_bytes
        then = partial(self._count, SHED)
        if self._has_room(nbytes, copy):
            copy.nbytes = nbytes
            try:
                copy.outputs, copy.taken = copies(outputs), self._loop.time()
                then = partial(self._put, copy)
            except MemoryError:
                pass
        # The call has an empty context, so that nothing is added to the request's traces and logs.
        self._loop.call_soon_threadsafe(then, context=Context())

    def _put(self, copy: AnsweredRequest) -> None:
        if self._is_closed:
            return
        if not self._has_room(copy.nbytes, copy):  # two threads may have found the same room
            self._count(SHED)
            return
        self._waiting.append(copy)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._compare_all())

    async def _compare_all(self) -> None:
        REHEARSED.set(True)  # in this task: neither recorded, nor copied again, nor kept
        while self._waiting:
            try:
                await self._compare_in_time(self._waiting.popleft())
            except Exception as error:  # a defect, or of users' code: no reason to end the others
                self._failed(FAILED, repr(error), is_defect=True)

    async def _compare_in_time(self, copy: AnsweredRequest) -> None:
        while pause_s := wait_s(self._moment(copy)):
            await asyncio.sleep(pause_s)
        if self._loop.time() > copy.taken + LONGEST_REST_S:
            self._count(SHED)
            return
        before = self.of
        began, self._shadows.is_comparing = self._loop.time(), True
        try:
            await self._compare(copy)
        finally:
            self._shadows.is_comparing = False
            now = self._loop.time()
            if self.of == before:  # the first answer of a version takes longer than the others
                self._rested = now + rest_s(now - began, self._shadows.number)

    def _moment(self, copy: AnsweredRequest) -> Moment:
        now = self._loop.time()
        used = self._shadows.versions_of(self._name)
        if self.rule.model:
            used = [*used, *self._shadows.versions_of(self.rule.model)]
        signature = copy.signature.name
        is_spare = all(each.holders < _lanes(each, signature) for each in used)
        return Moment(now, copy.taken, self._rested, is_spare, not self._shadows.is_comparing)

    async def _compare(self, answered: AnsweredRequest) -> None:
        try:
            target = self.target()
        except ServingError as error:
            self._failed(UNAVAILABLE, error)
            return
        if (target.name, target.version) == (answered.model, answered.version):
            return  # a label has moved since
        if self.of != (target.name, target.version):
            self.of = target.name, target.version
            self.seen.clear()
            self._told.clear()
        with target:
            try:
                shadow = await asyncio.wait_for(_shadow_answer(target, answered), LONGEST_S)
                outputs = await asyncio.to_thread(self._differing, answered, shadow)
            except asyncio.TimeoutError:
                self._failed(FAILED, f"it took longer than {LONGEST_S:g} s")
            except ServingError as error:
                self._failed(FAILED, error)
            else:
                self._compared(outputs)

    def _differing(self, answered: AnsweredRequest, shadow: AnsweredRequest) -> list[str]:
        """Name the outputs that differ, and keep both; in a thread."""
        found = drifts(shadow.outputs, answered.outputs, self.rule.tolerance)
        if found and self._samples and not self._is_closed:
            self._samples.put(answered, shadow)
        return sorted(found)

    def _compared(self, outputs: list[str]) -> None:
        self._count(DIFFERENT if outputs else SAME)
        if outputs and self._is_news(DIFFERENT):
            shadow, version = self.of
            whose = {"model": self._name, "shadow": shadow, "version": version}
            log.warning(Event("shadow answers otherwise", **whose, outputs=",".join(outputs)))

    def _failed(self, result: str, cause: object, *, is_defect: bool = False) -> None:
        self._count(result)
        if self._is_news(result):
            whose = {"model": self._name, "shadow": self.rule.model or self._name}
            version = {"version": self.of[1]} if result == FAILED else {}
            event = Event("shadow gives no answer", **whose, **version, cause=cause)
            log.warning(event, exc_info=is_defect)

    def _is_news(self, result: str) -> bool:
        """Tell, once for each version, that a line is to be logged; the metric counts the rest."""
        is_news = result not in self._told
        self._told.add(result)
        return is_news

    def _count(self, result: str) -> None:
        self._counts[result] += 1
        self.seen[result] += 1

    @property
    def remark(self) -> str:
        """Say what the shadow has answered."""
        seen = self.seen
        return (
            f"shadow of {self._name}: {seen[DIFFERENT]} of {seen[SAME] + seen[DIFFERENT]} answers"
            f" differ, {seen[FAILED]} failed, {seen[SHED]} were not compared"
        )

    def close(self) -> None:
        """Compare nothing more."""
        self._is_closed = True
        self._waiting.clear()
        if self._work:
            self._work.cancel()
        if self._samples:
            self._samples.close()


def _lanes(servable: Servable, signature: str) -> int:
    """Tell how many requests a version answers at once."""
    found = servable.compiled.signatures.get(signature)
    return servable.compiled.at_once(found) if found and not found.left_out else 1


async def _shadow_answer(target: Servable, answered: AnsweredRequest) -> AnsweredRequest:
    """Let the shadow answer. Raises: ServingError."""
    name = answered.signature.name
    signature = target.compiled.signatures.get(name)
    if signature is None or signature.left_out:
        raise ServingError(f'it does not serve signature "{name}": export it with that one')
    inputs, model, times = answered.inputs, target.compiled, target.inferences
    mark = times.mark
    try:
        inputs, added = fit(signature, inputs)
        found = await model.infer(signature, inputs, copies)
        outputs: Arrays = shed(found, added) if added else found
    except InvalidTensor as refusal:
        if not signature.as_sent:
            raise
        asked = tuple(answered.outputs)
        outputs = await model.infer_as_sent(signature, inputs, asked, refusal, copies)
    if target.holders == 1:  # at once, before a metrics page has them: they are no client's
        times.forget_from(mark)
    return AnsweredRequest(target.name, target.version, signature, inputs, outputs)


class Shadows:
    """The shadows of all models of this process. Lives on one event loop.

    Args of the constructor:
        served: the models.
        layer: function that wraps a version, a `MakeLayer`.
        counts: gives the counts of a model, which outlive a change of its shadow.
        samples: makes what keeps samples by a rule that has a path.

    Attributes:
        served: the served models.
        is_comparing: whether a shadow is answering now.
    """

    def __init__(
        self,
        served: ServedModels,
        layer: MakeLayer,
        counts: Callable[[str], Counter[str]],
        samples: Callable[[Shadow], SampleFiles],
    ) -> None:
        self.served = served
        self.is_comparing = False
        self._layer = layer
        self._counts = counts
        self._samples = samples
        self._mirrors: dict[str, ShadowCopier] = {}
        self._wrapped: WeakKeyDictionary[Servable, tuple[ShadowCopier, CompiledModel]]
        self._wrapped = WeakKeyDictionary()  # by whose layer, and as they were without it

    @property
    def number(self) -> int:
        """How many models have a shadow."""
        return len(self._mirrors)

    def follow(self, configs: Iterable[ModelConfig]) -> None:
        """Take the shadows of the configuration; those that it does not change go on."""
        rules: Mapping[str, Shadow] = {c.name: c.shadow for c in configs if c.shadow}
        before = {name: mirror.rule for name, mirror in self._mirrors.items()}
        changed = [name for name in {**before, **rules} if before.get(name) != rules.get(name)]
        for name in changed:
            if old := self._mirrors.pop(name, None):
                old.close()
            if rule := rules.get(name):
                samples = self._samples(rule) if rule.path else None
                self._mirrors[name] = ShadowCopier(name, rule, self, self._counts(name), samples)
        for name in changed:
            self.wrap(name, self.versions_of(name))
            for rule in filter(None, (before.get(name), rules.get(name))):
                if rule.version is not None:
                    self._hold_anew(rule.model or name)

    def _hold_anew(self, model: str) -> None:
        """Let a model choose its versions again, after the change that is being made."""
        if entry := self.served.entries.get(model):
            asyncio.get_running_loop().call_soon(entry.stream.aspire)

    def wrap(self, model: str, versions: Iterable[Servable]) -> None:
        """Let AVAILABLE versions of a model copy requests, or let them be as they were."""
        mirror = self._mirrors.get(model)
        if mirror is None and not self._wrapped:
            return
        for servable in versions:
            by, plain = self._wrapped.get(servable, (None, servable.compiled))
            if by is mirror:  # graphs keep answers by the identity of `compiled`
                continue
            self._wrapped.pop(servable, None)
            servable.compiled = plain
            if mirror is not None:
                self._wrapped[servable] = mirror, plain
                sample = partial(mirror.sampled, servable.version)
                servable.compiled = self._layer(plain, mirror.rule.sampling_rate, sample)

    def held(self, model: str) -> set[int]:
        """Give the versions of a model that are shadows by their numbers, and stay loaded."""
        rules = ((name, mirror.rule) for name, mirror in self._mirrors.items())
        found = (rule.version for name, rule in rules if (rule.model or name) == model)
        return {version for version in found if version is not None}

    def remark(self, model: str, version: int) -> str:
        """Say what a version has answered as a shadow; empty where it has not."""
        asked = (m.remark for m in self._mirrors.values() if m.of == (model, version))
        return "; ".join(asked)

    def versions_of(self, model: str) -> list[Servable]:
        """Give the AVAILABLE versions of a model."""
        entry = self.served.entries.get(model)
        return [*entry.stream.available.values()] if entry else []

    def close(self) -> None:
        """Compare nothing more, as the process ends."""
        for mirror in self._mirrors.values():
            mirror.close()
        self._mirrors.clear()
