"""What each type of step computes: data in, data out. MERGE and its like are in `running.py`."""

import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ie_serving.core.errors import InvalidRequest, LoadFailed, ServingError
from ie_serving.engines.python.asking import Named
from ie_serving.engines.python.konduit.data import Data, Image
from ie_serving.engines.python.konduit.definition import LOGGING, MODEL, MODELS, PYTHON, Step
from ie_serving.engines.python.konduit.script import Script

log = logging.getLogger("ie_serving.kernel")

Run = Callable[[Data, Named], Data]
"""Computes a step; the second are the server's models."""

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


# -- what models give, in words -------------------------------------------------------------------


def _rows(data: Data, step: Step) -> tuple[str, "np.ndarray[Any, Any]"]:
    """Give the array that a step is about, as rows; and its name. Raises: InvalidRequest."""
    arrays = [n for n, v in data.items() if isinstance(v, np.ndarray) and v.dtype.kind in "iuf"]
    name = step.keys.get("inputName") or (arrays[0] if len(arrays) == 1 else "")
    if name not in data:
        there = ", ".join(data) or "nothing"
        raise InvalidRequest(f'inputName "{name}" is not there: name one of {there}')
    array = np.asarray(data[name])
    if array.ndim not in (1, 2) or array.dtype.kind not in "iuf":
        raise InvalidRequest(f'"{name}" is {array.dtype} {list(array.shape)}; expected rows')
    return name, np.atleast_2d(array)


def _classifier(step: Step) -> Run:
    """Source: ClassifierOutputStep: the best class of each row; lists where there are several."""
    keys = step.keys
    labels, top = keys.get("labels") or [], keys.get("topN") or 1
    names = {
        "label": keys.get("labelName", "label") if keys.get("returnLabel", True) else "",
        "index": keys.get("indexName", "index") if keys.get("returnIndex", True) else "",
        "prob": keys.get("probName", "prob") if keys.get("returnProb", True) else "",
    }
    if not isinstance(labels, list) or not isinstance(top, int) or top < 1:
        raise LoadFailed("expected labels as a list, and topN as a number from 1 on")

    def run(data: Data, _: Named) -> Data:
        name, rows = _rows(data, step)
        best = np.argsort(-rows, axis=1, kind="stable")[:, :top]
        if labels and len(labels) != rows.shape[1]:
            raise ServingError(f'{len(labels)} labels for {rows.shape[1]} classes of "{name}"')
        found = {
            "index": best.tolist(),
            "prob": np.take_along_axis(rows, best, 1).astype(float).tolist(),
            "label": [[str(labels[at]) if labels else str(at) for at in row] for row in best],
        }
        given = {alias: _unwrapped(found[item]) for item, alias in names.items() if alias}
        if keys.get("allProbabilities"):
            given["allProbabilities"] = _unwrapped([[row] for row in rows.astype(float).tolist()])
        return given

    return run


def _unwrapped(rows: list[list[Any]]) -> Any:  # noqa: ANN401
    """Give one class of each row for lists of one; and of a single row what it holds."""
    plain = [row[0] if len(row) == 1 else row for row in rows]
    return plain[0] if len(plain) == 1 else plain


def _regression(step: Step) -> Run:
    names = step.keys["names"]
    if not isinstance(names, Mapping) or not all(isinstance(at, int) for at in names.values()):
        raise LoadFailed('names: expected fields with their columns, such as {"price": 0}')

    def run(data: Data, _: Named) -> Data:
        rows = _rows(data, step)[1]
        for field, column in names.items():
            if not 0 <= column < rows.shape[1]:
                raise ServingError(f"{field} is column {column} of {rows.shape[1]}")
        found = {field: rows[:, at].astype(float).tolist() for field, at in names.items()}
        return {field: each[0] if len(each) == 1 else each for field, each in found.items()}

    return run


MAKERS: Mapping[str, Callable[[Step], Run]] = {
    PYTHON: _script,
    LOGGING: _logging,
    "CLASSIFIER_OUTPUT": _classifier,
    "REGRESSION_OUTPUT": _regression,
}
