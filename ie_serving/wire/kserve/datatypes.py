"""Translates element types to and from the words of the Open Inference Protocol v2.

Source: "Tensor Data Types" of the protocol, and BF16, which Triton and KServe add.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import DataType

NAME_OF: Final[Mapping[DataType, str]] = {
    each: "BYTES" if each is DataType.STRING else each.name for each in DataType
}
"""The protocol's word for each element type. They are ours, but for strings."""

BY_NAME: Final[Mapping[str, DataType]] = {word: each for each, word in NAME_OF.items()}


def datatype(word: object, tensor: str) -> DataType:
    """Find an element type by the protocol's word.

    Args:
        word: word of the client.
        tensor: name of the input, for the error.

    Raises:
        InvalidTensor: unknown type.
    """
    found = BY_NAME.get(word) if isinstance(word, str) else None
    if found is None:
        raise InvalidTensor(
            f'input "{tensor}" has datatype {shown(word)}; expected one of {", ".join(BY_NAME)}'
        )
    return found


class CustomDatatype:
    """A datatype that the protocol does not have: only untyped inputs take it, and only its bytes.

    It stands in the place of an element type. Whatever reads elements asks for `numpy`, and is so
    refused; requests that have known types pay nothing for it.

    Args of the constructor:
        word: word of the client.
        tensor: name of the input.
    """

    def __init__(self, word: str, tensor: str) -> None:
        self.word = word
        self._tensor = tensor

    @property
    def numpy(self) -> "np.dtype[Any]":
        """Refuse it. Raises: InvalidTensor."""
        return datatype(self.word, self._tensor).numpy


def shown(value: object) -> str:
    """Write a client's JSON value that should be a word or number; a text up to 40 characters.

    A list or an object, in any parser's form, is `[...]`.
    """
    if isinstance(value, str):
        return json.dumps(value[:40], ensure_ascii=False)
    is_plain = value is None or isinstance(value, (bool, int, float))
    return json.dumps(value) if is_plain else "[...]"
