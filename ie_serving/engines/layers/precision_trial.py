"""Measures the error and the speed of a lower precision on recorded and generated requests."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ie_serving.core.values.difference import deviation, difference
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.fit import fit, shed
from ie_serving.core.values.golden import GoldenRequest
from ie_serving.core.values.samples import Sample
from ie_serving.core.values.tensors import SERVING_DEFAULT, Arrays, Signature, copies
from ie_serving.engines.base import CompiledModel

REPEATS = 5
"""Most inferences of one request that are timed; the shortest counts."""
REPEATED_S = 0.1
"""Seconds after which a request is not repeated."""
LONGEST_S = 10.0
"""Seconds of a trial after which no further request is sent: a load must not take minutes."""
WORTH = 0.9
"""Share of the time in f32 that a lower precision may take at most; digits are not given away for
less than a tenth."""

now = time.perf_counter


@dataclass(frozen=True)
class TrialRequest:
    """A request that the model accepts.

    Attributes:
        place: where it was recorded, or its generated kind.
        signature: name of its signature.
        inputs: in the signature's dtypes and shapes.
        added: trailing dimensions of size 1 that it lacked.
        golden: the expected answer; None where there is none.
    """

    place: str
    signature: str
    inputs: Arrays
    added: int = 0
    golden: GoldenRequest | None = None

    def fault(self, signature: Signature, outputs: Arrays) -> str:
        """Say how outputs differ from the expected ones; empty where they do not."""
        golden = self.golden
        if golden is None:
            return ""
        found, expected = shed(outputs, self.added), golden.expected(signature)
        known = [name for name in expected if name in found]
        rtol, atol = golden.rtol, golden.atol
        said = [difference(name, found[name], expected[name], rtol, atol) for name in known]
        return "; ".join(filter(None, said))


@dataclass(frozen=True)
class Trial:
    """The result of one precision's trial.

    Attributes:
        precision: its name.
        requests: how many were inferred.
        deviation: largest difference from f32, as a share of the output's largest number.
        share: time of its inferences as a share of those in f32.
        fault: why it cannot be taken whatever the error and speed; empty for no fault.
    """

    precision: str
    requests: int = 0
    deviation: float = 0.0
    share: float = 1.0
    fault: str = ""

    def refusal(self, tolerance: float) -> str:
        """Say why it is not taken; empty where it is."""
        if self.fault:
            return self.fault
        if not self.requests:
            return "no request fits the model"
        if self.deviation > tolerance:
            return f"it deviates by {self.deviation:.3g}, more than the tolerance {tolerance:g}"
        if self.share > WORTH:
            return f"it takes {self.share:.2f} of the time of f32, more than {WORTH:g}"
        return ""


def asked_of(model: CompiledModel, samples: Sequence[Sample]) -> list[TrialRequest]:
    """Decode the requests that the model accepts; others, as of other signatures, are left out."""
    return [asked for sample in samples for asked in _decoded(model, sample)]


def _decoded(model: CompiledModel, sample: Sample) -> Iterator[TrialRequest]:
    name = sample.request.signature or SERVING_DEFAULT
    signature = model.signatures.get(name)
    if signature is None or signature.left_out or signature.definition or signature.examples:
        return
    try:
        inputs, added = fit(signature, sample.request.decode(signature)[0])
    except ServingError:
        return
    yield TrialRequest(sample.place, name, inputs, added, sample.golden)


async def trial_of(
    precision: str, full: CompiledModel, lower: CompiledModel, asked: Sequence[TrialRequest]
) -> Trial:
    """Infer each request on both models, one after the other."""
    until = now() + LONGEST_S
    compared: list[Compared] = []
    for each in asked:
        if now() >= until or (compared and compared[-1].fault):
            break
        one = await _compared(full, lower, each)
        compared += [one] if one else []
    return _trial(precision, compared)


@dataclass(frozen=True)
class Compared:
    """One request: how far the answers are apart, and how long each takes in seconds."""

    deviation: float
    full_s: float
    lower_s: float
    fault: str = ""


def _trial(precision: str, compared: Sequence[Compared]) -> Trial:
    # Of all requests together, so that those that take long count for more.
    full_s = sum(each.full_s for each in compared)
    lower_s = sum(each.lower_s for each in compared)
    return Trial(
        precision,
        requests=len(compared),
        deviation=max((each.deviation for each in compared), default=0.0),
        share=lower_s / full_s if full_s else 1.0,
        fault=compared[-1].fault if compared else "",
    )


async def _compared(
    full: CompiledModel, lower: CompiledModel, asked: TrialRequest
) -> Compared | None:
    """Compare one request; None where the model itself refuses it."""
    try:
        expected, full_s = await _timed(full, asked)
    except ServingError:
        return None
    try:
        found, lower_s = await _timed(lower, asked)
        fault = _golden_fault(full, asked, expected, found)
    except ServingError as error:
        return Compared(math.inf, full_s, 0.0, f"{asked.place} fails: {error}")
    worst = max((deviation(found[name], expected[name]) for name in expected), default=0.0)
    return Compared(worst, full_s, lower_s, fault)


def _golden_fault(
    model: CompiledModel, asked: TrialRequest, expected: Arrays, found: Arrays
) -> str:
    """Say how a golden request fails that succeeds in f32: the version would not serve."""
    signature = model.signatures[asked.signature]
    if asked.fault(signature, expected):
        return ""  # the version is not served anyway
    fault = asked.fault(signature, found)
    return fault and f"golden request {asked.place}: {fault}"


async def _timed(model: CompiledModel, asked: TrialRequest) -> tuple[Arrays, float]:
    """Give the outputs, and the shortest time of an inference in seconds."""
    signature = model.signatures[asked.signature]
    began = now()
    outputs = await model.infer(signature, asked.inputs, copies)  # compiles for the shapes
    first_s, shortest = now() - began, math.inf
    for _ in range(REPEATS if first_s < REPEATED_S else 1):
        again = now()
        await model.infer(signature, asked.inputs, copies)
        # Whatever else the machine does can only lengthen an inference.
        shortest = min(shortest, now() - again)
        if now() - began > REPEATED_S:
            break
    return outputs, shortest
