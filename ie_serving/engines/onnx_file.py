"""Reads operators, attributes, inputs and opsets of an ONNX file without the package `onnx`.

Field numbers: onnx.proto3; wire format: protobuf's encoding guide. Weights are skipped, not read,
so a file of gigabytes takes milliseconds.
"""

import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from ie_serving.wire.protobuf.fields import delimited

# ModelProto, FunctionProto, GraphProto, NodeProto and OperatorSetIdProto; below, wire types.
GRAPH, _MODEL_OPSETS, _FUNCTIONS = 7, 8, 25
_FUNCTION_NODES, _FUNCTION_OPSETS = 7, 9
GRAPH_NODE, GRAPH_INITIALIZER, _GRAPH_INPUTS, GRAPH_OUTPUT = 1, 5, 11, 12
_INITIALIZER_NAME, VALUE_NAME = 8, 1
_DIMS, _DATA_TYPE, _INT32_DATA, _UINT64_DATA = 1, 2, 5, 11
_ATTRIBUTE_TENSOR, _ATTRIBUTE_GRAPHS = 5, (6, 11)
_HOLDERS = re.compile(b"Constant|_branch|body")
"""Occurs in the bytes of every operator that holds constants or graphs; others are not parsed."""
NODE_INPUT, NODE_OUTPUT, _NAME, NODE_KIND, NODE_ATTRIBUTE, _DOMAIN = 1, 2, 3, 4, 5, 7
_OPSET_DOMAIN, _OPSET_VERSION = 1, 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

MISREAD: Mapping[int, str] = {
    12: "uint32",
    16: "bfloat16",
    17: "float8e4m3fn",
    19: "float8e5m2",
}
"""ONNX's types, by their numbers, whose values OpenVINO's front end misreads outside `raw_data`."""

_READ_AT_ONCE = 2**20
"""Bytes up to which an operator is taken out of the file as a whole: that is several times faster.
Larger ones have weights or graphs in them."""

MAIN_DOMAIN = "ai.onnx"
"""Name of the domain that files leave empty."""

Value = int | float | str | tuple[int | float | str, ...] | None
"""Value of an attribute: empty for a tensor of no elements, None for another, for a graph, or for a
value that a function's caller sets."""


@dataclass(frozen=True)
class Node:
    """One operator of a graph, of a function or of a subgraph."""

    domain: str
    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Value]
    opset: int
    """Version of `domain` that the model or function imports; 0 where it imports none."""

    def has(self, index: int) -> bool:
        """Tell whether the input of this number is given."""
        return index < len(self.inputs) and bool(self.inputs[index])


class _Field(NamedTuple):
    number: int
    wire: int
    start: int
    end: int


def uses_domain(path: Path, domain: str) -> bool:
    """Tell whether the main graph has an operator of `domain`; False if it is no ONNX file."""
    try:
        with path.open("rb") as file:
            return any(
                _text(file, field) == domain
                for graph in _fields(file, _file_field(file), GRAPH)
                for node in _fields(file, graph, GRAPH_NODE)
                for field in _fields(file, node, _DOMAIN)
            )
    except (OSError, ValueError):
        return False


def opsets(path: Path) -> Mapping[str, int]:
    """Give the version of each domain that the model imports.

    Raises:
        ValueError: the file is no ONNX model.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return _opsets(file, _file_field(file), _MODEL_OPSETS)


def inputs(path: Path) -> list[str]:
    """Name the inputs that have no value in the file, in its order.

    Raises:
        ValueError: the file is no ONNX model.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        graphs = list(_fields(file, _file_field(file), GRAPH))
        declared = _names(file, graphs, _GRAPH_INPUTS, VALUE_NAME)
        constants = set(_names(file, graphs, GRAPH_INITIALIZER, _INITIALIZER_NAME))
    return [name for name in declared if name not in constants]


def nodes(path: Path) -> Iterator[Node]:
    """Give the operators of the graph, its functions, and the subgraphs of either.

    Raises:
        ValueError: the file is no ONNX model.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        model = _file_field(file)
        imported = _opsets(file, model, _MODEL_OPSETS)
        try:
            for graph in _fields(file, model, GRAPH):
                yield from _nodes(file, graph, GRAPH_NODE, imported)
            for function in _fields(file, model, _FUNCTIONS):
                own = _opsets(file, function, _FUNCTION_OPSETS)
                yield from _nodes(file, function, _FUNCTION_NODES, {**imported, **own})
        except RecursionError:  # protobuf takes a tenth of such a depth
            raise ValueError("too many graphs within each other") from None


def steps(path: Path) -> list[Node]:
    """List the operators of the graph in its order, without those of functions and subgraphs.

    Raises:
        ValueError: the file is no ONNX model.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return [
            next(_node(file, node, {}))
            for graph in _fields(file, _file_field(file), GRAPH)
            for node in _fields(file, graph, GRAPH_NODE)
        ]


