"""Outputs of a model -> what Classify and Regress answer.

Source: classification.proto, regression.proto; the checks and their phrases are those of
classifier.cc and regressor.cc of TensorFlow Serving.
"""

from collections.abc import Mapping, Sequence
from itertools import repeat

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import CLASSES, OUTPUTS, SCORES, Array
from ie_serving.wire.protobuf import messages
from ie_serving.wire.protobuf.messages import Proto

Classes = list[tuple[bytes, float]]
"""Label and score of each class of one example."""


def classes_of(outputs: Mapping[str, Array], rows: int) -> list[Classes]:
    """Read the classes of each example.

    Args:
        outputs: `classes`, `scores` or both, each of shape (rows, number of classes); without
            `classes` labels are empty, without `scores` scores are 0.
        rows: number of examples.

    Raises:
        InvalidRequest: the shapes are others.
    """
    found = {alias: outputs[alias] for alias in (CLASSES, SCORES) if alias in outputs}
    for alias, array in found.items():
        _check_classes(alias, array, rows)
    # At least one of both is there: a signature without either is not one for Classify.
    widths = [array.shape[1] for array in found.values()]
    if widths[0] != widths[-1]:
        raise InvalidRequest(
            f"Tensors class and score should match in dim_size(1). Got {widths[0]} vs. {widths[-1]}"
        )
    labels = found[CLASSES].tolist() if CLASSES in found else repeat([b""] * widths[0], rows)
    scores = found[SCORES].tolist() if SCORES in found else repeat([0.0] * widths[0], rows)
    return [list(zip(*row, strict=True)) for row in zip(labels, scores, strict=True)]


def _check_classes(alias: str, array: Array, rows: int) -> None:
    if array.ndim != 2:
        raise InvalidRequest(
            f'Expected Tensor shape: [batch_size num_classes] but got {_shape(array)} for "{alias}"'
        )
    if len(array) != rows:
        raise InvalidRequest(f"Expected {alias} output batch size of {rows}. Got: {len(array)}")


def values_of(outputs: Mapping[str, Array], rows: int) -> list[float]:
    """Read the value of each example.

    Args:
        outputs: `outputs`, of shape (rows) or (rows, 1).
        rows: number of examples.

    Raises:
        InvalidRequest: the shape is another.
    """
    array = outputs[OUTPUTS]
    if array.ndim not in (1, 2) or array.shape[1:] not in ((), (1,)):
        raise InvalidRequest(
            "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got"
            f" {_shape(array)}"
        )
    if len(array) != rows:
        raise InvalidRequest(
            f"Input batch size did not match output batch size: {rows} vs. {len(array)}"
        )
    values: list[float] = array.reshape(-1).tolist()
    return values


def _shape(array: Array) -> str:
    return f"[{','.join(map(str, array.shape))}]"


def classification_result(examples: Sequence[Classes]) -> Proto:
    """Make a ClassificationResult; bytes of a label that are no UTF-8 become U+FFFD."""
    result = messages.ClassificationResult()
    for classes in examples:
        entry = result.classifications.add()
        for label, score in classes:
            entry.classes.add(label=label.decode("utf-8", "replace"), score=score)
    return result


def regression_result(values: Sequence[float]) -> Proto:
    """Make a RegressionResult."""
    result = messages.RegressionResult()
    for value in values:
        result.regressions.add(value=value)
    return result
