"""Decodes the parsed values of `instances` and `inputs` to the inputs of a signature.

Whole columns are decoded at once. When that fails, the rows are checked in TensorFlow Serving's
order, so that the error names the same row and key as TensorFlow Serving's.

A signature may take any inputs. One named like an input of the underlying model has that dtype, if
the JSON can be read so: the number 5 as a float, but not "five". For others the value decides: an
integer is int64, any other number float32, as in TensorFlow, a text or `{"b64": ...}` a string.

Source: json_tensor.cc of TensorFlow Serving.
"""

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest, advised, within
from ie_serving.core.values.tensors import Array, DataType, TensorSpec
from ie_serving.wire.json.rapidjson.document import JsonValue
from ie_serving.wire.json.rapidjson.printing import clean, show
from ie_serving.wire.json.tensor import RowCheck, decode_tensor, is_base64, is_named, try_tensor

_CHUNK: Final = 1024
"""Rows that are tried together in the search for the first one that is at fault."""

Dtypes = Mapping[str, DataType]


def decode_columns(value: JsonValue, dtypes: Dtypes) -> dict[str, Array]:
    """Decode `inputs`: one value, or an object with a value for each input; ignore other keys.

    Raises:
        InvalidRequest: an input is missing or cannot be decoded.
    """
    if is_named(value):
        for name in dtypes:
            if name not in value:
                raise InvalidRequest(f"Missing named input: {name} in 'inputs' object.")
        return {name: decode_tensor(value[name], dtype) for name, dtype in dtypes.items()}
    if len(dtypes) > 1:
        raise InvalidRequest(
            advised(
                "inputs is a plain value/list, but expecting an object as multiple input tensors"
                " required as per tensorinfo_map",
                f": name each of {_names(dtypes)}",
            )
        )
    return {name: decode_tensor(value, dtype) for name, dtype in dtypes.items()}


# The last error is raised only if the decoder refuses values that the checks allow, which is a
# defect: the client still gets an error that it can act on, and not a 500.
def decode_rows(rows: list[JsonValue], dtypes: Dtypes) -> dict[str, Array]:
    """Decode `instances`, a list that is not empty.

    The first row tells whether each is an object that names all inputs or the value of the only
    one.

    Raises:
        InvalidRequest: rows of both forms, wrong names, rows that cannot be decoded or that
            differ in shape.
    """
    kind = _NamedRows if is_named(rows[0]) else _PlainRows
    if kind is _PlainRows and len(dtypes) > 1:
        raise InvalidRequest(
            advised(
                "instances is a plain list, but expecting list of objects as multiple input tensors"
                " required as per tensorinfo_map",
                f": name each of {_names(dtypes)}",
            )
        )
    form = kind(dtypes)
    arrays = form.decode(rows)
    if arrays is None:
        _explain(rows, form)
        raise InvalidRequest("the elements of 'instances' cannot be read")
    return arrays


def dtypes_for(value: JsonValue, specs: Mapping[str, TensorSpec]) -> dict[str, DataType]:
    """Give the dtype to read each input as: strings for images, which come as base64.

    Args:
        value: value of `inputs` or `instances`; the first element decides for all.
        specs: specs of all inputs.
    """
    return {
        name: DataType.STRING if spec.image and _is_bytes(value, name) else spec.dtype
        for name, spec in specs.items()
    }


def _is_bytes(value: JsonValue, name: str) -> bool:
    first = first_scalar(value)
    return is_base64(first_scalar(first.get(name)) if is_named(first) else first)


def first_scalar(value: JsonValue) -> JsonValue:
    """Give the first value in lists of lists; an empty list where one comes first."""
    while isinstance(value, list) and value:
        value = value[0]
    return value


def without_left_out(
    value: JsonValue, dtypes: Dtypes, optional: Collection[str]
) -> dict[str, DataType]:
    """Take out the inputs in `optional` that a body does not name.

    Args:
        value: value of `inputs` or `instances`; in a list the first row decides for all.
        dtypes: dtypes of all inputs.
        optional: inputs that have a default.
    """
    first = value[0] if isinstance(value, list) and value else value
    named = first.keys() if is_named(first) else ()
    return {name: dtype for name, dtype in dtypes.items() if name in named or name not in optional}


