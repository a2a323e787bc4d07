"""Look-up tables of a model: read once at load, never written.

Source: lookup_table_op.cc and initializable_lookup_table.cc of TensorFlow, and lookup_util.cc for
the text files.
"""

from collections.abc import Iterable, Mapping
from itertools import repeat
from pathlib import Path
from typing import Final

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.savedmodel.host.host_kernel import (
    LONG,
    Attributes,
    HostKernel,
    HostObject,
    Output,
    plain,
)

WHOLE_LINE, LINE_NUMBER = -2, -1
"""Column numbers of InitializeTableFromTextFile that mean no column."""


class LookupTable(HostObject):
    """A table that is only read.

    Args of the constructor:
        keys: any shape; strings or numbers.
        values: values of the same shape.
        name: name in texts.
    """

    def __init__(self, keys: Array, values: Array, name: str) -> None:
        if keys.shape != values.shape:
            raise LoadFailed(
                f"table {name!r} has keys of shape {keys.shape}, but values of {values.shape};"
                " expected the same"
            )
        self._name = name
        self._keys = keys.ravel()
        self._values = values.ravel()
        self._dtype = values.dtype
        self._held = dict(zip(self._keys.tolist(), self._values.tolist(), strict=True))

    def __len__(self) -> int:
        return len(self._held)

    def find(self, keys: Array, default: Array) -> Array:
        """Give the values of `keys`, in their shape; `default` where the table lacks one."""
        found = map(self._held.get, keys.ravel().tolist(), repeat(default.item()))
        made: Array = np.fromiter(found, self._dtype, keys.size)
        return made.reshape(keys.shape)

    def with_inserted(self, keys: Array, values: Array) -> "LookupTable":
        """Give a table with more values, in place of those that it has for the same keys."""
        held = {**self._held, **LookupTable(keys, values, self._name)._held}
        all_keys, all_values = np.empty(len(held), keys.dtype), np.empty(len(held), self._dtype)
        all_keys[:], all_values[:] = list(held), list(held.values())
        return LookupTable(all_keys, all_values, self._name)

    def export(self) -> list[Array]:
        """Give all keys and values."""
        return [self._keys, self._values]


def empty(table: Attributes) -> LookupTable:
    """Give the empty content of a MutableHashTable."""
    keys, values = (np.empty(0, table.dtype(each).numpy) for each in ("key_dtype", "value_dtype"))
    return LookupTable(keys, values, table.node.name)


def from_text_file(path: Path, initializer: Attributes, table: Attributes) -> LookupTable:
    """Read the table that InitializeTableFromTextFile makes.

    Args:
        path: path of the file.
        initializer: attributes of that node.
        table: attributes of the table's node, which hold the dtypes.

    Raises:
        LoadFailed: the file cannot be read, or a line of it.
    """
    name = table.node.name
    lines = _lines(path, name)
    count = initializer.integer("vocab_size", -1)
    if count > -1:
        if len(lines) < count:
            raise LoadFailed(
                f"table {name!r}: Invalid vocab_size in {path.name}: expected {count} but got"
                f" {len(lines)}"
            )
        lines = lines[:count]
    if b"" in lines:
        at = lines.index(b"")
        raise LoadFailed(f"table {name!r}: Invalid content in {path.name}: line {at} is empty")
    columns = [
        _column(lines, initializer, index, table.dtype(dtype), f"table {name!r}, {path.name}")
        for index, dtype in (("key_index", "key_dtype"), ("value_index", "value_dtype"))
    ]
    held = LookupTable(columns[0], columns[1], name)
    # The same line twice is no contradiction.
    if len(held) < len(lines) and len(set(zip(*map(np.ndarray.tolist, columns)))) > len(held):  # noqa: B905
        raise LoadFailed(f"table {name!r}: HashTable has different value for same key")
    return held


def _lines(path: Path, name: str) -> list[bytes]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise LoadFailed(f"table {name!r}: {path.name} cannot be read: {error}") from error
    # TensorFlow's reader drops every carriage return.
    return data.replace(b"\r", b"").removesuffix(b"\n").split(b"\n") if data else []


def _column(
    lines: list[bytes], initializer: Attributes, index: str, dtype: DataType, what: str
) -> Array:
    number = initializer.integer(index)
    if number == LINE_NUMBER:
        first = initializer.integer("offset")
        return np.arange(first, first + len(lines)).astype(dtype.numpy)
    texts: Iterable[bytes] = lines
    if number != WHOLE_LINE:
        delimiter = initializer.text("delimiter", b"\t")
        rows = [line.split(delimiter) for line in lines]
        short = next((at for at, row in enumerate(rows) if len(row) <= number), None)
        if short is not None:
            raise LoadFailed(f"{what}: line {short} has no column {number}")
        texts = [row[number] for row in rows]
    made = np.empty(len(lines), dtype.numpy)
    try:
        read = {"O": bytes, "f": float}.get(dtype.numpy.kind, int)
        made[:] = [read(text) for text in texts]
    except (ValueError, OverflowError) as error:
        raise LoadFailed(f"{what}: a line is no {dtype.word}: {error}") from error
    return made


KERNELS: Final[Mapping[str, HostKernel]] = {
    **dict.fromkeys(
        ("LookupTableFind", "LookupTableFindV2"), plain(LookupTable.find, Output("Tout"))
    ),
    **dict.fromkeys(
        ("LookupTableSize", "LookupTableSizeV2"),
        plain(lambda table: np.array(len(table)), LONG),
    ),
    **dict.fromkeys(
        ("LookupTableExport", "LookupTableExportV2"),
        plain(LookupTable.export, Output("Tkeys", name="keys"), Output("Tvalues", name="values")),
    ),
}
