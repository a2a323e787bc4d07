"""`inference_precision: auto`: takes a lower precision where trial requests show little error.

A version is compiled in f32 and in each lower precision that its device has. Both infer the
version's recorded Predict requests, and generated ones. The lower precision is taken where its
answers are within the tolerance, golden requests still succeed, and it is faster; otherwise the
version computes in f32. On a CPU this is the default where no setting gives the precision, since
OpenVINO's own default is the lowest precision that the CPU has.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.requests import SampleRequest
from ie_serving.engines.base import CompiledModel, Engine, EngineAround, EngineOptions
from ie_serving.engines.layers import own_loop
from ie_serving.engines.layers.precision_trial import (
    Trial,
    TrialRequest,
    asked_of,
    generated_for,
    is_brief,
    measured_as_brief,
    trial_of,
    zeros_for,
)
from ie_serving.engines.openvino.options import AUTO, OpenVinoOptions
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

FULL = "f32"
MOST_REQUESTS = 100
"""Recorded requests that a trial infers; more of a long recording add time and little evidence."""

Samples = Callable[[Path], Iterable[SampleRequest]]
"""Gives the recorded requests of a version directory."""
Lower = Callable[[OpenVinoOptions], Sequence[str]]
"""Names the precisions below f32 that the device has. Raises LoadFailed for other settings that say
the precision."""

_alone = threading.Lock()
"""Trials of versions that load at the same time would measure each other."""


class PrecisionEngine(EngineAround):
    """`engine`, with a choice of precision by trial. See `Engine`.

    Args of the constructor:
        engine: compiles in the precision that its options name.
        lower: names the precisions to try.
        samples: gives the requests of the trial.
    """

    def __init__(self, engine: Engine, lower: Lower, samples: Samples) -> None:
        super().__init__(engine)
        self._lower = lower
        self._samples = samples

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        """See `engines.base`. Once where the options name the precision, or none is lower."""
        own = options.of(OpenVinoOptions)
        if own.inference_precision != AUTO and not own.leaves_precision:
            return self._engine.compile(directory, options)
        if own.inference_precision == AUTO:
            # It refuses settings that contradict the choice, before anything is compiled.
            self._lower(own)
        compiled = {FULL: self._engine.compile(directory, _in(FULL, options))}
        try:
            return compiled.pop(self._chosen(directory, options, compiled))
        finally:
            for model in compiled.values():
                model.close()

    def _chosen(
        self, directory: Path, options: EngineOptions, compiled: dict[str, CompiledModel]
    ) -> str:
        """Add the models of lower precisions to `compiled`; give the precision to keep."""
        choice = self._choice(directory, options, compiled)
        if choice.cause:
            facts = {"precision": choice.precision, "cause": choice.cause}
            log.info(Event("precision chosen", path=directory, **facts))
        return choice.precision

    def _choice(
        self, directory: Path, options: EngineOptions, compiled: dict[str, CompiledModel]
    ) -> "PrecisionChoice":
        own, full = options.of(OpenVinoOptions), compiled[FULL]
        facts = PrecisionFacts(is_default=own.leaves_precision, is_in_full=_computes_in_full(full))
        if choice := choose_untried(facts):
            return choice
        lower = self._lower(own)
        facts = replace(facts, has_lower=bool(lower))
        if choice := choose_untried(facts):
            return choice
        asked = self._recorded(directory, full)
        # Zeros take as long as other numbers, and to generate those takes longer than all else that
        # a small model needs.
        zeros = zeros_for(full)
        is_short = measured_as_brief(full, asked, zeros)
        if is_short is None:
            is_short = own_loop.rehearse(is_brief(full, asked + zeros))
        facts = replace(facts, is_short=is_short)
        if choice := choose_untried(facts):
            return choice
        asked += own_loop.rehearse(generated_for(full))
        facts = replace(facts, has_requests=bool(asked))
        if choice := choose_untried(facts):
            return choice
        tolerance = own.precision_tolerance
        trials: list[Trial] = []
        for precision in lower:
            # Compiling included: it takes all processors and would disturb other trials' timings.
            with _alone:
                trial = self._tried(directory, precision, options, compiled, asked)
            trials.append(trial)
            log.info(Event("precision tried", path=directory, **_facts(trial, tolerance)))
        return choose(trials, tolerance)

    def _recorded(self, directory: Path, full: CompiledModel) -> list[TrialRequest]:
        """Give the recorded requests that the model takes."""
        return asked_of(full, list(islice(self._samples(directory), MOST_REQUESTS)))

    def _tried(
        self,
        directory: Path,
        precision: str,
        options: EngineOptions,
        compiled: dict[str, CompiledModel],
        asked: Sequence[TrialRequest],
    ) -> Trial:
        full = compiled[FULL]
        try:
            model = self._engine.compile(directory, _in(precision, options))
        except LoadFailed as error:
            return Trial(precision, fault=f"it cannot be compiled so: {error}")
        compiled[precision] = model
        # A signature that only f32 can compute must not be lost for the speed of the others.
        if _served(model) != _served(full):
            return Trial(precision, fault="not every signature can be compiled so")
        tolerance = options.of(OpenVinoOptions).precision_tolerance
        return own_loop.rehearse(trial_of(precision, full, model, asked, tolerance))


def _in(precision: str, options: EngineOptions) -> EngineOptions:
    own = options.of(OpenVinoOptions)
    return options.having(replace(own, inference_precision=precision, is_precision_tried=True))


def _served(model: CompiledModel) -> set[str]:
    return {name for name, s in model.signatures.items() if not (s.left_out or s.definition)}


def _computes_in_full(model: CompiledModel) -> bool:
    """Whether OpenVINO computes a signature: nothing else tells its precision."""
    return any(signature.precision == FULL for signature in model.signatures.values())


def _facts(trial: Trial, tolerance: float) -> Mapping[str, object]:
    return {
        "precision": trial.precision,
        "requests": trial.requests,
        "deviation": f"{trial.deviation:.3g}",
        "tolerance": tolerance,
        "time_share": f"{trial.share:.2f}",
        "cause": trial.refusal(tolerance) or "fit",
    }


@dataclass(frozen=True)
class PrecisionFacts:
    """What decides before a trial. A fact that is not known yet keeps its default: try.

    Attributes:
        is_default: no setting asks for the trial; then one that cannot be is not logged.
        is_in_full: OpenVINO computes a signature, so that its precision is known.
        has_lower: the device has a lower precision.
        is_short: an inference in f32 is too short for a difference to show.
        has_requests: there are requests to try.
    """

    is_default: bool
    is_in_full: bool
    has_lower: bool = True
    is_short: bool = False
    has_requests: bool = True


class PrecisionChoice(NamedTuple):
    """A precision, and why it was chosen; `cause` is empty if the log does not say so."""

    precision: str
    cause: str = ""


def choose_untried(facts: PrecisionFacts) -> PrecisionChoice | None:
    """Choose a precision without trials; None if `facts` call for more facts or trials. Pure."""
    if facts.is_default and not (facts.is_in_full and facts.has_lower):
        return PrecisionChoice(FULL)
    if not facts.has_lower:
        return PrecisionChoice(FULL, "the device has no lower precision")
    if facts.is_short:
        cause = "an inference in f32 is too short for a lower precision to win time that shows"
        return PrecisionChoice(FULL, cause)
    if not facts.has_requests:
        cause = "the model takes neither a recorded request nor a generated one"
        return PrecisionChoice(FULL, cause)
    return None


def choose(trials: Sequence[Trial], tolerance: float) -> PrecisionChoice:
    """Choose a precision, and say why. Pure.

    Args:
        trials: trials of the lower precisions.
        tolerance: largest deviation from f32.
    """
    if fit := [trial for trial in trials if not trial.refusal(tolerance)]:
        fastest = min(fit, key=lambda trial: trial.share)
        return PrecisionChoice(fastest.precision, "the fastest within the tolerance")
    causes = (f"{each.precision}: {each.refusal(tolerance)}" for each in trials)
    return PrecisionChoice(FULL, "; ".join(causes))
