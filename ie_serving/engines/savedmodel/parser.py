"""A node that parses Examples: what it parses stands in its attributes and constant inputs.

Each version of such an operation has its keys in another place; the outputs bear the same names.
"""

from collections.abc import Callable

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import BY_NUMBER, Array, DataType
from ie_serving.wire.protobuf.messages import Proto


class Parser:
    """Reads one node.

    Args of the constructor:
        node: ParseExample or ParseSequenceExample in one of its versions.
        value: evaluates the constant input with a number. Raises LoadFailed for another.
    """

    def __init__(self, node: Proto, value: Callable[[int], Array]) -> None:
        self.node = node
        self.value = value

    def types(self, attribute: str) -> list[DataType]:
        """Read an attribute of dtypes. Raises: LoadFailed, for one that the API cannot carry."""
        numbers = self.node.attr[attribute].list.type
        unknown = [number for number in numbers if number not in BY_NUMBER]
        if unknown:
            name = f"{self.node.op} {self.node.name!r}"
            raise LoadFailed(f"{name} has a feature of dtype number {unknown[0]}")
        return [BY_NUMBER[number] for number in numbers]

    def shapes(self, attribute: str) -> list[tuple[int, ...]]:
        """Read an attribute of shapes."""
        shapes = self.node.attr[attribute].list.shape
        return [tuple(dim.size for dim in shape.dim) for shape in shapes]

    def texts(self, attribute: str) -> list[str]:
        """Read an attribute of strings."""
        return [text.decode() for text in self.node.attr[attribute].list.s]

    def keys(self, number: int) -> list[str]:
        """Read an input of strings, by its number."""
        return [key.decode() for key in self.value(number).ravel()]
