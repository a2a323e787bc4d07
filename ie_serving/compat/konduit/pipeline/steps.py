"""What each type of step computes: data in, data out. MERGE and its like are in `running.py`."""

import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ie_serving.compat.konduit.data import Data, Image
from ie_serving.compat.konduit.pipeline import boxes, built_in
from ie_serving.compat.konduit.pipeline.built_in import Run
from ie_serving.compat.konduit.pipeline.definition import LOGGING, MODEL, MODELS, PYTHON, Step
from ie_serving.compat.konduit.pipeline.script import Script
from ie_serving.core.values.errors import InvalidRequest, LoadFailed, ServingError
from ie_serving.engines.python.asking import Named

log = logging.getLogger("ie_serving.kernel")

LONGEST_SHOWN = 200
"""Characters of a value that a LOGGING step writes: pictures would fill the log."""


def made(step: Step) -> Run:
    """Make a step.

    Raises:
        LoadFailed: its keys are at fault.
        Exception: whatever the import code of a script raises.
    """
    if step.type in MODELS:
        return partial(_asked, step)
    return MAKERS[step.type](step)


# -- models -------------------------------------------------------------------------------------


def _asked(step: Step, data: Data, models: Named) -> Data:
    model = models[step.keys[MODEL]]
    names = step.keys.get("inputNames") or [*model.inputs]
    missing = [name for name in names if name not in data]
    if missing:
        there = ", ".join(data) or "nothing"
        raise InvalidRequest(f'input "{missing[0]}" of the model is missing; there is {there}')
    specs = model.inputs
    given = model.predict({name: _tensor(data[name], specs.get(name)) for name in names})
    wanted = step.keys.get("outputNames") or [*given]
    lacking = [name for name in wanted if name not in given]
    if lacking:
        raise ServingError(f'the model gives no "{lacking[0]}"; it gives {", ".join(given)}')
    return {name: given[name] for name in wanted}


def _tensor(value: Any, spec: Any) -> Any:  # noqa: ANN401
    """Give a value as a model takes it: lists have no dtype that anybody chose."""
    if isinstance(value, Image):
        return value.data
    if not isinstance(value, list | int | float) or spec is None:
        return value
    dtype = spec.dtype.numpy
    return value if dtype == np.object_ else np.asarray(value, dtype)


# -- Python -------------------------------------------------------------------------------------


def _script(step: Step) -> Run:
    given = step.keys["pythonConfig"]
    if not isinstance(given, Mapping):
        raise LoadFailed("pythonConfig: expected an object")
    script = Script(given)
    return lambda data, _: script(data)


# -- what changes nothing -------------------------------------------------------------------------


def _logging(step: Step) -> Run:
    level = logging.getLevelName(str(step.keys.get("logLevel", "INFO")).replace("TRACE", "DEBUG"))
    shown = str(step.keys.get("log", "KEYS"))
    try:
        wanted = re.compile(step.keys.get("keyFilterRegex", ""))
    except (re.error, TypeError) as error:
        raise LoadFailed(f"keyFilterRegex: no regular expression: {error}") from error
    if not isinstance(level, int) or shown not in ("KEYS", "KEYS_AND_VALUES", "VALUES"):
        raise LoadFailed("expected logLevel such as INFO, and log KEYS or KEYS_AND_VALUES")

    def run(data: Data, _: Named) -> Data:
        chosen = [name for name in data if not wanted.pattern or wanted.fullmatch(name)]
        texts = chosen if shown == "KEYS" else [f"{n}={_short(data[n])}" for n in chosen]
        log.log(level, "step %s: %s", step.name, ", ".join(texts))
        return data

    return run


def _short(value: object) -> str:
    return repr(value)[:LONGEST_SHOWN]


MAKERS: Mapping[str, Callable[[Step], Run]] = {
    PYTHON: _script,
    LOGGING: _logging,
    "CLASSIFIER_OUTPUT": built_in.classifier,
    "REGRESSION_OUTPUT": built_in.regression,
    "IMAGE_TO_NDARRAY": built_in.to_array,
    "IMAGE_RESIZE": built_in.resized,
    "IMAGE_CROP": boxes.cropped,
    "SSD_TO_BBOX": boxes.ssd,
    "YOLO_BBOX": boxes.yolo,
    "BOUNDING_BOX_FILTER": boxes.box_filter,
    "EXTRACT_BOUNDING_BOX": boxes.extracted,
    "DRAW_BOUNDING_BOX": boxes.draws,
}
