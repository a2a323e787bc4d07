"""Derives labels from probabilities, for libraries whose files have only numbers of classes."""

import numpy as np

from ie_serving.core.values.tensors import Array, Arrays
from ie_serving.engines.tabular.form import LABEL, PROBABILITIES


def labelled(scores: Array) -> Arrays:
    """Give labels and probabilities.

    Args:
        scores: of each class, a row for each sample; of two classes also only class 1's, in 1-D.
    """
    both = scores if scores.ndim == 2 else np.stack([1 - scores, scores], axis=1)
    return {LABEL: np.argmax(both, axis=1), PROBABILITIES: both}
