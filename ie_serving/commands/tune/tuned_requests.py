"""Which requests a model is tuned with: those of a file, those it brings along, or random ones."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from ie_serving.commands.tune.load import warm
from ie_serving.commands.tune.tools import Read
from ie_serving.core.values.errors import LoadFailed, ServingError
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import SERVING_DEFAULT
from ie_serving.engines.base import CompiledModel
from ie_serving.engines.layers.precision_trial import TrialRequest, asked_of
from ie_serving.engines.layers.sample_rows import requests as made_up

MOST_REQUESTS = 200
"""Requests that callers take in turn; of a longer recording the first."""

_GIVE = Hint("; give recorded ones by {tune.requests}")


async def requests_for(
    model: CompiledModel, directory: Path, file: Path | None, of_file: Read, of_version: Read
) -> tuple[list[TrialRequest], str]:
    """Give requests that the model answers, and in words what they are.

    Raises:
        LoadFailed: there are none.
    """
    if file is not None:
        found = await _answered(model, _of_file(model, file, of_file))
        if not found:
            raise LoadFailed(f"{file}: none of its Predicts is answered by the model")
        return found, f"{len(found)} of {file.name}"
    found = await _answered(
        model, asked_of(model, list(islice(of_version(directory), MOST_REQUESTS)))
    )
    if found:
        return found, f"{len(found)} that the version brings along"
    return [await _random(model)], f"random numbers{_GIVE}"


def _of_file(model: CompiledModel, file: Path, read: Read) -> list[TrialRequest]:
    try:
        return asked_of(model, list(islice(read(file), MOST_REQUESTS)))
    except (OSError, ServingError) as error:
        raise LoadFailed(f"{file} cannot be used: {error}") from error


async def _answered(model: CompiledModel, asked: Sequence[TrialRequest]) -> list[TrialRequest]:
    """Leave out what the model refuses."""
    found = []
    for each in asked:
        try:
            await warm(model, [each])
        except ServingError:
            # A recording may be of another version, and one refusal would end all measuring.
            continue
        found.append(each)
    return found


async def _random(model: CompiledModel) -> TrialRequest:
    """Make up a request of one row for the default signature, or the first that there is."""
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
