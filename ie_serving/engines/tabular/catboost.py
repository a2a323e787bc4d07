"""Serves CatBoost's own files, as `save_model` writes them by default.

A model with only numeric features takes one matrix. With categories or texts among the features,
each feature is an input with its own name, so that a row has numbers and strings.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array, Arrays, DataType, Specs, tensor
from ie_serving.engines import driver_params
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.run.function import needed, reading
from ie_serving.engines.run.program import CompiledPrograms
from ie_serving.engines.run.threads import threads
from ie_serving.engines.tabular import rows
from ie_serving.engines.tabular.rows import LABEL, PROBABILITIES, TensorForm, X, Y, compiled

LIBRARY = "catboost"


def load(file: Path, options: EngineOptions) -> CompiledPrograms:
    """Make the model of a file. See `engines.drivers.LoadDirectory`."""
    driver_params.check_known(options, (), LIBRARY)
    with needed(LIBRARY, LIBRARY, file.name):
        import catboost
    with reading(LIBRARY, file.name):
        model = catboost.CatBoostRegressor()  # it applies exp() if the loss requires it
        model.load_model(str(file))
        inputs = _inputs(model)
        form = _form(model, inputs)
    predict = partial(_predicted, model, form)
    refusals = (catboost.CatBoostError,)
    return compiled(form, predict, options, library=LIBRARY, refusals=refusals)


def _inputs(model: Any) -> Specs:  # noqa: ANN401  the library's
    if model.get_embedding_feature_indices():
        raise LoadFailed(
            "the model has features that are embeddings, which no input carries:"
            " train it with their numbers as features"
        )
    words = {*model.get_cat_feature_indices(), *model.get_text_feature_indices()}
    names = model.feature_names_
    if not words:
        return rows.matrix(len(names), DataType.FP32)
    types = [DataType.STRING if at in words else DataType.FP32 for at in range(len(names))]
    return {name: tensor(name, dtype, -1) for name, dtype in zip(names, types, strict=True)}


def _form(model: Any, inputs: Specs) -> TensorForm:  # noqa: ANN401
    classes = np.asarray(model.classes_)
    if classes.size:
        labels = rows.dtype_of(classes)
        outputs = rows.classified(labels, DataType.FP64, classes.size)
        return TensorForm(inputs, outputs, rows.names_of(classes))
    zeros = {
        name: np.full(1, "", np.object_)
        if spec.dtype is DataType.STRING
        else np.zeros([abs(size) for size in spec.shape or ()], np.float32)
        for name, spec in inputs.items()
    }
    sample = np.asarray(model.predict(_rows(zeros)))
    return TensorForm(inputs, rows.values(DataType.FP64, *sample.shape[1:]))


def _predicted(model: Any, form: TensorForm, inputs: Arrays) -> Arrays:  # noqa: ANN401
    rows = _rows(inputs)
    run = partial(model.predict, rows, thread_count=threads())
    if not form.classes:
        return {Y: run()}
    return {LABEL: run(prediction_type="Class"), PROBABILITIES: run(prediction_type="Probability")}


def _rows(inputs: Arrays) -> Array:
    if X in inputs and inputs[X].ndim > 1:
        return inputs[X]
    return np.stack([array.astype(np.object_) for array in inputs.values()], axis=1)
