"""Measures the error and the speed of a lower precision on recorded and generated requests."""

import math
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ie_serving.core.values.difference import deviation, difference
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.fit import fit, shed
from ie_serving.core.values.requests import GoldenRequest, SampleRequest
from ie_serving.core.values.tensors import (
    SERVING_DEFAULT,
    Array,
    Arrays,
    DataType,
    Signature,
    TensorSpec,
    copies,
)
from ie_serving.engines.base import CompiledModel
from ie_serving.engines.generated_requests import (
    GeneratedInput,
    GeneratedRequest,
    Guess,
    ValueKind,
    guesses,
    requests,
    usual,
)

REPEATS = 5
"""Most inferences of one request that are timed; the shortest counts."""
REPEATED_S = 0.02
"""Seconds after which a request is not repeated: a start waits for them."""
LONGEST_S = 10.0
"""Seconds of a trial after which no further request is sent: a load must not take minutes."""
WORTH = 0.9
"""Share of the time in f32 that a lower precision may take at most; digits are not given away for
less than a tenth."""
BRIEF_S = 0.00005
"""Seconds of an inference in f32 up to which no lower precision is tried. With the 100 us of its
request at least, an inference of half the time would win a tenth or little more. A trial would
take longer than all else of such a model's load."""

now = time.perf_counter

MOST_GUESSES = 24
"""Sizes and integers that are tried for a signature: each may compile for a shape."""
MOST_S = 5.0
"""Seconds after which no further guess is made, for all signatures together."""
MOST_REQUESTS = 6
"""Requests of finite values for each signature."""
ROWS = 16
"""Rows of zeros where the batch is open: a batch of clients is seldom larger where it is small
enough to be answered in microseconds."""


