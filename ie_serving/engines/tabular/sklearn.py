"""Serves estimators of scikit-learn, or with its interface, saved by skops, joblib or pickle."""

import json
import logging
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

import numpy as np

from ie_serving.core.values.errors import LoadFailed, NoModel
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import Array, Arrays, DataType, Specs
from ie_serving.engines import driver_params
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.run.function import needed, one_line, reading
from ie_serving.engines.run.program import CompiledPrograms
from ie_serving.engines.run.threads import threads
from ie_serving.engines.tabular import rows
from ie_serving.engines.tabular.rows import LABEL, PROBABILITIES, TensorForm, Y, compiled
from ie_serving.telemetry.log.logs import Event

# The matrix of a request has no names; its columns have the order of the training.
warnings.filterwarnings("ignore", message="X does not have valid feature names")

DEEPEST = 12
"""Levels of nested lists and estimators that are looked through; a search over a pipeline of a
column transformer of pipelines has 10."""

log = logging.getLogger(__name__)
SKOPS = ".skops"
LIBRARY, EXTRA = "scikit-learn", "sklearn"
MEASURES = (
    "sklearn.metrics._classification.",
    "sklearn.metrics._ranking.",
    "sklearn.metrics._regression.",
)
"""Modules of scikit-learn whose functions compare answers, with which a search chose."""
FITTED = (
    *MEASURES,
    "sklearn._loss.",
    "sklearn.calibration.",
    "sklearn.ensemble._hist_gradient_boosting.",
    "sklearn.gaussian_process.",
    "sklearn.metrics._dist_metrics.",
    "sklearn.metrics._scorer.",
    "sklearn.model_selection._split.",
    "sklearn.neighbors._ball_tree.",
    "sklearn.neighbors._kd_tree.",
    "sklearn.neural_network._stochastic_optimizers.",
    "sklearn.tree._tree.",
)
"""Modules of scikit-learn with the types in which fitted estimators keep trees, distances, losses,
kernels, and how a search chose. They run no code that the file does not name as another type;
skops leaves it to its users to trust them."""
DTYPE = "numpy.dtype"
"""Type of the dtypes that imputers keep; skops reads one from an empty array, without pickle."""
CONSENT = Hint("; to trust the authors of these models, set {engine.allow_pickle}")


def load(file: Path, options: EngineOptions) -> CompiledPrograms:
    """Make the model of a file. See `engines.drivers.LoadDirectory`."""
    driver_params.check_known(options, (driver_params.INPUTS,), "sklearn")
    estimator = read(file, options)
    bound_jobs(estimator)
    inputs: Specs = driver_params.specs(options, driver_params.INPUTS)
    if not inputs:
        inputs = _matrix(estimator)
        _refuse_columns(estimator, inputs)
    feed = _as_frame() if _has_columns(estimator, inputs) else _single_input
    form = TensorForm(inputs, *_outputs(estimator, inputs, feed))
    predict = partial(_predict, estimator, form, feed)
    return compiled(form, predict, options, library=LIBRARY)


def bound_jobs(estimator: Any, most: int | None = None) -> None:  # noqa: ANN401  any estimator
    """Lower `n_jobs` of an estimator, and of those within it, to `most` threads.

    Without `most` the limit is the number of threads that the server may use.
    """
    limit = most or threads()
    for each in _estimators_in(estimator, DEEPEST):
        jobs = vars(each).get("n_jobs")
        if isinstance(jobs, int) and not 0 <= jobs <= limit:
            each.n_jobs = limit


def _estimators_in(value: Any, levels: int) -> Iterator[Any]:  # noqa: ANN401
    if hasattr(value, "__dict__") and hasattr(value, "get_params"):
        yield value
        inner: Any = vars(value).values()
    else:
        inner = value.values() if isinstance(value, dict) else value
        inner = inner if isinstance(value, dict | list | tuple) else ()
    for each in inner if levels else ():
        if isinstance(each, dict | list | tuple) or hasattr(each, "get_params"):
            yield from _estimators_in(each, levels - 1)


