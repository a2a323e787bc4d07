"""The kernel type: one operation of TensorFlow, computed in numpy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import BY_NUMBER, Array, DataType
from ie_serving.wire.protobuf.messages import Proto

RunBody = Callable[[Sequence[Any]], list[Any]]
"""A function of the graph: takes its arguments, gives its results."""


class Attributes:
    """The attributes of one node; each call names the default that the operation declares.

    Args of the constructor:
        node: the NodeDef.
        programs: the functions that its attributes name, ready to run.
    """

    def __init__(self, node: Proto, programs: Mapping[str, RunBody] = MappingProxyType({})) -> None:
        self.node = node
        self.programs = programs
        self._held = node.attr

    def integer(self, name: str, default: int = 0) -> int:
        """Read an integer."""
        return int(self._held[name].i) if name in self._held else default

    def integers(self, name: str) -> list[int]:
        """Read a list of integers; none by default."""
        return list(self._held[name].list.i) if name in self._held else []

    def number(self, name: str, default: float = 0.0) -> float:
        """Read a float."""
        return float(self._held[name].f) if name in self._held else default

    def numbers(self, name: str) -> list[float]:
        """Read a list of floats; none by default."""
        return list(self._held[name].list.f) if name in self._held else []

    def flag(self, name: str, default: bool = False) -> bool:
        """Read a bool."""
        return bool(self._held[name].b) if name in self._held else default

    def text(self, name: str, default: bytes = b"") -> bytes:
        """Read a string."""
        return bytes(self._held[name].s) if name in self._held else default

    def texts(self, name: str) -> list[bytes]:
        """Read a list of strings; none by default."""
        return list(self._held[name].list.s) if name in self._held else []

    def dtype(self, name: str, default: DataType | None = None, at: int = 0) -> DataType:
        """Read a dtype, of a list the one numbered `at`.

        Raises:
            LoadFailed: there is none, or it is one that the API does not carry.
        """
        if name not in self._held and default is not None:
            return default
        number = self._number(name, at)
        if number not in BY_NUMBER:
            raise self.refused(f"has the dtype number {number} as its {name}")
        return BY_NUMBER[number]

    def _number(self, name: str, at: int) -> int:
        if name not in self._held:
            return 0
        held = self._held[name]
        return int(held.list.type[at] if held.list.type else held.type)

    def refused(self, what: str) -> LoadFailed:
        """Make the error for attributes that cannot be computed with here."""
        return LoadFailed(
            f"{self.node.op} {self.node.name!r} {what}, which this server cannot run: export the"
            " model without it"
        )

    def only(self, name: str, taken: Sequence[bytes], default: bytes) -> bytes:
        """Read a string that must be one of `taken`. Raises: LoadFailed, where it is another."""
        value = self.text(name, default)
        if value not in taken:
            raise self.refused(f"has {name}={value.decode(errors='replace')!r}")
        return value


Compute = Callable[..., Any]
"""Takes the inputs of the node in order (arrays; `HostObject` for handles) and gives its output, or
the list of its outputs where it has several."""


class HostObject:
    """A value that is no tensor: a table, a list of tensors."""


MakeCompute = Callable[[Attributes], Compute]
"""Binds the attributes, once at load. Raises LoadFailed for those that cannot be computed with."""


@dataclass(frozen=True)
class Output:
    """One output of an operation, or a list of them.

    Attributes:
        attribute: attribute of the node, that names its dtype; "" where that is always the same.
        dtype: the dtype, or the default of the attribute.
        name: name by which nodes of a function refer to it; needed where an operation has several.
    """

    attribute: str = "T"
    dtype: DataType | None = None
    name: str = ""

    def dtype_of(self, attributes: Attributes, position: int) -> DataType:
        """Tell its dtype for one node; of a list, that of the member numbered `position`."""
        if not self.attribute:
            assert self.dtype is not None
            return self.dtype
        return attributes.dtype(self.attribute, self.dtype, position)


@dataclass(frozen=True)
class HostKernel:
    """One operation.

    Attributes:
        make: gives the function that computes a node.
        outputs: outputs of the operation, in order.
        check: given the inputs that are constants, and None for the others, raises LoadFailed
            where they cannot be computed with; called once at load.
        in_thread: its time depends on the values of its inputs, neither on their size nor on that
            of its output, for which it asks `make_room`.
        sizes: function that returns the numbers of members at a node, where outputs are lists.
    """

    make: MakeCompute
    outputs: Sequence[Output] = (Output(),)
    check: Callable[[Attributes, Sequence[Any]], None] = lambda attributes, inputs: None
    in_thread: bool = False
    sizes: Callable[[Proto], Sequence[int]] | None = None

    def position(self, node: Proto, name: str, index: int) -> int:
        """Number the output that a reference to `node` means by its name and the index in that."""
        names = [output.name for output in self.outputs]
        if name not in names or len(names) == 1:
            return index
        at = names.index(name)
        return at if self.sizes is None else sum(self.sizes(node)[:at]) + index

    def dtype(self, attributes: Attributes, position: int) -> DataType:
        """Tell the dtype of an output by its number."""
        if self.sizes is not None:
            for output, size in zip(self.outputs, self.sizes(attributes.node), strict=True):
                if position < size:
                    return output.dtype_of(attributes, position)
                position -= size
        return self.outputs[min(position, len(self.outputs) - 1)].dtype_of(attributes, position)


def plain(compute: Compute, *outputs: Output) -> HostKernel:
    """Make a kernel of an operation whose attributes do not matter."""
    return HostKernel(lambda _: compute, outputs or (Output(),))


def in_thread(kernel: HostKernel) -> HostKernel:
    """Say that a kernel must not run on the event loop, however little it is given."""
    return replace(kernel, in_thread=True)


def as_tensor(value: Any) -> Array:  # noqa: ANN401
    """Make an array of numpy's result: for no dimensions numpy gives a scalar."""
    # numpy would make bytes a tensor of fixed length, and cut zero bytes off their end.
    return np.asarray(value, np.object_ if isinstance(value, bytes) else None)


TEXT = Output("", DataType.STRING)
FLAG = Output("", DataType.BOOL)
LONG = Output("", DataType.INT64)
INTEGER = Output("", DataType.INT32)
