"""Kernels of strings, regular expressions included.

Source: the kernels string_*_op.cc, as_string_op.cc, string_to_hash_bucket_fast_op.h,
regex_replace_op.cc and regex_full_match_op.cc of TensorFlow.
"""

import base64
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.savedmodel.host import regex
from ie_serving.engines.savedmodel.host.allowance import make_room
from ie_serving.engines.savedmodel.host.fingerprint import fingerprints, keyed_hash
from ie_serving.engines.savedmodel.host.host_kernel import (
    FLAG,
    INTEGER,
    LONG,
    TEXT,
    Attributes,
    Compute,
    HostKernel,
    Output,
    in_thread,
    plain,
)
from ie_serving.engines.savedmodel.host.index_checks import axis_of
from ie_serving.engines.savedmodel.host.regex import PatternRefused, decoded

# Python reads more than TensorFlow, such as underscores between digits.
_NUMBER = re.compile(
    rb"[ \t\n\v\f\r]*[+-]?((\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)[ \t\n\v\f\r]*",
    re.IGNORECASE,
)
_INTEGER = re.compile(rb"[ \t\n\v\f\r]*[+-]?\d+[ \t\n\v\f\r]*")
_BASE64 = re.compile(rb"[A-Za-z0-9_-]*")
_SPLIT = (
    Output("", DataType.INT64, "indices"),
    Output("", DataType.STRING, "values"),
    Output("", DataType.INT64, "shape"),
)
_NGRAMS = (Output("", TEXT.dtype, "ngrams"), Output("Tsplits", None, "ngrams_splits"))


def each(function: Callable[[bytes], object], array: Array, dtype: object = np.object_) -> Array:
    """Apply a function to each string."""
    rows = map(function, array.ravel().tolist())
    made: Array = np.fromiter(rows, dtype, array.size)  # type: ignore[call-overload]
    return made.reshape(array.shape)


def texts(values: Sequence[bytes]) -> Array:
    """Give a vector of strings."""
    return np.fromiter(values, np.object_, len(values))


def _as_string(attributes: Attributes) -> Compute:
    kind = attributes.dtype("T").numpy.kind
    if kind == "b":
        return lambda array: each(lambda value: b"true" if value else b"false", array)
    if kind == "O":
        return lambda array: array
    form = _format(attributes, kind)
    return lambda array: each(lambda value: (form % value).encode(), array)


def _format(attributes: Attributes, kind: str) -> str:
    """Write the format of C's printf, which Python shares."""
    width, precision = attributes.integer("width", -1), attributes.integer("precision", -1)
    form = "%" + attributes.text("fill").decode() + (str(width) if width > -1 else "")
    if kind in "iu":
        return f"{form}d"
    if precision > -1:
        form += f".{precision}"
    if attributes.flag("shortest"):
        return f"{form}g"
    return form + ("e" if attributes.flag("scientific") else "f")


def _to_number(attributes: Attributes) -> Compute:
    dtype = attributes.dtype("out_type", DataType.FP32).numpy
    floats = dtype.kind == "f"
    form, read = (_NUMBER, float) if floats else (_INTEGER, int)

    def number(text: bytes) -> object:
        if form.fullmatch(text):
            value = read(text)
            if floats or np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
                return value
        raise InvalidRequest(
            f"StringToNumberOp could not correctly convert string: {text.decode(errors='replace')}"
        )

    def compute(array: Array) -> Array:
        with np.errstate(over="ignore"):
            return each(number, array, dtype)

    return compute


def _join(attributes: Attributes) -> Compute:
    separator = attributes.text("separator")

    def compute(*arrays: Array) -> Array:
        # TensorFlow lets scalars alone stand for any shape.
        shapes = {array.shape for array in arrays if array.ndim}
        if len(shapes) > 1:
            raise InvalidRequest(f"Input shapes do not match: {' vs. '.join(map(str, shapes))}")
        together = np.broadcast_arrays(*arrays)
        rows = zip(*(array.ravel().tolist() for array in together), strict=True)
        return texts([separator.join(row) for row in rows]).reshape(together[0].shape)

    return compute


def _reduce_join(attributes: Attributes) -> Compute:
    separator, keep = attributes.text("separator"), attributes.flag("keep_dims")

    def compute(array: Array, axes: Array) -> Array:
        # The axes are joined in the order in which they are given, so the first varies fastest.
        order = [axis_of(axis, array.ndim) for axis in np.ravel(axes)]
        if not order:
            return array
        rest = [axis for axis in range(array.ndim) if axis not in order]
        rows = np.transpose(array, [*rest, *reversed(order)])
        shape = rows.shape[: len(rest)]
        size = math.prod(rows.shape[len(rest) :])
        joined = [separator.join(row) for row in rows.reshape(math.prod(shape), size).tolist()]
        made = texts(joined).reshape(shape)
        return np.expand_dims(made, tuple(sorted(order))) if keep else made

    return compute


