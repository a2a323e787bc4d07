"""Element types in the words of the Open Inference Protocol v2, both ways.

Source: "Tensor Data Types" of the protocol, and BF16, which Triton and KServe add.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import DataType

NAME_OF: Mapping[DataType, str] = MappingProxyType(
    {each: "BYTES" if each is DataType.STRING else each.name for each in DataType}
)
"""The protocol's word for each element type. They are ours, but for strings."""

BY_NAME: Mapping[str, DataType] = MappingProxyType({word: each for each, word in NAME_OF.items()})


def datatype(word: object, tensor: str) -> DataType:
    """Find an element type by the protocol's word.

    Args:
        word: as the client sent it.
        tensor: name of the input, for the error.

    Raises:
        InvalidTensor: there is no such type.
    """
    found = BY_NAME.get(word) if isinstance(word, str) else None
    if found is None:
        raise InvalidTensor(
            f'input "{tensor}" has datatype {shown(word)}; expected one of {", ".join(BY_NAME)}'
        )
    return found


def shown(value: object) -> str:
    """Write what a client has sent in the place of a word or a number; of a text 40 characters.

    It is JSON; a list or an object, whatever the parser has made of it, is `[...]`.
    """
    if isinstance(value, str):
        return json.dumps(value[:40], ensure_ascii=False)
    is_plain = value is None or isinstance(value, (bool, int, float))
    return json.dumps(value) if is_plain else "[...]"