def misread(path: Path) -> Iterator[tuple[str, str]]:
    """Give name and type of each constant that OpenVINO's front end misreads.

    The type is empty for one of no elements, which the front end takes for a 0.

    Raises:
        ValueError: the file is no ONNX model.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        for graph in _fields(file, _file_field(file), GRAPH):
            for each in _constants_and_outputs(file, graph):
                if each.number != GRAPH_OUTPUT:
                    yield from _misread(file, each)


def results(path: Path) -> Iterator[str]:
    """Name the outputs of the graph and of the graphs within it.

    Raises:
        ValueError: the file is no ONNX model.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        for graph in _fields(file, _file_field(file), GRAPH):
            outputs = [
                each for each in _constants_and_outputs(file, graph) if each.number == GRAPH_OUTPUT
            ]
            for each in outputs:
                yield from (_text(file, name) for name in _fields(file, each, VALUE_NAME))


def _misread(file: BinaryIO, tensor: _Field) -> Iterator[tuple[str, str]]:
    name, kind, is_raw, is_empty = "", "", True, False
    for each in _fields(file, tensor):
        if each.number == _DIMS:  # come first, and are read once: files have thousands of tensors
            is_empty = is_empty or 0 in _integers(file, each)
        elif each.number == _DATA_TYPE:
            kind = MISREAD.get(_integer(file, each), "")
            if not kind and not is_empty:
                return  # writers put the type first, so the values are not gone through
        elif each.number == _INITIALIZER_NAME:
            name = _text(file, each)
        elif each.number in (_INT32_DATA, _UINT64_DATA):
            is_raw = False
    if is_empty or (kind and not is_raw):
        yield name, "" if is_empty else kind


def _is_empty(file: BinaryIO, tensor: _Field) -> bool:
    sizes = takewhile(lambda each: each.number == _DIMS, _fields(file, tensor))  # they come first
    return any(0 in _integers(file, each) for each in sizes)


def _constants_and_outputs(file: BinaryIO, graph: _Field) -> Iterator[_Field]:
    """Give the constants and outputs of a graph and of the graphs among its attributes."""
    for each in _fields(file, graph):
        if each.number in (GRAPH_INITIALIZER, GRAPH_OUTPUT):
            yield each
        elif each.number == GRAPH_NODE and _HOLDERS.search(_content(file, each)):
            for attribute in _fields(file, each, NODE_ATTRIBUTE):
                for value in _fields(file, attribute):
                    if value.number == _ATTRIBUTE_TENSOR:
                        yield value
                    elif value.number in _ATTRIBUTE_GRAPHS:
                        yield from _constants_and_outputs(file, value)


def with_outputs(model: bytes, names: Sequence[str]) -> bytes:
    """Add outputs to the graph of a file: parsers merge two parts of one message."""
    named = (delimited(GRAPH_OUTPUT, delimited(VALUE_NAME, name.encode())) for name in names)
    return model + delimited(GRAPH, b"".join(named))


class OnnxField(NamedTuple):
    """A field of a message: its number, its bytes, and those of its content."""

    number: int
    whole: bytes
    content: bytes


def parts(message: bytes) -> Iterator[OnnxField]:
    """Give the fields of a message; they make up the message again. Raises: ValueError."""
    at = 0
    for field in _fields(io.BytesIO(message), _Field(0, _BYTES, 0, len(message))):
        yield OnnxField(field.number, message[at : field.end], message[field.start : field.end])
        at = field.end


def _names(file: BinaryIO, graphs: Sequence[_Field], number: int, of_name: int) -> list[str]:
    return [
        _text(file, name)
        for graph in graphs
        for each in _fields(file, graph, number)
        for name in _fields(file, each, of_name)
    ]


def _opsets(file: BinaryIO, within: _Field, number: int) -> dict[str, int]:
    found = {}
    for imported in _fields(file, within, number):
        domain, version = "", 0
        for field in _fields(file, imported):
            if field.number == _OPSET_DOMAIN:
                domain = _text(file, field)
            elif field.number == _OPSET_VERSION:
                version = _integer(file, field)
        found[domain or MAIN_DOMAIN] = version
    return found