class _NamedRows:
    """Rows that are objects."""

    def __init__(self, dtypes: Dtypes) -> None:
        self._dtypes = dtypes
        self._checks = {name: RowCheck(dtype) for name, dtype in dtypes.items()}

    def decode(self, rows: list[JsonValue]) -> dict[str, Array] | None:
        """Decode all rows; None when that cannot be done."""
        if not all(is_named(row) and row.keys() == self._dtypes.keys() for row in rows):
            return None
        arrays = {}
        for name, dtype in self._dtypes.items():
            array = try_tensor([row[name] for row in rows], dtype)
            if array is None:
                return None
            arrays[name] = array
        return arrays

    def check(self, index: int, row: JsonValue) -> None:
        """Raise InvalidRequest for the first fault of one row."""
        if not is_named(row):
            raise InvalidRequest(f"Expecting object but got list at item {index} of input list")
        for name, value in row.items():
            place = f"Failed to process element: {index} key: {clean(name)} of 'instances' list."
            if name not in self._checks:
                fault = f"JSON object: does not have named input: {clean(name)}"
                raise InvalidRequest(f"{place} Error: INVALID_ARGUMENT: {fault}")
            _check_at(place, self._checks[name], value)
        if row.keys() != self._dtypes.keys():
            place = f"Failed to process element: {index} of 'instances' list."
            fault = f"{show(row)} keys must be equal to: {_names(self._dtypes)}"
            raise InvalidRequest(f"{place} JSON object: {fault}")


class _PlainRows:
    """Rows that are the value of the only input."""

    def __init__(self, dtypes: Dtypes) -> None:
        ((self._name, self._dtype),) = dtypes.items()
        self._check = RowCheck(self._dtype)

    def decode(self, rows: list[JsonValue]) -> dict[str, Array] | None:
        """Decode all rows; None when that cannot be done."""
        array = try_tensor(rows, self._dtype)
        return None if array is None else {self._name: array}

    def check(self, index: int, row: JsonValue) -> None:
        """Raise InvalidRequest for the first fault of one row."""
        if is_named(row):
            raise InvalidRequest(
                f"Expecting value/list but got object at item {index} of input list"
            )
        place = f"Failed to process element: {index} of 'instances' list."
        _check_at(place, self._check, row)


# Rows are decoded in chunks: decoding 1024 rows is faster than finding the fault in a few of them.
def _explain(rows: list[JsonValue], form: _NamedRows | _PlainRows) -> None:
    """Raise InvalidRequest for the first row that is at fault."""
    for start in range(0, len(rows), _CHUNK):
        chunk = rows[start : start + _CHUNK]
        form.check(start, chunk[0])
        if form.decode(chunk) is None:
            for index, row in enumerate(chunk, start):
                form.check(index, row)


def _check_at(place: str, check: RowCheck, value: JsonValue) -> None:
    """Check one value; its error names its place, in absl's words for a status."""
    try:
        check.check(value)
    except InvalidRequest as error:
        raise InvalidRequest(within(f"{place} Error: INVALID_ARGUMENT: ", error)) from None


def _names(dtypes: Dtypes) -> str:
    return ",".join(sorted(dtypes))


OWN: Mapping[str, DataType] = {
    "b": DataType.BOOL,
    "i": DataType.INT64,
    "u": DataType.UINT64,
    "f": DataType.FP32,
    "U": DataType.STRING,
}
"""Dtypes inferred from JSON values, by numpy's kinds."""
READ_AS: Mapping[str, str] = {"i": "iuf", "u": "iuf", "f": "f", "b": "b", "U": "O"}
"""Kinds of the model's dtypes as which values of a kind may be read."""


def open_specs(value: JsonValue, behind: Mapping[str, TensorSpec]) -> dict[str, TensorSpec]:
    """Give the inputs that a body names, with dtypes and any shape.

    Args:
        value: value of `inputs` or `instances`.
        behind: inputs of the model behind whatever takes these.

    Raises:
        InvalidRequest: it names none, and the model behind has not just one.
    """
    rows = value if isinstance(value, list) else []
    first = rows[0] if rows else value
    if is_named(first):
        columns = {
            name: [row.get(name) for row in rows if is_named(row)] if rows else first[name]
            for name in first
        }
    elif len(behind) == 1:
        columns = {next(iter(behind)): value}
    else:
        raise InvalidRequest('name each input: {"inputs": {NAME: value}}')
    return {
        name: TensorSpec(name, _dtype(column, behind.get(name)), None, "")
        for name, column in columns.items()
    }


def _dtype(value: JsonValue, behind: TensorSpec | None) -> DataType:
    kind = _kind(value)
    if behind is not None and behind.dtype.numpy.kind in READ_AS[kind]:
        return behind.dtype
    return OWN[kind]


def _kind(value: JsonValue) -> str:
    leaf = value
    while isinstance(leaf, list) and leaf:
        leaf = leaf[0]
    if isinstance(leaf, str) or is_base64(leaf):
        return "U"
    try:
        kind = np.asarray(value).dtype.kind
    except (ValueError, OverflowError):  # lists of unequal lengths: to decode them says where
        return "f"
    return kind if kind in OWN else "f"
