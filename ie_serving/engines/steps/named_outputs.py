"""Steps that name a model's numbers: labels of classes, names of columns."""

import numpy as np

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import Array, Arrays, DataType, Specs, TensorSpec
from ie_serving.engines.steps.declaration import tensor


def classifier_output(
    probs: Array, *, labels: tuple[str, ...], top_n: int, softmax: bool
) -> Arrays:
    """Give the best classes of each row; see `registry.TABLE`."""
    if probs.ndim < 1 or not probs.shape[-1]:
        raise InvalidTensor(f"probs has shape {list(probs.shape)}; expected classes at the end")
    if probs.shape[-1] < top_n:
        raise InvalidTensor(f"probs has {probs.shape[-1]} classes, fewer than top_n, {top_n}")
    if labels and len(labels) != probs.shape[-1]:
        raise InvalidTensor(
            f"probs has {probs.shape[-1]} classes, and there are {len(labels)} labels"
        )
    values = probabilities(probs) if softmax else probs
    # NaN of either sign sorts last, so it is never the best.
    index = np.argsort(-values, axis=-1, kind="stable")[..., :top_n]
    best = np.take_along_axis(values, index, axis=-1)
    return {"label": named(index, labels), "index": index.astype(np.int64), "prob": best}


def classifier_specs(inputs: Specs, *, top_n: int, **_: object) -> Specs:
    """Give the specs of `classifier_output`'s outputs."""
    probs = inputs["probs"]
    shape = None if probs.shape is None else (*probs.shape[:-1], top_n)
    found = [
        tensor("label", DataType.STRING),
        tensor("index", DataType.INT64),
        tensor("prob", probs.dtype),
    ]
    return {spec.name: _of_shape(spec, shape) for spec in found}


def regression_output(values: Array, *, names: dict[str, int]) -> Arrays:
    """Give columns by name; see `registry.TABLE`."""
    most = max(names.values())
    if values.ndim < 1 or values.shape[-1] <= most:
        raise InvalidTensor(f"values has shape {list(values.shape)}; column {most} is asked for")
    return {name: values[..., at].copy() for name, at in names.items()}


def regression_specs(inputs: Specs, *, names: dict[str, int]) -> Specs:
    """Give the specs of `regression_output`'s outputs."""
    values = inputs["values"]
    shape = None if values.shape is None else values.shape[:-1]
    return {name: _of_shape(tensor(name, values.dtype), shape) for name in names}


def _of_shape(spec: TensorSpec, shape: tuple[int, ...] | None) -> TensorSpec:
    return TensorSpec(spec.name, spec.dtype, shape, spec.tensor)


def probabilities(values: Array) -> Array:
    """Give the softmax of `values` along the last dimension."""
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def named(classes: Array, labels: tuple[str, ...]) -> Array:
    """Give the name of each class as bytes: its label, or its number if it has none."""
    known = {at: label.encode() for at, label in enumerate(labels)}
    found = np.empty(classes.shape, np.object_)
    found.reshape(-1)[:] = [known.get(at, b"%d" % at) for at in classes.reshape(-1).tolist()]
    return found
