"""Random graphs: each tensor is a node of OpenVINO, and what numpy makes of the same values."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.core.values.tensors import Array

Size = int | str
"""Of a dimension. One that values decide has a name; sizes of one name are equal."""
Shape = tuple[Size, ...]
Reference = Callable[..., Any]
UNREAD = 0.75
"""How often an operation takes a tensor that nothing reads yet: so graphs become deep, not wide."""


class NoFit(Exception):
    """No tensor of the graph suits the operation."""


class Undefined(Exception):
    """Whatever is answered is right, as the mean of a sum that leaves its type."""


class Refusal(Exception):
    """The request is to be refused, as for a division by 0."""


class Value:
    """One tensor of a graph.

    Attributes:
        node: the output of OpenVINO's operation.
        sources: what the operation reads.
        name: it has in the graph's listing.
        read: whether an operation reads it.
    """

    def __init__(
        self,
        node: Any,
        reference: Reference,
        sources: Sequence["Value"],
        dtype: Any,
        shape: Shape,
        name: str,
    ) -> None:
        self.node = node if isinstance(node, ov.Output) else node.output(0)
        self.sources = tuple(sources)
        self.dtype, self.shape, self.name = np.dtype(dtype), tuple(shape), name
        self.read = False
        self._reference = reference

    @property
    def integers(self) -> bool:
        return self.dtype.kind in "iu"

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def fixed(self) -> bool:
        """Whether no size depends on values."""
        return all(isinstance(size, int) for size in self.shape)

    @property
    def computed(self) -> bool:
        return self.node.get_node().get_type_name() not in ("Constant", "Parameter")

    def of(self, known: dict["Value", Array]) -> Array:
        """Compute it from tensors that are known, and note it among them.

        Raises:
            Undefined: any answer is right.
            Refusal: none is.
        """
        if self not in known:
            found = self._reference(*(source.of(known) for source in self.sources))
            known[self] = np.asarray(found).astype(self.dtype)
        return known[self]

    def reached(self) -> set["Value"]:
        """Itself, and whatever it is computed from."""
        found, waiting = {self}, [self]
        while waiting:
            new = set(waiting.pop().sources) - found
            found |= new
            waiting += new
        return found


class Graph:
    """Tensors that were made one after the other, by chance.

    Attributes:
        open_shapes: whether its inputs have shapes of any size.
        values: those that operations may read.
        lines: what each is, for the report of a failure.
    """

    def __init__(self, chance: random.Random, open_shapes: bool, prefix: str = "") -> None:
        self.chance, self.open_shapes = chance, open_shapes
        self.values: list[Value] = []
        self.lines: list[str] = []
        self._prefix, self._named = prefix, 0

    def input(self, name: str, dtype: Any, shape: Shape) -> tuple[Any, Value]:
        """Give the parameter of OpenVINO, too."""
        sizes = [-1 if self.open_shapes or isinstance(size, str) else size for size in shape]
        parameter = op.parameter(ov.PartialShape(sizes), ov.Type(np.dtype(dtype)), name=name)
        parameter.output(0).set_names({name})
        value = Value(parameter, _unknown, (), dtype, shape, name)
        self.values.append(value)
        self.lines.append(f"{name}: {value.dtype} {sizes}")
        return parameter, value

    def constant(self, array: Array) -> Value:
        told = f"{array.dtype}{array.tolist()}"
        return Value(op.constant(array), lambda: array, (), array.dtype, array.shape, told)

    def pick(self, suits: Callable[[Value], bool]) -> Value:
        """Choose one of those that suit, mostly one that nothing reads yet.

        Raises:
            NoFit: there is none.
        """
        found = [value for value in self.values if suits(value)]
        if not found:
            raise NoFit
        unread = [value for value in found if not value.read]
        return self.chance.choice(unread if unread and self.chance.random() < UNREAD else found)

    def add(
        self,
        told: str,
        node: Any,
        reference: Reference,
        sources: Sequence[Value],
        *,
        dtype: Any = None,
        shape: Shape | None = None,
    ) -> Value:
        """Note what an operation gives; by default of the first source's type and shape."""
        dtype = sources[0].dtype if dtype is None else dtype
        shape = sources[0].shape if shape is None else shape
        value = Value(node, reference, sources, dtype, shape, self.new_name())
        for source in sources:
            source.read = True
        self.values.append(value)
        read = ", ".join(source.name for source in sources)
        self.lines.append(f"{value.name} = {told}({read}): {value.dtype} {list(shape)}")
        return value

    def new_name(self) -> str:
        """Name a tensor, or a size that values decide."""
        self._named += 1
        return f"{self._prefix}v{self._named}"


def _unknown() -> Array:
    raise AssertionError("an input is known")


def broadcast(*shapes: Shape) -> Shape:
    """Give the shape that operations on tensors of these shapes have.

    Raises:
        NoFit: they cannot be brought together.
    """
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    sizes = [{size for size in column if size != 1} or {1} for column in zip(*padded, strict=True)]
    if any(len(each) > 1 for each in sizes):
        raise NoFit
    return tuple(each.pop() for each in sizes)