def _case(on_bytes: Callable[[bytes], bytes], on_text: Callable[[str], str]) -> Any:  # noqa: ANN401
    def make(attributes: Attributes) -> Compute:
        if attributes.only("encoding", (b"", b"utf-8"), b"") == b"":
            return lambda array: each(on_bytes, array)
        return lambda array: each(lambda text: on_text(decoded(text)).encode(), array)

    return make


def _characters(text: bytes) -> int:
    """Count characters as TensorFlow does: the bytes that do not continue another."""
    return sum(byte & 0xC0 != 0x80 for byte in text)


def _length(attributes: Attributes) -> Compute:
    unit = attributes.only("unit", (b"BYTE", b"UTF8_CHAR"), b"BYTE")
    count = len if unit == b"BYTE" else _characters
    return lambda array: each(count, array, np.int32)


def _substr(attributes: Attributes) -> Compute:
    unit = attributes.only("unit", (b"BYTE", b"UTF8_CHAR"), b"BYTE")

    def compute(array: Array, position: Array, length: Array) -> Array:
        together = np.broadcast_arrays(array, position, length)
        if together[0].size > max(array.size, position.size):
            make_room(together[0].shape, np.object_)
        rows = zip(*(part.ravel().tolist() for part in together), strict=True)
        cut = _cut if unit == b"BYTE" else _cut_characters
        return texts([cut(*row) for row in rows]).reshape(together[0].shape)

    return compute


def _cut(text: bytes, position: int, length: int) -> bytes:
    if not -len(text) <= position <= len(text):
        shown = text.decode(errors="replace")
        raise InvalidRequest(f"pos {position} out of range for string {shown!r}")
    start = position if position >= 0 else len(text) + position
    return text[start : start + max(length, 0)]


def _cut_characters(text: bytes, position: int, length: int) -> bytes:
    characters = decoded(text)
    if not -len(characters) <= position <= len(characters):
        raise InvalidRequest(f"pos {position} out of range for string {characters!r}")
    start = position if position >= 0 else len(characters) + position
    return characters[start : start + max(length, 0)].encode()


def _split_v2(attributes: Attributes) -> Compute:
    most = attributes.integer("maxsplit", -1)

    def compute(array: Array, separator: Array) -> list[Array]:
        by = separator.item()
        rows: list[bytes] = array.ravel().tolist()
        if by:
            return _ragged([text.split(by, most) for text in rows])
        if most < 0:
            return _ragged(list(map(bytes.split, rows)))
        return _ragged([_words(text, most) for text in rows])

    return compute


def _words(text: bytes, most: int) -> list[bytes]:
    """Split at white space; TensorFlow gives the rest after the last split, even if empty."""
    if most == 0:
        return [text]
    words = text.split(None, most)
    return [*words, b""] if len(words) == most else words


def _split(attributes: Attributes) -> Compute:
    """Compute StringSplit of TensorFlow 1: every byte of the delimiter splits."""
    skip_empty = attributes.flag("skip_empty", True)

    def compute(array: Array, delimiter: Array) -> list[Array]:
        by = delimiter.item()
        split = re.compile(b"[" + re.escape(by) + b"]" if by else b"(?<=.)(?=.)", re.DOTALL).split
        rows = [split(text) if text else [] for text in array.ravel().tolist()]
        return _ragged([[t for t in row if t or not skip_empty] for row in rows])

    return compute


