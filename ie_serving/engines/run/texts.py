"""Strings on their way into libraries that compute with Python's texts, and back."""

from collections.abc import Iterable

import numpy as np

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import Array


def decoded(name: str, array: Array, library: str) -> Array:
    """Give the strings of an input as texts. Raises: InvalidTensor, where they are not UTF-8."""
    try:
        return objects((text.decode() for text in array.flat), array.shape)
    except UnicodeDecodeError as error:
        raise InvalidTensor(
            f'input "{name}" holds bytes that are not UTF-8; {library} takes text only: {error}'
        ) from error


def encoded(array: Array) -> Array:
    """Give what a library calls its texts or objects as strings."""
    return objects((str(each).encode() for each in array.flat), array.shape)


def objects(items: Iterable[object], shape: tuple[int, ...]) -> Array:
    """Make an array of objects; numpy's own string types would cut zeros at the end."""
    return np.array([*items], np.object_).reshape(shape)