def _matrix(estimator: Any) -> Specs:  # noqa: ANN401  any estimator
    features = getattr(estimator, "n_features_in_", None)
    if not isinstance(features, int | np.integer):
        raise LoadFailed(
            f"the {type(estimator).__name__} does not say how many features it takes: name its"
            ' inputs by params, such as {"inputs": {"x": {"dtype": "string", "shape": [-1]}}}'
        )
    return rows.matrix(int(features), DataType.FP64)


def _refuse_columns(estimator: Any, inputs: Specs) -> None:  # noqa: ANN401  any estimator
    """Refuse an estimator that takes texts, or columns by name, and therefore no matrix.

    Raises:
        LoadFailed: every request would fail.
    """
    if not any(map(_chooses, _estimators_in(estimator, DEEPEST))):
        return
    try:
        estimator.predict(_single_input(_zeros(inputs)))
    except Exception as error:  # libraries raise what they like
        columns = [str(each) for each in getattr(estimator, "feature_names_in_", ())]
        names = f" ({', '.join(columns)})" if columns else ""
        raise LoadFailed(
            f"the {type(estimator).__name__} takes no matrix of numbers: {one_line(error)}; name"
            f" each of its {estimator.n_features_in_} columns{names} by params, such as"
            ' {"inputs": {"age": {"dtype": "float64", "shape": [-1]},'
            ' "city": {"dtype": "string", "shape": [-1]}}}'
        ) from error


def _chooses(estimator: Any) -> bool:  # noqa: ANN401  any estimator
    """Return whether an estimator knows categories that are texts, or columns by their names."""
    categories = getattr(estimator, "categories_", ())
    if any(getattr(each, "dtype", np.dtype(float)).kind in "OUST" for each in categories):
        return True
    chosen = [columns for *_, columns in getattr(estimator, "transformers_", ())]
    return any(isinstance(each, str) for columns in chosen for each in np.atleast_1d(columns))


def _has_columns(estimator: Any, inputs: Specs) -> bool:  # noqa: ANN401  any estimator
    """Return whether inputs are columns of a table; one of rank 1 may also be a list of texts."""
    if len(inputs) > 1:
        return True
    (only,) = inputs.values()
    is_row = only.shape is not None and len(only.shape) == 1
    return is_row and getattr(estimator, "n_features_in_", None) == 1


def _single_input(inputs: Arrays) -> Any:  # noqa: ANN401  what estimators take
    (array,) = inputs.values()
    return array.tolist() if array.dtype == object and array.ndim == 1 else array


def _as_frame() -> Callable[[Arrays], Any]:
    """Give what makes a table of inputs, in which estimators select columns by name.

    Raises:
        LoadFailed: pandas is not installed.
    """
    with needed("pandas", "pandas", "a model whose inputs are columns"):
        import pandas
    return lambda inputs: pandas.DataFrame(
        {name: array.reshape(len(array)) for name, array in inputs.items()}
    )


def _outputs(estimator: Any, inputs: Specs, feed: Any) -> tuple[Specs, tuple[str, ...]]:  # noqa: ANN401
    """Describe the outputs, and name the classes of a classifier."""
    if not hasattr(estimator, "predict"):
        raise LoadFailed(
            f"the file holds a {type(estimator).__name__}, which has no predict"
            ": save an estimator or a pipeline"
        )
    classes = getattr(estimator, "classes_", None)
    # `classes_` of several outputs is a list of arrays: such estimators answer values.
    if isinstance(classes, np.ndarray) and classes.ndim == 1:
        labels = rows.dtype_of(classes)
        has_scores = hasattr(estimator, "predict_proba")
        scores = DataType.FP64 if has_scores else None
        return rows.classified(labels, scores, len(classes)), rows.names_of(classes)
    sample = _tried(estimator, inputs, feed)
    return rows.values(rows.dtype_of(sample), *sample.shape[1:]), ()


