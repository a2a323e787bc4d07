"""Serves XGBoost's own files, as `Booster.save_model` and `XGBClassifier.save_model` write them.

XGBoost reads past the end of a truncated file, and may take minutes and all memory before it fails.
So a truncated UBJSON file is detected first, by the lengths in it.

Source: the UBJSON specification, draft 12; big-endian, as XGBoost writes it.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array, Arrays, DataType
from ie_serving.engines import driver_params
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.run.function import needed, reading
from ie_serving.engines.run.program import CompiledPrograms
from ie_serving.engines.run.threads import threads
from ie_serving.engines.tabular import rows
from ie_serving.engines.tabular.rows import TensorForm, X, Y, compiled, labelled

LIBRARY = "xgboost"
BINARY, SOFTMAX, SOFTPROB = "binary:logistic", "multi:softmax", "multi:softprob"
JSON = ".json"
"""Suffix of text. XGBoost reads and writes files of any other suffix as UBJSON."""
BY_WRAPPER = "scikit_learn"
"""Attribute of models saved by XGBClassifier or a similar wrapper."""

RunBooster = Callable[[Array], Array]


def load(file: Path, options: EngineOptions) -> CompiledPrograms:
    """Make the model of a file. See `engines.drivers.LoadDirectory`."""
    driver_params.check_known(options, (driver_params.ANSWERS,), LIBRARY)
    as_library = driver_params.as_library(options)
    with needed(LIBRARY, LIBRARY, file.name):
        import xgboost
    with reading(LIBRARY, file.name):
        if file.suffix != JSON:
            _check(file)
        booster = xgboost.Booster()
        booster.load_model(str(file))
        form, predict = _described(xgboost, booster, as_library=as_library)
    refusals = (xgboost.core.XGBoostError,)
    return compiled(form, predict, options, library=LIBRARY, refusals=refusals)


def _check(file: Path) -> None:
    """Refuse files that the library would misread. Raises: LoadFailed."""
    content = file.read_bytes()
    if content[:1] != b"{":
        raise LoadFailed(
            f"{file.name} is of XGBoost's old binary format, which releases since 3.1 do not read,"
            " or of another library: load it by an older release and save it as JSON"
        )
    check_whole(content, file.name)


def _described(
    xgboost: Any,  # noqa: ANN401  the library's
    booster: Any,  # noqa: ANN401
    *,
    as_library: bool,
) -> tuple[TensorForm, Any]:
    """Describe a booster's tensors, and give the function that computes its outputs."""
    # A booster has no attribute for its objective; its configuration, in JSON, names it.
    learner = json.loads(booster.save_config())["learner"]
    objective = learner["objective"]["name"]
    # Labels follow from the greatest probability; Classify needs the probabilities as well.
    booster.set_param({"nthread": threads(), **({} if as_library else _instead(objective))})
    inputs = rows.matrix(booster.num_features(), DataType.FP32)
    run = _run(xgboost, booster, learner["gradient_booster"]["name"])
    if objective in (BINARY, SOFTMAX, SOFTPROB) and not as_library:
        classes = max(int(learner["learner_model_param"]["num_class"]), 2)
        outputs = rows.classified(DataType.INT64, DataType.FP32, classes)
        form = TensorForm(inputs, outputs, rows.names_of(range(classes)))
        return form, lambda given: labelled(run(given[X]))
    # One row of zeros shows how many values a row gets, which depends on the objective.
    sample = run(np.zeros((1, booster.num_features()), np.float32))
    form = TensorForm(inputs, rows.values(DataType.FP32, *sample.shape[1:]))
    return form, partial(_values, run)


def _instead(objective: str) -> Mapping[str, str]:
    return {"objective": SOFTPROB} if objective == SOFTMAX else {}


def _run(xgboost: Any, booster: Any, kind: str) -> RunBooster:  # noqa: ANN401
    best = booster.attr("best_iteration")
    # XGBClassifier predicts by the rounds up to the best one of early stopping, and so does this.
    stops = booster.attr(BY_WRAPPER) is not None and best is not None
    rounds = (0, int(best) + 1) if stops else (0, 0)
    # Prediction without a copy exists only for trees.
    if kind == "gblinear":
        return lambda x: booster.predict(xgboost.DMatrix(x))
    return partial(_in_place, booster, rounds)


def _in_place(booster: Any, rounds: tuple[int, int], x: Array) -> Array:  # noqa: ANN401
    # The server has checked the number of features; names are known only from the training.
    found = booster.inplace_predict(x, iteration_range=rounds, validate_features=False)
    return np.asarray(found)


def _values(run: RunBooster, inputs: Arrays) -> Arrays:
    return {Y: run(inputs[X])}


SIZES = {
    **dict.fromkeys(b"ZNTF", 0),
    **dict.fromkeys(b"iUC", 1),
    **dict.fromkeys(b"I", 2),
    **dict.fromkeys(b"ld", 4),
    **dict.fromkeys(b"LD", 8),
}
"""Bytes of a value by its marker."""
INTEGERS = b"iUIlL"


def check_whole(content: bytes, file: str) -> None:
    """Refuse a file that is shorter than its lengths say. Raises: LoadFailed."""
    try:
        end = _UbjsonReader(content).value(0)
    except (IndexError, ValueError, RecursionError) as error:
        cause = error or "nested too deeply"
        raise LoadFailed(f"{file} is damaged or was cut ({cause}): upload it again") from error
    if end != len(content):
        raise LoadFailed(
            f"{file} is damaged, since {len(content) - end} bytes follow its end: upload it again"
        )


class _UbjsonReader:
    """Finds where each value ends. Raises: IndexError, ValueError."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def value(self, at: int) -> int:
        """Give the end of the value whose marker is at `at`."""
        marker = self._content[at]
        if marker in SIZES:
            return self._checked_end(at + 1 + SIZES[marker])
        if marker in b"SH":
            return self._text(at + 1)
        if marker in b"[{":
            return self._container(at + 1, keys=marker == ord("{"))
        raise ValueError(f"no value begins at byte {at}")

    def _container(self, at: int, *, keys: bool) -> int:
        kind = self._content[at + 1] if self._content[at] == ord("$") else None
        at += 0 if kind is None else 2
        if self._content[at] == ord("#"):
            count, at = self._integer(at + 1)
            # Arrays of one type hold nearly all of a model: they are skipped in one step.
            if kind in SIZES and not keys:
                return self._checked_end(at + count * SIZES[kind])
            for _ in range(count):
                at = self.value(self._text(at) if keys else at)
            return at
        close = ord("}" if keys else "]")
        while self._content[at] != close:
            at = self.value(self._text(at) if keys else at)
        return at + 1

    def _text(self, at: int) -> int:
        length, start = self._integer(at)
        return self._checked_end(start + length)

    def _integer(self, at: int) -> tuple[int, int]:
        marker = self._content[at]
        if marker not in INTEGERS:
            raise ValueError(f"no length at byte {at}")
        end = self._checked_end(at + 1 + SIZES[marker])
        number = int.from_bytes(self._content[at + 1 : end], "big", signed=marker != ord("U"))
        if number < 0:
            raise ValueError(f"a length below 0 at byte {at}")
        return number, end

    def _checked_end(self, end: int) -> int:
        if end > len(self._content):
            raise ValueError(f"{end - len(self._content)} bytes are missing at its end")
        return end