def _ragged(rows: Sequence[Sequence[bytes]]) -> list[Array]:
    """Give rows of strings as a sparse tensor: indices, values, shape."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    values = texts(list(chain.from_iterable(rows)))
    row = np.arange(len(rows)).repeat(lengths)
    indices = np.empty((len(values), 2), np.int64)
    indices[:, 0] = row
    indices[:, 1] = np.arange(len(values)) - (lengths.cumsum() - lengths)[row]
    shape = np.array([len(rows), lengths.max(initial=0)], np.int64)
    return [indices, values, shape]


def _encode_base64(attributes: Attributes) -> Compute:
    pad = attributes.flag("pad")

    def encode(data: bytes) -> bytes:
        text = base64.urlsafe_b64encode(data)
        return text if pad else text.rstrip(b"=")

    return lambda array: each(encode, array)


def _decode_base64(data: bytes) -> bytes:
    text = data.rstrip(b"=")
    if len(text) % 4 == 1 or (not text and data):
        raise InvalidRequest("Base64 string length cannot be 1 modulo 4.")
    padding = -len(text) % 4
    if not _BASE64.fullmatch(text) or len(data) - len(text) not in (0, padding):
        raise InvalidRequest("Invalid character found in base64.")
    return base64.urlsafe_b64decode(text + b"=" * padding)


def _decode_raw(attributes: Attributes) -> Compute:
    dtype = attributes.dtype("out_type").numpy
    stored = dtype.newbyteorder("<" if attributes.flag("little_endian", True) else ">")

    def compute(array: Array) -> Array:
        rows: list[bytes] = array.ravel().tolist()
        lengths = {len(row) for row in rows}
        if len(lengths) > 1:
            raise InvalidRequest(
                f"DecodeRaw requires input strings to all be the same size, but they have"
                f" {sorted(lengths)} bytes"
            )
        length = lengths.pop() if lengths else 0
        if length % dtype.itemsize:
            raise InvalidRequest(
                f"Input to DecodeRaw has length {length} that is not a multiple of"
                f" {dtype.itemsize}, the size of {dtype}"
            )
        values = np.frombuffer(b"".join(rows), stored).astype(dtype)
        return values.reshape((*array.shape, length // dtype.itemsize))

    return compute


def _to_bucket(attributes: Attributes) -> Compute:
    buckets = attributes.integer("num_buckets", 1)

    def compute(array: Array) -> Array:
        hashed: Array = fingerprints(array.ravel().tolist()) % np.uint64(buckets)
        return hashed.astype(np.int64).reshape(array.shape)

    return compute


def _to_keyed_bucket(attributes: Attributes) -> Compute:
    buckets, key = attributes.integer("num_buckets", 1), attributes.integers("key")
    return lambda array: each(lambda text: keyed_hash(key, text) % buckets, array, np.int64)


def _decode_unicode(attributes: Attributes) -> Compute:
    attributes.only("input_encoding", (b"UTF-8",), b"")
    errors = attributes.only("errors", (b"strict", b"replace", b"ignore"), b"replace").decode()
    if attributes.flag("replace_control_characters") or (
        attributes.integer("replacement_char", 0xFFFD) != 0xFFFD
    ):
        raise attributes.refused("replaces characters by others")
    splits_dtype = attributes.dtype("Tsplits", DataType.INT64).numpy

    def compute(array: Array) -> list[Array]:
        try:
            held = [text.decode("utf-8", errors) for text in array.ravel().tolist()]
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"Invalid formatting on input string: {error}") from error
        splits = np.cumsum([0, *map(len, held)]).astype(splits_dtype)
        return [splits, np.frombuffer("".join(held).encode("utf-32-le"), np.int32)]

    return compute


def _encode_unicode(attributes: Attributes) -> Compute:
    attributes.only("output_encoding", (b"UTF-8",), b"")
    attributes.only("errors", (b"replace",), b"replace")

    def compute(values: Array, splits: Array) -> Array:
        # As TensorFlow: the character for what is none, which surrogates are neither.
        held = [chr(each) if _is_character(each) else "\ufffd" for each in values.tolist()]
        bounds = _bounds(splits, values.size)
        return texts(["".join(held[a:b]).encode() for a, b in pairwise(bounds)])

    return compute


def _is_character(code: int) -> bool:
    return 0 <= code <= sys.maxunicode and not 0xD800 <= code <= 0xDFFF


def _ngrams(attributes: Attributes) -> Compute:
    separator, widths = attributes.text("separator"), attributes.integers("ngram_widths")
    left, right = attributes.text("left_pad"), attributes.text("right_pad")
    padding = attributes.integer("pad_width")
    keeps_short = attributes.flag("preserve_short_sequences")

    def of_row(row: list[bytes]) -> Iterator[bytes]:
        found = False
        for width in widths:
            pad = width - 1 if padding < 0 else min(padding, width - 1)
            padded = [left] * pad + row + [right] * pad
            for at in range(len(padded) - width + 1):
                found = True
                yield separator.join(padded[at : at + width])
        # A row too short for every width is one n-gram of all that it has.
        if keeps_short and row and not found:
            pad = max(padding, 0)
            yield separator.join([left] * pad + row + [right] * pad)

    def compute(data: Array, splits: Array) -> list[Array]:
        bounds = _bounds(splits, data.size)
        # Each n-gram repeats its strings: a wide one makes much of few bytes.
        make_room((data.size + 1, sum(widths), max(widths, default=1)), np.dtype(np.int64))
        held: list[bytes] = data.tolist()
        rows = [list(of_row(held[a:b])) for a, b in pairwise(bounds)]
        ends = np.cumsum([0, *map(len, rows)])[: len(bounds)] if bounds else np.empty(0)
        return [texts([gram for row in rows for gram in row]), ends.astype(splits.dtype)]

    return compute


def _bounds(splits: Array, size: int) -> Sequence[int]:
    bounds: list[int] = splits.tolist()
    if bounds and (bounds[0] or bounds[-1] != size or any(np.diff(splits) < 0)):
        raise InvalidRequest(f"Invalid split values {bounds} for {size} strings")
    return bounds


KERNELS: Final[Mapping[str, HostKernel]] = {
    "AsString": HostKernel(_as_string, (TEXT,)),
    "DecodeBase64": plain(lambda array: each(_decode_base64, array), TEXT),
    "DecodeRaw": HostKernel(_decode_raw, (Output("out_type"),)),
    "EncodeBase64": HostKernel(_encode_base64, (TEXT,)),
    "ReduceJoin": HostKernel(_reduce_join, (TEXT,)),
    "StringJoin": HostKernel(_join, (TEXT,)),
    "StringLength": HostKernel(_length, (INTEGER,)),
    "StringLower": HostKernel(_case(bytes.lower, str.lower), (TEXT,)),
    "StringNGrams": in_thread(HostKernel(_ngrams, _NGRAMS)),
    "StringSplit": HostKernel(_split, _SPLIT),
    "StringSplitV2": HostKernel(_split_v2, _SPLIT),
    "StringStrip": plain(lambda array: each(bytes.strip, array), TEXT),
    "StringToHashBucketFast": HostKernel(_to_bucket, (LONG,)),
    "StringToHashBucketStrong": in_thread(HostKernel(_to_keyed_bucket, (LONG,))),
    "StringToNumber": HostKernel(_to_number, (Output("out_type", DataType.FP32),)),
    "StringUpper": HostKernel(_case(bytes.upper, str.upper), (TEXT,)),
    "Substr": HostKernel(_substr, (TEXT,)),
    "UnicodeDecode": HostKernel(
        _decode_unicode,
        (
            Output("Tsplits", DataType.INT64, "row_splits"),
            Output("", DataType.INT32, "char_values"),
        ),
    ),
    "UnicodeEncode": HostKernel(_encode_unicode, (TEXT,)),
}


def _static_replace(attributes: Attributes) -> Compute:
    every = attributes.flag("replace_global", True)
    try:
        function = regex.replacer(attributes.text("pattern"), attributes.text("rewrite"), every)
    except PatternRefused as error:
        raise _pattern_refused(attributes, attributes.text("pattern"), error) from error
    return lambda array: each(function, array)


def _replace(attributes: Attributes) -> Compute:
    every = attributes.flag("replace_global", True)

    def compute(array: Array, pattern: Array, rewrite: Array) -> Array:
        try:
            return each(regex.replacer(pattern.item(), rewrite.item(), every), array)
        except PatternRefused as error:
            raise InvalidRequest(f"the pattern {pattern.item()!r}: {error}") from error

    return compute


def _static_match(attributes: Attributes) -> Compute:
    try:
        found = regex.compiled(attributes.text("pattern"))
    except PatternRefused as error:
        raise _pattern_refused(attributes, attributes.text("pattern"), error) from error
    return lambda array: _matches(found, array)


def _match(array: Array, pattern: Array) -> Array:
    try:
        return _matches(regex.compiled(pattern.item()), array)
    except PatternRefused as error:
        raise InvalidRequest(f"the pattern {pattern.item()!r}: {error}") from error


def _matches(found: regex.Pattern, array: Array) -> Array:
    return each(found.matches, array, bool)


def _check(attributes: Attributes, inputs: Sequence[Any]) -> None:
    """Refuse a pattern, or a rewrite, that a request brings or that cannot be run.

    A request's pattern could take memory that nothing counts, and its rewrite write without end.
    """
    if any(each is None for each in inputs[1:]):
        raise attributes.refused("takes its pattern or rewrite from the request")
    pattern = inputs[1].item()
    try:
        found = regex.compiled(pattern)
        if len(inputs) > 2:
            regex.rewriter(inputs[2].item(), found.groups)
    except PatternRefused as error:
        raise _pattern_refused(attributes, pattern, error) from error


def _pattern_refused(attributes: Attributes, pattern: bytes, error: PatternRefused) -> LoadFailed:
    return attributes.refused(f"has the pattern {pattern.decode(errors='replace')!r} ({error})")


PATTERN_KERNELS: Final[Mapping[str, HostKernel]] = {
    "RegexFullMatch": HostKernel(lambda _: _match, (FLAG,), _check),
    "RegexReplace": HostKernel(_replace, (TEXT,), _check),
    "StaticRegexFullMatch": HostKernel(_static_match, (FLAG,)),
    "StaticRegexReplace": HostKernel(_static_replace, (TEXT,)),
}
