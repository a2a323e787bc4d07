"""Reads REST bodies of Predict to numpy inputs, by a chain of four readers.

Every reader takes the bodies that it understands completely and answers None for others, which go
on to the next reader. They differ only in cost. In this order:

1. `slices.py`: one plain list of at least `SLICED` bytes, cut into slices for reader 2.
2. `buffers.py`: regular arrays of numbers, copied out of simdjson's buffers; about 250 processor
   instructions a number.
3. `inputs.py`, `tensor.py`: everything else that is strict JSON, as Python values; about 1,500.
4. `rapidjson/document.py`, then reader 3: bodies that simdjson refuses, that is TensorFlow
   Serving's dialect and invalid JSON; about 2,200, and 3,000 where NaN is among the numbers.

Why four. Most bodies are reader 2's: a Predict is a list of numbers. Reader 1 exists for the other
requests of the process: simdjson holds the interpreter lock for a whole call, 60 ms for 20 MB, and
less than 1 ms for a slice. Reader 3 exists because TensorFlow Serving takes more than numbers
(strings, base64, rows that are objects, several inputs) and because its errors name the first
faulty element, which a flat buffer cannot show. Reader 4 exists because TensorFlow Serving's parser
is RapidJSON with `NaN` and `Infinity`, bytes that are not UTF-8, and any bytes after the first
value; and because its clients read the offsets in its messages.

For one body and one signature, all readers give the same results:

- the arrays: names, dtypes, shapes and every bit of the values. A number is read as the nearest
  double, or exactly as a 64-bit integer, and only then converted to the dtype;
- the format of the reply;
- the error. Readers 1 and 2 never refuse a body: they leave it to 3 and 4, so each message has one
  author.

How that is tested. `tests/unit/wire/json/test_readers.py` makes documents of every dtype and shape,
damages some, and gives each to every reader that takes it, in this order and each alone; arrays and
errors have to be equal. `rapidjson/test_document.py` has the dialect as a table, with RapidJSON's
offsets, and compares reader 4 with a strict parser on strict JSON.

A module that is imported makes no parser: each thread makes its own at its first body.

Source: json_tensor.cc of TensorFlow Serving; RESTful API guide.
"""

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import simdjson

from ie_serving.core.compat import added
from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, Signature, TensorSpec
from ie_serving.wire.json.buffers import (
    Lazy,
    count_brackets,
    parse_strictly,
    read_array,
    read_arrays,
)
from ie_serving.wire.json.document import (
    SIGNATURE_NAME,
    object_of,
    parse_object,
    plain,
    signature_name_of,
)
from ie_serving.wire.json.inputs import (
    decode_columns,
    decode_rows,
    dtypes_for,
    open_specs,
    without_left_out,
)
from ie_serving.wire.json.rapidjson.printing import show
from ie_serving.wire.json.slices import Slices, sliced

SLICED = 1 << 20
"""Bytes of a body from which reader 1 is tried. Below, simdjson holds the interpreter lock for at
most 3 ms, and the look at both ends of the body is not worth its time."""

LARGE_UNSTRICT: Final = 4 * 1024
"""Bytes of a body that is no strict JSON, or no object, from which it is parsed in a thread: nested
NaN cost reader 4 some 5 ms for each KB."""

MARKED: Final = b'"@'
"""First bytes of a key that marks values in the form of another server (`compat/`)."""

FORM_BEGINS: Final = b"--"
"""First bytes of a form, which no JSON has: its Content-Type tells whether it is one."""

FEW_KEYS: Final = 16
"""Keys of a body up to which listing them takes no time; TensorFlow Serving knows three. A megabyte
has room for 150,000."""

FEW_LISTS: Final = 1000
"""Lists of a body up to which measuring their lengths takes 0.2 ms; beyond, the body is left to a
thread, since a megabyte has room for 300,000."""

INSTANCES = "instances"
INPUTS = "inputs"


class Format(enum.Enum):
    """How a Predict body lays out its inputs, and its reply the outputs."""

    ROW = "row"
    """`instances` and `predictions`: a list with one entry for each row of the batch."""

    COLUMN = "column"
    """`inputs` and `outputs`: whole tensors by name."""

    # The hash of enumerations is Python code, and each reply looks up its encoder by this key.
    __hash__ = object.__hash__


# Looking up an attribute of an enumeration's class runs Python code before 3.12; a global does not.
_ROW: Final = Format.ROW
_COLUMN: Final = Format.COLUMN


