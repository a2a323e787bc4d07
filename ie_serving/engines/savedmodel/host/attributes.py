"""Attributes of a node, with TensorFlow's defaults for those that an exporter has left out."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import BY_NUMBER, DataType
from ie_serving.wire.protobuf.messages import Proto

Program = Callable[[Sequence[Any]], list[Any]]
"""A function of the graph: takes its arguments, gives what it returns."""


class Attributes:
    """The attributes of one node; each call names the default that the operation declares.

    Args of the constructor:
        node: the NodeDef.
        programs: the functions that its attributes name, ready to run.
    """

    def __init__(self, node: Proto, programs: Mapping[str, Program] = MappingProxyType({})) -> None:
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
        return LoadFailed(f"{self.node.op} {self.node.name!r} {what}, which this server cannot run")

    def only(self, name: str, taken: Sequence[bytes], default: bytes) -> bytes:
        """Read a string that must be one of `taken`. Raises: LoadFailed, where it is another."""
        value = self.text(name, default)
        if value not in taken:
            raise self.refused(f"has {name}={value.decode(errors='replace')!r}")
        return value
