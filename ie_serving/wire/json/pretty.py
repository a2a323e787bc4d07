"""Writes replies of at most `EXACT_NUMBERS` elements in TensorFlow Serving's layout.

Rows are on one line; columns, and the members of objects, take a line for each value, four spaces a
level. Strings are written unchanged, also where they are not UTF-8. A string output whose name ends
in `_bytes` has objects `{"b64": ...}`, and a JSON output has the JSON in its texts. `DENSE` is for
larger replies with strings in them: the same without white space.

Source: json_tensor.cc of TensorFlow Serving; prettywriter.h of RapidJSON 1.1.0.
"""

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ie_serving.core.values.tensors import BY_NUMPY, Array, DataType, TensorSpec
from ie_serving.wire.json.number_text import floats

_BYTES_SUFFIX: Final = "_bytes"
_INDENT: Final = "    "
_TO_ESCAPE: Final = re.compile(r'["\\\x00-\x1f]')
_ESCAPES: Final = {
    **{chr(code): f"\\u{code:04X}" for code in range(0x20)},
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


class ColumnLayout:
    """Columns: a line for each value. `level` is how many brackets are open around it."""

    def array(self, items: Sequence[str], level: int) -> str:
        """Write a list."""
        return f"[{self._lines(items, level)}]"

    def object(self, members: Mapping[str, str], level: int) -> str:
        """Write an object."""
        lines = [f'"{escaped(name)}": {value}' for name, value in members.items()]
        return f"{{{self._lines(lines, level)}}}"

    def _lines(self, items: Sequence[str], level: int) -> str:
        if not items:
            return ""
        start = "\n" + _INDENT * (level + 1)
        return start + f",{start}".join(items) + "\n" + _INDENT * level


# TensorFlow Serving switches RapidJSON's writer to one line for each list of a row, and not for
# objects: hence three layouts that differ in so little.
class _OneLineLayout(ColumnLayout):
    """Rows: a list takes one line; objects are as among columns."""

    def array(self, items: Sequence[str], level: int) -> str:
        """Write a list."""
        return f"[{', '.join(items)}]"


class _DenseLayout(ColumnLayout):
    """No white space at all."""

    def array(self, items: Sequence[str], level: int) -> str:
        """Write a list."""
        return f"[{','.join(items)}]"

    def object(self, members: Mapping[str, str], level: int) -> str:
        """Write an object."""
        return (
            f"{{{','.join([f'{quoted_text(name)}:{value}' for name, value in members.items()])}}}"
        )


LINES: Final = ColumnLayout()
ONE_LINE: Final = _OneLineLayout()
DENSE: Final = _DenseLayout()


def write_columns(
    outputs: Mapping[str, Array], specs: Mapping[str, TensorSpec], layout: ColumnLayout
) -> str:
    """Write `outputs`: one value, or an object of several by name."""
    named = len(outputs) > 1
    level = 2 if named else 1
    values = {}
    for name, array in outputs.items():
        texts = _texts(array, specs[name], layout, level + array.ndim)
        (values[name],) = _nest(texts, array, 0, layout, level)
    content = layout.object(values, 1) if named else next(iter(values.values()))
    return layout.object({"outputs": content}, 0)


def write_value(array: Array, spec: TensorSpec, layout: ColumnLayout) -> str:
    """Write a single output."""
    texts = _texts(array, spec, layout, array.ndim)
    (value,) = _nest(texts, array, 0, layout, 0)
    return value


def write_rows(
    outputs: Mapping[str, Array], specs: Mapping[str, TensorSpec], layout: ColumnLayout
) -> str:
    """Write `predictions`: for each row the value of the only output, or an object of all."""
    level = 3 if len(outputs) > 1 else 2
    columns = [
        _nest(_texts(array, specs[name], layout, level + array.ndim - 1), array, 1, layout, level)
        for name, array in outputs.items()
    ]
    rows = columns[0] if len(columns) == 1 else _named_rows(list(outputs), columns, layout)
    return layout.object({"predictions": _predictions(rows, level == 3, layout)}, 0)


def _named_rows(names: list[str], columns: list[list[str]], layout: ColumnLayout) -> list[str]:
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return [layout.object(row, 2) for row in rows]


def _predictions(rows: list[str], named: bool, layout: ColumnLayout) -> str:
    """Write the list of all rows, which ends on a line of its own when it is not empty."""
    if layout is DENSE or not rows:
        return layout.array(rows, 1)
    if named:
        return LINES.array(rows, 1)
    return f"[{', '.join(rows)}\n{_INDENT}]"


# The innermost axis comes first, so that each text is joined once for each level around it.
def _nest(
    texts: list[str], array: Array, outer: int, layout: ColumnLayout, level: int
) -> list[str]:
    """Put brackets around the texts of an array's elements, save for its first `outer` axes."""
    for axis in reversed(range(outer, array.ndim)):
        size = array.shape[axis]
        texts = [
            layout.array(texts[index * size : (index + 1) * size], level + axis - outer)
            for index in range(math.prod(array.shape[:axis]))
        ]
    return texts


def _texts(array: Array, spec: TensorSpec, layout: ColumnLayout, level: int) -> list[str]:
    """Write each element, in row-major order."""
    flat = array.reshape(-1)
    if spec.dtype is DataType.STRING:
        if spec.json:
            return [value.decode() for value in flat]
        if not spec.name.endswith(_BYTES_SUFFIX):
            return [quoted(value) for value in flat]
        encoded = (base64.b64encode(value).decode() for value in flat)
        return [layout.object({"b64": f'"{text}"'}, level) for text in encoded]
    if array.dtype.kind == "f":
        return floats(flat)
    if array.dtype.kind == "b":
        return ["true" if value else "false" for value in flat.tolist()]
    return list(map(str, flat.tolist()))


def value_of(array: Array, layout: ColumnLayout, quote: Callable[[bytes], str]) -> str:
    """Write one array as a value; `quote` writes the strings in it."""
    if array.dtype.kind == "O":
        texts = [quote(value) for value in array.reshape(-1)]
    else:
        texts = _texts(array, TensorSpec("", BY_NUMPY[array.dtype], None, ""), layout, 0)
    (value,) = _nest(texts, array, 0, layout, 0)
    return value


def quoted(value: bytes) -> str:
    """Write bytes as a JSON string."""
    return quoted_text(value.decode("utf-8", "surrogateescape"))


def quoted_text(text: str) -> str:
    """Write text as a JSON string."""
    return f'"{escaped(text)}"'


def escaped(text: str) -> str:
    """Write the text between the quotation marks of a JSON string."""
    return _TO_ESCAPE.sub(lambda found: _ESCAPES[found[0]], text)


# The reply may then be no valid UTF-8; TensorFlow Serving sends a model's bytes as they are too.
def encoded(text: str) -> bytes:
    """Give the bytes of a reply; those of a string that were no UTF-8 come back."""
    return text.encode("utf-8", "surrogateescape")
