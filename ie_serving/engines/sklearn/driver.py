"""scikit-learn, and any object of its kind: what was saved by skops, joblib or pickle."""

import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines import declared
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.run.function import needed, one_line
from ie_serving.engines.run.program import CompiledPrograms
from ie_serving.engines.sklearn.files import LIBRARY, read
from ie_serving.engines.sklearn.jobs import bound_jobs
from ie_serving.engines.tabular import form as tabular
from ie_serving.engines.tabular.compiled import compiled
from ie_serving.engines.tabular.form import LABEL, PROBABILITIES, Specs, TensorForm, Y

# The matrix of a request has no names; its columns are taken in the order of the training.
warnings.filterwarnings("ignore", message="X does not have valid feature names")


def load(file: Path, options: EngineOptions) -> CompiledPrograms:
    """Make the model of a file. See `engines.listed.Load`."""
    declared.check_known(options, (declared.INPUTS,), "sklearn")
    estimator = read(file, options)
    bound_jobs(estimator)
    inputs = declared.specs(options, declared.INPUTS) or _matrix(estimator)
    feed = _frame if len(inputs) > 1 else _only
    form = TensorForm(inputs, *_outputs(estimator, inputs, feed))
    predict = partial(_predict, estimator, form, feed)
    return compiled(form, predict, options, library=LIBRARY)


def _matrix(estimator: Any) -> Specs:  # noqa: ANN401  any estimator
    features = getattr(estimator, "n_features_in_", None)
    if not isinstance(features, int | np.integer):
        raise LoadFailed(
            f"the {type(estimator).__name__} does not say how many features it takes: name its"
            ' inputs by params, such as {"inputs": {"x": {"dtype": "string", "shape": [-1]}}}'
        )
    return tabular.matrix(int(features), DataType.FP64)


def _only(inputs: Mapping[str, Array]) -> Any:  # noqa: ANN401  what estimators take
    (array,) = inputs.values()
    return array.tolist() if array.dtype == object and array.ndim == 1 else array


def _frame(inputs: Mapping[str, Array]) -> Any:  # noqa: ANN401
    """Give columns as a table, which estimators choose columns of by name."""
    with needed("pandas", "pandas", "a model of several inputs"):
        import pandas
    return pandas.DataFrame({name: array.reshape(len(array)) for name, array in inputs.items()})


def _outputs(estimator: Any, inputs: Specs, feed: Any) -> tuple[Specs, tuple[str, ...]]:  # noqa: ANN401
    """Describe the outputs, and name the classes of a classifier."""
    if not hasattr(estimator, "predict"):
        raise LoadFailed(f"the file holds a {type(estimator).__name__}, which has no predict")
    classes = getattr(estimator, "classes_", None)
    # Of several outputs `classes_` is a list with an array for each: these answer values.
    if isinstance(classes, np.ndarray) and classes.ndim == 1:
        labels = tabular.dtype_of(classes)
        has_scores = hasattr(estimator, "predict_proba")
        scores = DataType.FP64 if has_scores else None
        return tabular.classified(labels, scores, len(classes)), tabular.names_of(classes)
    sample = _tried(estimator, inputs, feed)
    return tabular.values(tabular.dtype_of(sample), *sample.shape[1:]), ()


def _tried(estimator: Any, inputs: Specs, feed: Any) -> Array:  # noqa: ANN401
    """Compute one row of zeros, since nothing else says the dtype and shape of the values."""
    zeros = {
        name: np.full(
            [max(size, 1) for size in spec.shape or (1,)],
            "" if spec.dtype is DataType.STRING else 0,
            spec.dtype.numpy,
        )
        for name, spec in inputs.items()
    }
    try:
        return np.asarray(estimator.predict(feed(zeros)))
    except Exception as error:  # libraries raise what they like
        name = type(estimator).__name__
        raise LoadFailed(f"the {name} fails on a row of zeros: {one_line(error)}") from error


def _predict(estimator: Any, form: TensorForm, feed: Any, inputs: Mapping[str, Array]) -> Any:  # noqa: ANN401
    given = feed(inputs)
    name = LABEL if LABEL in form.outputs else Y
    outputs = {name: estimator.predict(given)}
    if PROBABILITIES in form.outputs:
        outputs[PROBABILITIES] = estimator.predict_proba(given)
    return outputs