@dataclass(frozen=True)
class TrialRequest:
    """A request that the model accepts.

    Attributes:
        source: source of a recorded request, or the kind of a generated one.
        signature: name of its signature.
        inputs: values in the signature's dtypes and shapes.
        added: trailing dimensions of size 1 that it lacked.
        golden: the expected answer; None where there is none.
        outputs: outputs in f32, where it has been inferred before the trial.
    """

    source: str
    signature: str
    inputs: Arrays
    added: int = 0
    golden: GoldenRequest | None = None
    outputs: Arrays | None = None

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
        requests: number of inferred requests.
        deviation: largest difference from f32, as a share of the output's largest number.
        share: time of its inferences as a share of those in f32; nan: not measured.
        fault: reason why it cannot be taken whatever the error and speed; empty for no fault.
    """

    precision: str
    requests: int = 0
    deviation: float = 0.0
    share: float = math.nan
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


def asked_of(model: CompiledModel, samples: Sequence[SampleRequest]) -> list[TrialRequest]:
    """Decode the requests that the model accepts; others, as of other signatures, are left out."""
    return [asked for sample in samples for asked in _decoded(model, sample)]


def _decoded(model: CompiledModel, sample: SampleRequest) -> Iterator[TrialRequest]:
    name = sample.request.signature or SERVING_DEFAULT
    signature = model.signatures.get(name)
    if signature is None or signature.left_out or signature.definition or signature.examples:
        return
    try:
        inputs, added = fit(signature, sample.request.decode(signature)[0])
    except ServingError:
        return
    yield TrialRequest(sample.source, name, inputs, added, sample.golden)


def measured_as_brief(
    full: CompiledModel, asked: Sequence[TrialRequest], zeros: Sequence[TrialRequest]
) -> bool | None:
    """Tell by the measurements of the load what `is_brief` tells; None where these do not tell."""
    measured = [full.signatures[each.signature] for each in zeros]
    if any(each.row_s is not None and each.row_s > BRIEF_S for each in measured):
        return False
    if asked or not measured:
        return None
    is_known = all(each.batch_s is not None and each.batch_s <= BRIEF_S for each in measured)
    return True if is_known else None


async def is_brief(full: CompiledModel, asked: Sequence[TrialRequest]) -> bool:
    """Whether the model takes requests, and infers each of those in `BRIEF_S` at most."""
    is_any = False
    for each in asked:
        with suppress(ServingError):
            began = now()
            await _infer(full, each)  # compiles for the shapes
            if now() - began > REPEATED_S or await _shortest_s(full, each, 4 * REPEATS) > BRIEF_S:
                return False
            is_any = True
    return is_any


async def trial_of(
    precision: str,
    full: CompiledModel,
    lower: CompiledModel,
    asked: Sequence[TrialRequest],
    tolerance: float,
) -> Trial:
    """Infer each request on both models, one after the other, until one refuses the precision."""
    until = now() + LONGEST_S
    compared: list[ComparedRequest] = []
    for each in asked:
        one = await _compared(full, lower, each, tolerance)
        compared += [one] if one else []
        if now() >= until or (one and (one.fault or one.deviation > tolerance)):
            break
    return _trial(precision, compared)


@dataclass(frozen=True)
class ComparedRequest:
    """One request: how far the outputs are apart, and how long each takes in seconds.

    Neither is timed where the precision is refused: 0.
    """

    deviation: float
    fault: str = ""
    full_s: float = 0.0
    lower_s: float = 0.0


def _trial(precision: str, compared: Sequence[ComparedRequest]) -> Trial:
    # The sums are taken over all requests, so that long ones count for more.
    full_s = sum(each.full_s for each in compared)
    lower_s = sum(each.lower_s for each in compared)
    return Trial(
        precision,
        requests=len(compared),
        deviation=max((each.deviation for each in compared), default=0.0),
        share=lower_s / full_s if full_s else math.nan,
        fault=compared[-1].fault if compared else "",
    )


async def _compared(
    full: CompiledModel, lower: CompiledModel, asked: TrialRequest, tolerance: float
) -> ComparedRequest | None:
    """Compare one request; None where the model itself refuses it."""
    try:
        expected = asked.outputs or await _infer(full, asked)
    except ServingError:
        return None
    try:
        found = await _infer(lower, asked)
        fault = _golden_fault(full, asked, expected, found)
        worst = max((deviation(found[name], expected[name]) for name in expected), default=0.0)
        if fault or worst > tolerance:
            return ComparedRequest(worst, fault)
        full_s, lower_s = await _shortest_s(full, asked), await _shortest_s(lower, asked)
    except ServingError as error:
        return ComparedRequest(math.inf, f"{asked.source} fails: {error}")
    return ComparedRequest(worst, "", full_s, lower_s)


def _golden_fault(
    model: CompiledModel, asked: TrialRequest, expected: Arrays, found: Arrays
) -> str:
    """Say how a golden request fails that succeeds in f32: the version would not serve."""
    signature = model.signatures[asked.signature]
    if asked.fault(signature, expected):
        return ""  # the version is not served anyway
    fault = asked.fault(signature, found)
    return fault and f"golden request {asked.source}: {fault}"


async def _infer(model: CompiledModel, asked: TrialRequest) -> Arrays:
    return await model.infer(model.signatures[asked.signature], asked.inputs, copies)


async def _shortest_s(model: CompiledModel, asked: TrialRequest, most: int = REPEATS) -> float:
    """Give the shortest time of an inference, for whose shapes the model is compiled."""
    began, shortest = now(), math.inf
    for _ in range(most):
        again = now()
        await _infer(model, asked)
        # Whatever else the machine does can only lengthen an inference.
        shortest = min(shortest, now() - again)
        if now() - began > REPEATED_S:
            break
    return shortest


async def generated_for(model: CompiledModel) -> list[TrialRequest]:
    """Give requests of finite values that the model takes, of each signature of known ranks."""
    until = time.monotonic() + MOST_S
    return [
        asked
        for name, signature in model.signatures.items()
        if has_specs(signature)
        async for asked in _accepted_requests(model, name, signature, until)
    ]


def zeros_for(model: CompiledModel) -> list[TrialRequest]:
    """Give a batch of zeros for each signature of known ranks, whether it takes that or not.

    None where a size beyond the batch is open: zeros of a made-up size say nothing of the time that
    an image of a client's takes.
    """
    found = {name: each for name, each in model.signatures.items() if has_specs(each)}
    specs = [spec for each in found.values() for spec in each.inputs.values()]
    if any(-1 in spec.shape[1:] for spec in specs if spec.shape):
        return []
    return [
        TrialRequest("zeros", name, {alias: _zeros(spec) for alias, spec in each.inputs.items()})
        for name, each in found.items()
    ]


def _zeros(spec: TensorSpec) -> Array:
    fill = b"" if spec.dtype is DataType.STRING else 0
    return np.full([ROWS if n == -1 else n for n in spec.shape or ()], fill, spec.dtype.numpy)


def has_specs(signature: Signature) -> bool:
    """Whether requests can be generated: all ranks are known, and nothing is parsed before."""
    is_served = not (signature.left_out or signature.definition or signature.examples)
    known = signature.inputs and all(each.shape is not None for each in signature.inputs.values())
    return bool(is_served and known and not signature.states)


async def _accepted_requests(
    model: CompiledModel, name: str, signature: Signature, until: float
) -> AsyncIterator[TrialRequest]:
    inputs = [input_of(alias, spec) for alias, spec in signature.inputs.items()]
    first = await _first_accepted(model, signature, inputs, until)
    if first is None:
        return
    guess, asked, outputs = first
    yield TrialRequest(f"generated: {asked}", name, asked.inputs, outputs=outputs)
    finite = (each for each in requests(inputs, guess) if each.kind is ValueKind.FINITE)
    for each in islice(finite, MOST_REQUESTS - 1):
        yield TrialRequest(f"generated: {each}", name, each.inputs)


async def _first_accepted(
    model: CompiledModel, signature: Signature, inputs: list[GeneratedInput], until: float
) -> tuple[Guess, GeneratedRequest, Arrays] | None:
    """Give the first guess that the model takes, with its usual request and that one's answer."""
    for guess in islice(guesses(inputs), MOST_GUESSES):
        if time.monotonic() >= until:
            return None
        asked = usual(inputs, guess)
        with suppress(ServingError):
            return guess, asked, await model.infer(signature, asked.inputs, copies)
    return None


def input_of(alias: str, spec: TensorSpec) -> GeneratedInput:
    """Describe an input; the first dimensions that are open are those of one batch."""
    names = (f"{alias} {at}" if at else "batch" for at in range(len(spec.shape or ())))
    dims = zip(names, spec.shape or (), strict=True)
    return GeneratedInput(
        alias, spec.dtype, tuple(name if size < 0 else size for name, size in dims)
    )
