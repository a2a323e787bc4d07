"""Finds the undeclared input and output of an object with `predict`, as of scikit-learn."""

from typing import Any

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import BY_NUMPY, Array, DataType, Specs, TensorSpec
from ie_serving.engines.run.function import one_line

# With one row, an answer for the whole batch would look like an answer for each row.
ROWS = 2
FEATURES = "n_features_in_"
"""Attribute by which estimators of scikit-learn tell how many features they were fitted with."""


def given_by(name: str, subject: Any, given: Specs) -> tuple[Specs, Specs]:  # noqa: ANN401
    """Find the undeclared specs by a trial with zeros: rows of features, and one output.

    Raises:
        LoadFailed: the trial failed.
    """
    inputs = given or _matrix(name, subject)
    zeros = {each: _zeros(spec) for each, spec in inputs.items()}
    try:
        answer = np.asarray(
            subject.predict(next(iter(zeros.values())) if len(zeros) == 1 else zeros)
        )
    except Exception as error:  # libraries raise what they like
        raise LoadFailed(
            f"{name}.predict fails on zeros: {one_line(error)}; declare its outputs in params"
        ) from error
    dtype = DataType.STRING if answer.dtype.kind in "USO" else BY_NUMPY.get(answer.dtype)
    if dtype is None or answer.shape[:1] != (ROWS,):
        raise LoadFailed(
            f"{name}.predict gives {answer.dtype} {list(answer.shape)} for {ROWS} rows; declare"
            " its outputs in params"
        )
    return inputs, {"y": TensorSpec("y", dtype, (-1, *answer.shape[1:]), "y")}


def _matrix(name: str, subject: object) -> Specs:
    features = getattr(subject, FEATURES, None)
    if not isinstance(features, int):
        raise LoadFailed(
            f"{name} does not say what predict takes: declare it in params, as"
            ' {"inputs": {"x": {"dtype": "float64", "shape": [-1, 4]}}}'
        )
    return {"x": TensorSpec("x", DataType.FP64, (-1, features), "x")}


def _zeros(spec: TensorSpec) -> Array:
    sizes = [ROWS if at == 0 else abs(size) for at, size in enumerate(spec.shape or (-1,))]
    return np.full(sizes, b"" if spec.dtype is DataType.STRING else 0, spec.dtype.numpy)