@dataclass(slots=True)
class PredictBody:
    """The body of a Predict whose syntax is checked, its inputs not yet decoded.

    Attributes:
        signature_name: the signature that is asked for; empty for `serving_default`.
    """

    _body: bytes
    _document: Lazy
    _keys: Sequence[str]
    """simdjson throws a C++ exception for a key that it does not find: the list is cheaper."""
    signature_name: str

    outputs: ClassVar[tuple[str, ...]] = ()
    """Names of the requested outputs; only forms can name them."""
    media_type: ClassVar[str] = ""

    def decode(self, signature: Signature) -> tuple[dict[str, Array], Format]:
        """Decode all inputs; once only.

        Returns:
            New arrays by input name, dtypes as the signature has them; shapes as the body has
            them, not compared with the signature's. And the format that the reply must have.

        Raises:
            InvalidRequest: an input is missing, or a value cannot be read as its dtype.
        """
        keys = self._keys
        specs = signature.inputs
        form = _ROW if INSTANCES in keys else _COLUMN
        if not specs or (form is _ROW) == (INPUTS in keys):
            data = self._data(signature)
            return self._decode_open(signature, form) if data is None else data, form
        values = self._document[INSTANCES if form is _ROW else INPUTS]
        arrays = self._numbers(values, form, specs)
        if arrays is None:
            arrays = self._decode_values(values, specs, form, signature.defaults)
        return arrays, form

    def decode_at_once(self, signature: Signature) -> tuple[dict[str, Array], Format] | None:
        """Decode as `decode` does, if reader 2 can, within a millisecond for each megabyte."""
        form = _ROW if INSTANCES in self._keys else _COLUMN
        key = INSTANCES if form is _ROW else INPUTS
        brackets = count_brackets(self._body)
        if key not in self._keys or brackets > FEW_LISTS or signature.takes_any:
            return None
        values = self._document[key]
        if type(values) is simdjson.Object and len(values) > max(FEW_KEYS, len(signature.inputs)):
            return None
        arrays = self._numbers(values, form, signature.inputs, brackets)
        return None if arrays is None else (arrays, form)

    def _decode_open(self, signature: Signature, form: Format) -> dict[str, Array]:
        """Decode undeclared inputs. Raises: InvalidRequest."""
        if not signature.takes_any or (form is _ROW) == (INPUTS in self._keys):
            raise self._unformed(signature)
        values = self._document[INSTANCES if form is _ROW else INPUTS]
        specs = open_specs(plain(values), signature.behind)
        return self._decode_values(values, specs, form, ())

    def _data(self, signature: Signature) -> dict[str, Array] | None:
        """Decode a body in another server's form, without any of our keys; None for any other."""
        ours = INSTANCES in self._keys or INPUTS in self._keys
        if ours or not signature.inputs or MARKED not in self._body:
            return None
        return _in_other_form(plain(self._document), signature.inputs, signature.defaults)

    # Both keys or none is ambiguous, and TensorFlow Serving refuses it as well.
    def _unformed(self, signature: Signature) -> InvalidRequest:
        """Tell why no inputs can be looked for."""
        if not signature.inputs and not signature.takes_any:
            name = self.signature_name or "DEFAULT"
            return InvalidRequest(f"Failed to get input map for signature: {name}")
        if INPUTS not in self._keys:
            return InvalidRequest("Missing 'inputs' or 'instances' key")
        return InvalidRequest(
            f"JSON Value: {show(plain(self._document))} Not formatted correctly expecting"
            " only one of 'inputs' or 'instances' keys to exist "
        )

    def _numbers(
        self,
        values: Lazy,
        form: Format,
        specs: Mapping[str, TensorSpec],
        brackets: int | None = None,
    ) -> dict[str, Array] | None:
        """Let reader 2 read inputs that are one array, or columns by name."""
        is_row = form is _ROW and type(values) is simdjson.Array and len(values) == 1
        if is_row and type(row := values[0]) is simdjson.Object:
            return self._named_row(row, specs)
        if len(specs) != 1:
            return self._columns(values, specs) if form is _COLUMN else None
        ((name, spec),) = specs.items()
        if type(values) is simdjson.Object and form is _COLUMN:
            if name not in list(values):
                return None
            values = values[name]
        elif type(values) is not simdjson.Array or not len(values):
            return None
        array = read_array(values, spec.dtype, self._body, brackets)
        if array is None:
            return None
        self._document = None  # its parser is free for the next body of this thread
        return {name: array}

    def _columns(self, values: Lazy, specs: Mapping[str, TensorSpec]) -> dict[str, Array] | None:
        if type(values) is not simdjson.Object:
            return None
        found = list(values)
        if not all(name in found for name in specs):
            return None
        dtypes = {name: spec.dtype for name, spec in specs.items()}
        return read_arrays({name: values[name] for name in specs}, dtypes, self._body)

    def _named_row(self, row: Lazy, specs: Mapping[str, TensorSpec]) -> dict[str, Array] | None:
        """Read the only instance, an object of inputs by name."""
        if set(row) != specs.keys():
            return None
        dtypes = {name: spec.dtype for name, spec in specs.items()}
        found = read_arrays({name: row[name] for name in specs}, dtypes, self._body, others=1)
        return found and {name: array[np.newaxis] for name, array in found.items()}

    def _decode_values(
        self, values: Lazy, specs: Mapping[str, TensorSpec], form: Format, optional: Collection[str]
    ) -> dict[str, Array]:
        """Let reader 3 read the inputs; its errors are final."""
        given = plain(values, 2)
        dtypes = dtypes_for(given, specs)
        if optional:
            dtypes = without_left_out(given, dtypes, optional)
        if form is _COLUMN:
            if MARKED in self._body:
                marked = _in_other_form(given, specs, optional)
                if marked is not None:
                    return marked
            return decode_columns(given, dtypes)
        if not isinstance(given, list):
            fault = "Expecting 'instances' to be an list/array"
        elif not given:
            fault = "No values in 'instances' array"
        else:
            return decode_rows(given, dtypes)
        raise InvalidRequest(f"JSON Value: {show(plain(self._document))} {fault}")


