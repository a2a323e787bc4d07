"""Probabilities and names of classes."""

import numpy as np

from ie_serving.core.values.tensors import Array


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
