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
from dataclasses import replace
from itertools import islice
from pathlib import Path

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
        own, full = options.of(OpenVinoOptions), compiled[FULL]
        if own.leaves_precision and not _computes_in_full(full):
            return FULL
        lower = self._lower(own)
        if own.leaves_precision and not lower:
            return FULL
        tolerance = own.precision_tolerance
        trials: list[Trial] = []
        asked = self._recorded(directory, full) if lower else []
        # Zeros take as long as other numbers, and to generate those takes longer than all else that
        # a small model needs.
        zeros = zeros_for(full) if lower else []
        is_short = measured_as_brief(full, asked, zeros)
        if is_short is None:
            is_short = own_loop.run(is_brief(full, asked + zeros))
        if is_short:
            cause = "an inference in f32 is too short for a lower precision to win time that shows"
            log.info(Event("precision chosen", path=directory, precision=FULL, cause=cause))
            return FULL
        asked += own_loop.run(generated_for(full)) if lower else []
        for precision in lower if asked else ():
            # Compiling included: it takes all processors and would disturb other trials' timings.
            with _alone:
                trial = self._tried(directory, precision, options, compiled, asked)
            trials.append(trial)
            log.info(Event("precision tried", path=directory, **_facts(trial, tolerance)))
        chosen, cause = choose(trials, tolerance, has_lower=bool(lower), is_asked=bool(asked))
        log.info(Event("precision chosen", path=directory, precision=chosen, cause=cause))
        return chosen

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
        return own_loop.run(trial_of(precision, full, model, asked, tolerance))


def _in(precision: str, options: EngineOptions) -> EngineOptions:
    own = options.of(OpenVinoOptions)
    return options.having(replace(own, inference_precision=precision))


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


def choose(
    trials: Sequence[Trial], tolerance: float, *, has_lower: bool = True, is_asked: bool = True
) -> tuple[str, str]:
    """Choose a precision, and say why. Pure.

    Args:
        trials: of the lower precisions.
        tolerance: largest deviation from f32.
        has_lower: whether the device has a lower precision.
        is_asked: whether there are requests to try.
    """
    if not has_lower:
        return FULL, "the device has no lower precision"
    if not is_asked:
        return FULL, "the model takes neither a recorded request nor a generated one"
    if fit := [trial for trial in trials if not trial.refusal(tolerance)]:
        fastest = min(fit, key=lambda trial: trial.share)
        return fastest.precision, "the fastest within the tolerance"
    return FULL, "; ".join(f"{each.precision}: {each.refusal(tolerance)}" for each in trials)