def _in_other_form(
    given: object, specs: Mapping[str, TensorSpec], optional: Collection[str]
) -> dict[str, Array] | None:
    """Decode inputs in the form of another server (`compat/`); None where they are in ours."""
    for decode in added("tensors"):
        found: dict[str, Array] | None = decode(given, specs, optional)
        if found is not None:
            return found
    return None


class SlicedBody:
    """The body of a Predict with very many numbers; only its ends have been parsed.

    Attributes:
        signature_name: the signature that is asked for; empty for `serving_default`.
    """

    __slots__ = ("_body", "_slices", "signature_name")

    outputs: tuple[str, ...] = ()
    """Names of the requested outputs; only forms can name them."""
    media_type = ""

    def __init__(self, body: bytes, slices: Slices) -> None:
        self._body = body
        self._slices = slices
        self.signature_name = slices.signature_name

    def decode(self, signature: Signature) -> tuple[dict[str, Array], Format]:
        """Decode as `PredictBody.decode` does.

        Raises:
            InvalidRequest: also as `parse_predict` for smaller bodies.
        """
        if len(signature.inputs) == 1:
            ((name, spec),) = signature.inputs.items()
            known = self._slices.name in (None, name)
            array = self._slices.read(spec.dtype) if known else None
            if array is not None:
                return {name: array}, _ROW if self._slices.key == INSTANCES else _COLUMN
        # The body is read from the beginning, as any other: the slices that were read are thrown
        # away, which only unusual bodies pay for.
        return body_of(self._body, parse_object(self._body)).decode(signature)

    def decode_at_once(self, _: Signature) -> None:
        """Never do so: a megabyte and more is worth a thread."""


def parse_at_once(body: bytes) -> PredictBody | None:
    """Do as `parse_predict`, except for forms and bodies that block the event loop for over 2 ms.

    A thread would not help below that, since simdjson holds the interpreter lock.

    Returns:
        None for such a form or body.

    Raises:
        InvalidRequest: as `parse_predict`.
    """
    if len(body) >= SLICED:
        return None
    document = parse_strictly(body)
    if type(document) is not simdjson.Object:
        if len(body) > LARGE_UNSTRICT or body.startswith(FORM_BEGINS):
            return None
        document = object_of(document, body)
    elif len(document) > FEW_KEYS:
        return None
    keys = list(document)  # as `body_of`, without the call
    name = signature_name_of(document) if SIGNATURE_NAME in keys else ""
    return PredictBody(body, document, keys, name)


def parse_predict(body: bytes) -> PredictBody | SlicedBody:
    """Check the syntax of a Predict body and find the requested signature.

    Raises:
        InvalidRequest: invalid JSON, no object, or a `signature_name` that is not a string.
    """
    if len(body) >= SLICED:
        slices = sliced(body)
        if slices is not None:
            return SlicedBody(body, slices)
    return body_of(body, parse_object(body))


def body_of(body: bytes, document: Lazy) -> PredictBody:
    """Find the signature that a parsed body asks for. Raises: InvalidRequest."""
    keys = list(document)
    name = signature_name_of(document) if SIGNATURE_NAME in keys else ""
    return PredictBody(body, document, keys, name)
