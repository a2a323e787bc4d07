"""Serves XGBoost's own files, as `Booster.save_model` and `XGBClassifier.save_model` write them."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array, Arrays, DataType
from ie_serving.engines import declared
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.run.function import needed, reading
from ie_serving.engines.run.program import CompiledPrograms
from ie_serving.engines.run.threads import threads
from ie_serving.engines.tabular import form as tabular
from ie_serving.engines.tabular.compiled import compiled
from ie_serving.engines.tabular.form import TensorForm, X, Y, labelled
from ie_serving.engines.xgboost.ubjson import check_whole

LIBRARY = "xgboost"
BINARY, SOFTMAX, SOFTPROB = "binary:logistic", "multi:softmax", "multi:softprob"
JSON = ".json"
"""Suffix of text. XGBoost reads and writes files of any other suffix as UBJSON."""
BY_WRAPPER = "scikit_learn"
"""Attribute of models saved by XGBClassifier or a similar wrapper."""

Run = Callable[[Array], Array]


def load(file: Path, options: EngineOptions) -> CompiledPrograms:
    """Make the model of a file. See `engines.listed.Load`."""
    declared.check_known(options, (declared.ANSWERS,), LIBRARY)
    as_library = declared.as_library(options)
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
    inputs = tabular.matrix(booster.num_features(), DataType.FP32)
    run = _run(xgboost, booster, learner["gradient_booster"]["name"])
    if objective in (BINARY, SOFTMAX, SOFTPROB) and not as_library:
        classes = max(int(learner["learner_model_param"]["num_class"]), 2)
        outputs = tabular.classified(DataType.INT64, DataType.FP32, classes)
        form = TensorForm(inputs, outputs, tabular.names_of(range(classes)))
        return form, lambda given: labelled(run(given[X]))
    # One row of zeros shows how many values a row gets, which depends on the objective.
    sample = run(np.zeros((1, booster.num_features()), np.float32))
    form = TensorForm(inputs, tabular.values(DataType.FP32, *sample.shape[1:]))
    return form, partial(_values, run)


def _instead(objective: str) -> Mapping[str, str]:
    return {"objective": SOFTPROB} if objective == SOFTMAX else {}


def _run(xgboost: Any, booster: Any, kind: str) -> Run:  # noqa: ANN401
    best = booster.attr("best_iteration")
    # As XGBClassifier predicts: only the rounds up to the best one of early stopping.
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


def _values(run: Run, inputs: Arrays) -> Arrays:
    return {Y: run(inputs[X])}
