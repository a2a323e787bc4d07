"""The requests of `ie_serving tune`: recorded ones, those of the version, or random numbers."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from ie_serving.commands.tune.bench import warm
from ie_serving.commands.tune.search import ReadSamples
from ie_serving.core.values.errors import LoadFailed, ServingError
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import SERVING_DEFAULT
from ie_serving.engines.base import CompiledModel
from ie_serving.engines.layers.joining import requests as made_up
from ie_serving.engines.layers.precision_trial import TrialRequest, asked_of

MOST_REQUESTS = 200
"""Most requests that callers take in turn: the first ones of a longer recording."""

_GIVE = Hint("; give recorded ones by {tune.requests}")


async def requests_for(
    model: CompiledModel,
    directory: Path,
    file: Path | None,
    of_file: ReadSamples,
    of_version: ReadSamples,
) -> tuple[list[TrialRequest], str]:
    """Give requests that the model answers, and a description of them.

    Raises:
        LoadFailed: the model answers none.
    """
    if file is not None:
        found = await _accepted(model, _of_file(model, file, of_file))
        if not found:
            raise LoadFailed(f"{file}: the model answers none of its Predicts; record them anew")
        return found, f"{len(found)} of {file.name}"
    found = await _accepted(
        model, asked_of(model, list(islice(of_version(directory), MOST_REQUESTS)))
    )
    if found:
        return found, f"{len(found)} that the version brings along"
    return [await _random(model)], f"random numbers{_GIVE}"


def _of_file(model: CompiledModel, file: Path, read: ReadSamples) -> list[TrialRequest]:
    try:
        return asked_of(model, list(islice(read(file), MOST_REQUESTS)))
    except (OSError, ServingError) as error:
        raise LoadFailed(f"{file} cannot be used: {error}") from error


async def _accepted(model: CompiledModel, asked: Sequence[TrialRequest]) -> list[TrialRequest]:
    """Leave out requests that the model refuses."""
    found = []
    for each in asked:
        try:
            await warm(model, [each])
        except ServingError:
            # A recording may be of another version, and a refusal would end the measurement.
            continue
        found.append(each)
    return found


async def _random(model: CompiledModel) -> TrialRequest:
    """Make a random request of one row for the default signature, or else the first."""
    served = {n: s for n, s in model.signatures.items() if not (s.left_out or s.definition)}
    name = SERVING_DEFAULT if SERVING_DEFAULT in served else min(served)
    problem = ""
    for inputs in made_up(served[name]):
        asked = TrialRequest("random", name, inputs)
        try:
            await warm(model, [asked])
        except ServingError as error:
            problem = str(error)
            continue
        return asked
    raise LoadFailed(f"random numbers are refused: {problem}{_GIVE}")
