"""The tensors of tabular models, the same for each library.

Inputs are one matrix `x`, a row for each sample, or one input for each column. A classifier gives
`label`, and `probabilities` with a column for each class in the library's order, which is sorted;
any other model gives values as `y`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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
)

X, LABEL, PROBABILITIES, Y = "x", "label", "probabilities", "y"
"""Names of the tensors."""

CLASSIFY, REGRESS = "classify", "regress"
"""Names of the signatures for Classify and Regress."""


@dataclass(frozen=True)
class TensorForm:
    """Tensors of a model.

    Attributes:
        inputs: by name.
        outputs: by name.
        classes: of a classifier, in the order of its probabilities.
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
    return _named(tensor(X, dtype, -1, features))


def values(dtype: DataType, *sizes: int) -> Specs:
    """Give the only output: values of shape `sizes` for each row."""
    return _named(tensor(Y, dtype, -1, *sizes))


def classified(labels: DataType, probabilities: DataType | None, classes: int) -> Specs:
    """Give the outputs of a classifier; `probabilities` is None if it has none."""
    label = tensor(LABEL, labels, -1)
    if probabilities is None:
        return _named(label)
    return _named(label, tensor(PROBABILITIES, probabilities, -1, classes))


def tensor(name: str, dtype: DataType, *shape: int) -> TensorSpec:
    """Describe one tensor."""
    return TensorSpec(name, dtype, shape, name)


def dtype_of(array: Array) -> DataType:
    """Give the element type of a library's result; texts and Python objects are strings."""
    return DataType.STRING if array.dtype.kind in "OUS" else BY_NUMPY[array.dtype]


def names_of(classes: Collection[Any]) -> tuple[str, ...]:
    """Name classes as Classify answers them."""
    return tuple(str(each) for each in np.asarray(classes).tolist())


def _named(*specs: TensorSpec) -> Specs:
    return {spec.name: spec for spec in specs}


# Regress answers one float for each Example.
def _is_value(spec: TensorSpec | None) -> bool:
    if spec is None or spec.shape is None or spec.dtype is DataType.STRING:
        return False
    return spec.dtype.numpy.kind == "f" and spec.shape in ((-1,), (-1, 1))


def labelled(scores: Array) -> Arrays:
    """Give labels and probabilities.

    Args:
        scores: of each class, a row for each sample; of two classes also only class 1's, in 1-D.
    """
    both = scores if scores.ndim == 2 else np.stack([1 - scores, scores], axis=1)
    return {LABEL: np.argmax(both, axis=1), PROBABILITIES: both}