def _nodes(
    file: BinaryIO, within: _Field, number: int, imported: Mapping[str, int]
) -> Iterator[Node]:
    for node in _fields(file, within, number):
        size = node.end - node.start
        if size > _READ_AT_ONCE:
            yield from _node(file, node, imported)
        else:
            whole = io.BytesIO(_content(file, node))
            yield from _node(whole, _Field(node.number, node.wire, 0, size), imported)


def _node(file: BinaryIO, within: _Field, imported: Mapping[str, int]) -> Iterator[Node]:
    """Give an operator, and those of the graphs among its attributes."""
    texts: dict[int, list[str]] = {}
    attributes: dict[str, Value] = {}
    subgraphs: list[_Field] = []
    for field in _fields(file, within):
        if field.number in (NODE_INPUT, NODE_OUTPUT, _NAME, NODE_KIND, _DOMAIN):
            texts.setdefault(field.number, []).append(_text(file, field))
        elif field.number == NODE_ATTRIBUTE:
            name, value = _attribute(file, field, subgraphs)
            attributes[name] = value
    domain = "".join(texts.get(_DOMAIN, ())) or MAIN_DOMAIN
    yield Node(
        domain,
        "".join(texts.get(NODE_KIND, ())),
        "".join(texts.get(_NAME, ())),
        tuple(texts.get(NODE_INPUT, ())),
        tuple(texts.get(NODE_OUTPUT, ())),
        attributes,
        imported.get(domain, 0),
    )
    for subgraph in subgraphs:
        yield from _nodes(file, subgraph, GRAPH_NODE, imported)


def _attribute(file: BinaryIO, within: _Field, subgraphs: list[_Field]) -> tuple[str, Value]:
    """Give name and value, and add graphs to `subgraphs`."""
    name = ""
    value: Value = None
    listed: list[int | float | str] = []  # trees have tens of thousands, each in its own field
    for field in _fields(file, within):
        match field.number:  # of AttributeProto
            case 1:
                name = _text(file, field)
            case 2:  # f
                (value,) = _floats(file, field)
            case 3:  # i
                value = _integer(file, field)
            case 4:  # s
                value = _text(file, field)
            case 5 if _is_empty(file, field):
                value = ()
            case 6 | 11:  # g, graphs
                subgraphs.append(field)
            case 7:  # floats
                listed += _floats(file, field)
            case 8:  # ints
                listed += _integers(file, field)
            case 9:  # strings
                listed.append(_text(file, field))
    return name, tuple(listed) if listed else value


def _file_field(file: BinaryIO) -> _Field:
    return _Field(0, _BYTES, 0, os.fstat(file.fileno()).st_size)


def _fields(file: BinaryIO, within: _Field, wanted: int | None = None) -> Iterator[_Field]:
    """Give the fields of a message, or those of one number."""
    at = within.start
    while at < within.end:
        file.seek(at)
        key = _varint(file)
        length = _length(file, key & 7)
        start = file.tell()
        at = start + length
        if at > within.end:
            raise ValueError("a field ends beyond its message")
        if wanted in (None, key >> 3):
            yield _Field(key >> 3, key & 7, start, at)


def _length(file: BinaryIO, wire: int) -> int:
    """Read up to where a field's content begins, and give its length in bytes."""
    if wire == _VARINT:
        start = file.tell()
        _varint(file)
        length = file.tell() - start
        file.seek(start)
        return length
    if wire == _BYTES:
        return _varint(file)
    if wire not in (_FIXED64, _FIXED32):
        raise ValueError("not a protocol buffer")  # groups end here too: ONNX has none
    return 8 if wire == _FIXED64 else 4


def _text(file: BinaryIO, field: _Field) -> str:
    return _content(file, field).decode(errors="replace")


def _content(file: BinaryIO, field: _Field) -> bytes:
    file.seek(field.start)
    return file.read(field.end - field.start)


def _floats(file: BinaryIO, field: _Field) -> tuple[float, ...]:
    """Read one float, or several that are packed."""
    return tuple(np.frombuffer(_content(file, field), "<f4").tolist())


def _integer(file: BinaryIO, field: _Field) -> int:
    (number,) = _integers(file, field)
    return number


def _integers(file: BinaryIO, field: _Field) -> tuple[int, ...]:
    """Read one integer of 64 bits with a sign, or several that are packed."""
    file.seek(field.start)
    found = []
    while file.tell() < field.end:
        value = _varint(file)
        found.append(value - (1 << 64) if value >= 1 << 63 else value)
    return tuple(found)


def _varint(file: BinaryIO) -> int:
    value = 0
    # Ten bytes of seven bits carry 64 bits; an eleventh makes the varint malformed.
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            break
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    raise ValueError("not a protocol buffer")
