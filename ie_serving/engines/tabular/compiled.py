"""Compiles a tabular model, which checks the rows of every request and converts its strings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, Arrays, DataType, TensorSpec
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.unsupported import refuse_unsupported
from ie_serving.engines.run import function
from ie_serving.engines.run.program import CompiledPrograms
from ie_serving.engines.run.texts import decoded, encoded
from ie_serving.engines.tabular.form import TensorForm

Predict = Callable[[Arrays], Mapping[str, Any]]
"""Computes outputs from inputs whose strings are Python's; several threads call it at once."""


def compiled(
    form: TensorForm,
    predict: Predict,
    options: EngineOptions,
    *,
    library: str,
    refusals: Sequence[type[Exception]] = (),
) -> CompiledPrograms:
    """Make the model of a version.

    Args:
        form: its tensors.
        predict: computes them.
        options: of the model.
        library: its name, for errors and `ie_serving check`.
        refusals: errors of the library for inputs, beside ValueError and TypeError.

    Raises:
        LoadFailed: a setting needs a feature that the library lacks.
    """
    base = form.base
    refuse_unsupported(options, base, library)
    call = partial(answer, form, predict)
    types: Sequence[type[Exception]] = (ValueError, TypeError, *refusals)
    program = function.program(base, call, options, library=library, refusals=types)
    told = f'{library}, from "{SERVING_DEFAULT}"'
    listed = [replace(each, runs_on=told) for each in form.of_examples]
    return CompiledPrograms([program], listed=listed, runs_on={SERVING_DEFAULT: library})


def answer(form: TensorForm, predict: Predict, inputs: Arrays) -> Arrays:
    """Compute the outputs of one request.

    Raises:
        InvalidTensor: there are no rows, inputs differ in rows, or a string is not UTF-8.
    """
    check_rows(form, inputs)
    texts = {
        name: decoded(name, inputs[name], "the model")
        for name, spec in form.inputs.items()
        if spec.dtype is DataType.STRING
    }
    outputs = predict({**inputs, **texts})
    return {name: _given(outputs[name], spec) for name, spec in form.outputs.items()}


def check_rows(form: TensorForm, inputs: Arrays) -> None:
    """Refuse a request without rows, which most libraries refuse. Raises: InvalidTensor."""
    counts = {name: len(array) for name, array in inputs.items()}
    if 0 in counts.values():
        spec = next(spec for name, spec in form.inputs.items() if not counts[name])
        raise InvalidTensor(f"input {spec} has no rows; expected one or more")
    if len(set(counts.values())) > 1:
        listed = ", ".join(f'"{name}" {count}' for name, count in counts.items())
        raise InvalidTensor(f"the inputs have different numbers of rows: {listed}; expected one")


def _given(value: Any, spec: TensorSpec) -> Array:  # noqa: ANN401  whatever a library gives
    array = np.asarray(value)
    rank = len(spec.shape or ())
    # CatBoost gives labels of several classes as a column; the signature has a row's label alone.
    if array.ndim > rank and array.shape[rank:] == (1,) * (array.ndim - rank):
        array = array.reshape(array.shape[:rank])
    if spec.dtype is not DataType.STRING:
        return array.astype(spec.dtype.numpy, copy=False)
    return encoded(array)