def _tried(estimator: Any, inputs: Specs, feed: Any) -> Array:  # noqa: ANN401
    """Compute one row of zeros, the only way to learn the dtype and shape of the values."""
    try:
        return np.asarray(estimator.predict(feed(_zeros(inputs))))
    except Exception as error:  # libraries raise what they like
        name = type(estimator).__name__
        raise LoadFailed(f"the {name} must compute a row of zeros: {one_line(error)}") from error


def _zeros(inputs: Specs) -> Arrays:
    return {
        name: np.full(
            [max(size, 1) for size in spec.shape or (1,)],
            "" if spec.dtype is DataType.STRING else 0,
            spec.dtype.numpy,
        )
        for name, spec in inputs.items()
    }


def _predict(estimator: Any, form: TensorForm, feed: Any, inputs: Arrays) -> Any:  # noqa: ANN401
    given = feed(inputs)
    name = LABEL if LABEL in form.outputs else Y
    outputs = {name: estimator.predict(given)}
    if PROBABILITIES in form.outputs:
        outputs[PROBABILITIES] = estimator.predict_proba(given)
    return outputs


# -- files: skops, whose types are checked, and pickles, if settings allow them -----------------


def read(file: Path, options: EngineOptions) -> Any:  # noqa: ANN401  any estimator
    """Read the object of a file.

    Raises:
        LoadFailed: a library is missing, the file is broken, or it is a pickle and these are not
            allowed.
    """
    with warnings.catch_warnings(record=True) as caught, reading(LIBRARY, file.name):
        # Python would by default not repeat a warning that an earlier model caused.
        warnings.simplefilter("always")
        found = _skops(file, options) if file.suffix == SKOPS else _pickle(file, options)
    for cause in sorted({one_line(each.message) for each in caught if _is_of_version(each)}):
        log.warning(Event("model of another version of its library", file=file, cause=cause))
    return found


def _pickle(file: Path, options: EngineOptions) -> Any:  # noqa: ANN401
    if not options.allow_pickle:
        raise LoadFailed(
            f"{file.name} is a pickle: to read it may run any code, so it is not read; save the"
            " model by skops.io.dump as *.skops, or as ONNX",
            CONSENT,
        )
    with needed("joblib", EXTRA, file.name):
        import joblib
    return joblib.load(file)


def _skops(file: Path, options: EngineOptions) -> Any:  # noqa: ANN401
    with needed("skops", EXTRA, file.name):
        from skops import io
    if not is_zipfile(file):
        text = "it is no archive of skops, or is cut short: upload it again"
        raise NoModel(f"{file.name} cannot be read by {LIBRARY}: {text}")
    unknown = io.get_untrusted_types(file=file)
    refused = [each for each in unknown if not _is_fitted(each)]
    if refused and not options.allow_pickle:
        listed = ", ".join(refused)
        raise LoadFailed(
            f"{file.name} holds types that skops does not know to be harmless:"
            f" {listed}{_without_search(file)}",
            CONSENT,
        )
    return io.load(file, trusted=unknown)


def _without_search(file: Path) -> str:
    """Give advice for a file of a search, whose scores and splits no prediction needs."""
    with ZipFile(file) as archive:
        name = str(json.loads(archive.read("schema.json")).get("__class__"))
    if not name.endswith("SearchCV"):
        return ""
    return f"; dump the best_estimator_ of the {name}, which is all that predicts"


def _is_fitted(name: str) -> bool:
    """Return whether a type is one of `FITTED`, and not what such a module has imported."""
    module, _, own = name.rpartition(".")
    if name == DTYPE or not name.startswith(FITTED):
        return name == DTYPE
    found = getattr(import_module(module), own, None)
    is_known = isinstance(found, type) or (callable(found) and name.startswith(MEASURES))
    return is_known and found.__module__ == module


def _is_of_version(warning: warnings.WarningMessage) -> bool:
    return warning.category.__name__ == "InconsistentVersionWarning"
