"""Compiles a tabular model, which checks the rows of every request and converts its strings.

The tensors are the same for each library. Inputs are one matrix `x`, a row for each sample, or one
input for each column. A classifier gives `label`, and `probabilities` with a column for each class
in the library's order, which is sorted; any other model gives values as `y`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.signatures import example_signature
from ie_serving.core.values.tensors import (
    BY_NUMPY,
    OUTPUTS,
    SCORES,
    SERVING_DEFAULT,
    Array,
    Arrays,
    DataType,
    ExampleBinding,
    Method,
    Signature,
    Specs,
    TensorSpec,
    decoded,
    encoded,
    tensor,
)
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.unsupported_settings import refuse_unsupported
from ie_serving.engines.run import function
from ie_serving.engines.run.program import CompiledPrograms

X, LABEL, PROBABILITIES, Y = "x", "label", "probabilities", "y"
"""Names of the tensors."""

CLASSIFY, REGRESS = "classify", "regress"
"""Names of the signatures for Classify and Regress."""


@dataclass(frozen=True)
class TensorForm:
    """Tensors of a model.

    Attributes:
        inputs: specs by name.
        outputs: specs by name.
        classes: classes of a classifier, in the order of its probabilities.
    """

    inputs: Specs
    outputs: Specs
    classes: tuple[str, ...] = ()

    @property
    def base(self) -> Signature:
        """The signature that the library computes."""
        return Signature(SERVING_DEFAULT, self.inputs, self.outputs)

    @property
    def of_examples(self) -> Sequence[Signature]:
        """Signatures for Classify and Regress, if the outputs have the form that these answer."""
        features = {name: name for name in self.inputs}
        if PROBABILITIES in self.outputs and self.classes:
            roles = {SCORES: PROBABILITIES}
            binding = ExampleBinding(self.base, features, roles, self.classes)
            return [example_signature(CLASSIFY, Method.CLASSIFY, binding)]
        if _is_value(self.outputs.get(Y)):
            binding = ExampleBinding(self.base, features, {OUTPUTS: Y})
            return [example_signature(REGRESS, Method.REGRESS, binding)]
        return []


def matrix(features: int, dtype: DataType) -> Specs:
    """Give the only input: rows of `features` numbers."""
    return _specs_by_name(tensor(X, dtype, -1, features))


def values(dtype: DataType, *sizes: int) -> Specs:
    """Give the only output: values of shape `sizes` for each row."""
    return _specs_by_name(tensor(Y, dtype, -1, *sizes))


def classified(labels: DataType, probabilities: DataType | None, classes: int) -> Specs:
    """Give the outputs of a classifier; `probabilities` is None if it has none."""
    label = tensor(LABEL, labels, -1)
    if probabilities is None:
        return _specs_by_name(label)
    return _specs_by_name(label, tensor(PROBABILITIES, probabilities, -1, classes))


def dtype_of(array: Array) -> DataType:
    """Give the element type of a library's result; texts and Python objects are strings."""
    return DataType.STRING if array.dtype.kind in "OUS" else BY_NUMPY[array.dtype]


def names_of(classes: Collection[Any]) -> tuple[str, ...]:
    """Name classes as Classify answers them."""
    return tuple(str(each) for each in np.asarray(classes).tolist())


def _specs_by_name(*specs: TensorSpec) -> Specs:
    return {spec.name: spec for spec in specs}


# Regress answers one float for each Example.
def _is_value(spec: TensorSpec | None) -> bool:
    if spec is None or spec.shape is None or spec.dtype is DataType.STRING:
        return False
    return spec.dtype.numpy.kind == "f" and spec.shape in ((-1,), (-1, 1))


def labelled(scores: Array) -> Arrays:
    """Give labels and probabilities.

    Args:
        scores: scores of each class, a row for each sample; of two classes also only class 1's, in
            1-D.
    """
    both = scores if scores.ndim == 2 else np.stack([1 - scores, scores], axis=1)
    return {LABEL: np.argmax(both, axis=1), PROBABILITIES: both}


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
        options: options of the model.
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
    return {name: _output_array(outputs[name], spec) for name, spec in form.outputs.items()}


def check_rows(form: TensorForm, inputs: Arrays) -> None:
    """Refuse a request without rows, which most libraries refuse. Raises: InvalidTensor."""
    counts = {name: len(array) for name, array in inputs.items()}
    if 0 in counts.values():
        spec = next(spec for name, spec in form.inputs.items() if not counts[name])
        raise InvalidTensor(f"input {spec} has no rows; expected one or more")
    if len(set(counts.values())) > 1:
        listed = ", ".join(f'"{name}" {count}' for name, count in counts.items())
        raise InvalidTensor(f"the inputs have different numbers of rows: {listed}; expected one")


def _output_array(value: Any, spec: TensorSpec) -> Array:  # noqa: ANN401  whatever a library gives
    array = np.asarray(value)
    rank = len(spec.shape or ())
    # CatBoost gives labels of several classes as a column; the signature has a row's label alone.
    if array.ndim > rank and array.shape[rank:] == (1,) * (array.ndim - rank):
        array = array.reshape(array.shape[:rank])
    if spec.dtype is not DataType.STRING:
        return array.astype(spec.dtype.numpy, copy=False)
    return encoded(array)
