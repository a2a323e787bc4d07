"""Rewrites the `If`s of an ONNX file that OpenVINO's front end refuses, for a second reading.

The front end takes a condition of rank 0 or 1 alone, and no operation behind an `If` whose branches
give other ranks. The file's own shapes often tell which branch is taken, as in exports of
`torch.squeeze`: then its operations take the place of the `If`.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path

import openvino as ov
from openvino.passes import ConstantFolding, Manager

from ie_serving.core.runtime.scratch import Scratch
from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.onnx_file import (
    GRAPH,
    GRAPH_INITIALIZER,
    GRAPH_NODE,
    GRAPH_OUTPUT,
    NODE_ATTRIBUTE,
    NODE_INPUT,
    NODE_KIND,
    NODE_OUTPUT,
    VALUE_NAME,
    OnnxField,
    nodes,
    parts,
)
from ie_serving.engines.openvino.graphs.constants import value_of
from ie_serving.engines.openvino.graphs.walk import BRANCH, bodies
from ie_serving.engines.openvino.operators.converter import Convert, read
from ie_serving.wire.protobuf.fields import delimited

_ATTRIBUTE_NAME, _ATTRIBUTE_GRAPH = 1, 6
_NAME = 8
"""Number of the name in a TensorProto."""
_TAKEN = {True: b"then_branch", False: b"else_branch"}
_ROW = b"ie_serving/one"
"""Name of the constant by which conditions become a row of one."""
# TensorProto: dims [1], data_type INT64, int64_data [1], and the name.
_ROW_TENSOR = b"\x08\x01\x10\x07\x38\x01" + delimited(_NAME, _ROW)

_ROUNDS = 4
"""Times that a file is simplified: branches may hold `If`s that only shapes of the whole tell."""


def read_simpler(file: Path, own: Mapping[str, Convert]) -> ov.Model | None:
    """Read a file whose `If`s the front end refuses; None where they are not the cause.

    Args:
        file: file of the model.
        own: converts operators, by their names.
    """
    with Scratch() as private:
        simpler = private / file.name
        try:
            if all(node.kind != "If" for node in nodes(file)):
                return None
            simpler.write_bytes(file.read_bytes())
            for _ in range(_ROUNDS):
                known = _known_conditions(read(simpler, own, partially=True))
                simpler.write_bytes(_rewritten(simpler.read_bytes(), known))
                try:
                    return read(simpler, own)
                except (RuntimeError, LoadFailed):
                    if not known:
                        return None
        except (RuntimeError, ValueError, LoadFailed):
            pass
    return None


def _rewritten(model: bytes, known: Mapping[bytes, bool]) -> bytes:
    """Give a file with simpler `If`s."""
    names, changed = count(), b""
    for part in parts(model):
        if part.number == GRAPH:
            row = delimited(GRAPH_INITIALIZER, _ROW_TENSOR)
            graph = _graph(part.content, known, names)
            _check_names(graph)
            changed += delimited(GRAPH, graph + row)
        else:
            changed += part.whole
    return changed


def _check_names(graph: bytes) -> None:
    """Refuse a graph where two constants have one name. Raises: ValueError.

    Branches beside each other may use the same names; inlined, one constant would hide the other.
    """
    constants = [each.content for each in parts(graph) if each.number == GRAPH_INITIALIZER]
    names = [each.content for held in constants for each in parts(held) if each.number == _NAME]
    if len({*names}) < len(names):
        raise ValueError("two constants of the graph have one name")


def _known_conditions(model: ov.Model) -> Mapping[bytes, bool]:
    """Give the conditions, by the names of their tensors, whose value the shapes tell.

    Raises:
        ValueError: conditions of branches beside each other have one name and other values.
    """
    folding = Manager()
    folding.register_pass(ConstantFolding())
    folding.run_passes(model)
    found: dict[bytes, bool | None] = {}
    for name, value in _conditions(model):
        if found.setdefault(name, value) is not value:
            raise ValueError("two conditions have one name")
    return {name: value for name, value in found.items() if value is not None}


def _conditions(model: ov.Model) -> Iterator[tuple[bytes, bool | None]]:
    """Give each condition by the names of its tensor; None where shapes do not tell the value."""
    for node in model.get_ordered_ops():
        if BRANCH in (node.get_type_name(), node.get_attributes().get("ONNX_META_type")):
            condition = node.input_value(0)
            value = value_of(condition.get_node())
            told = bool(value.item()) if value is not None and value.size == 1 else None
            yield from ((name.encode(), told) for name in condition.get_names())
        for body in bodies(node):
            yield from _conditions(body)


def _graph(graph: bytes, known: Mapping[bytes, bool], names: Iterator[int]) -> bytes:
    return b"".join(
        _node(part, known, names) if part.number == GRAPH_NODE else part.whole
        for part in parts(graph)
    )


def _node(node: OnnxField, known: Mapping[bytes, bool], names: Iterator[int]) -> bytes:
    fields = list(parts(node.content))
    if not any(each.number == NODE_KIND and each.content == b"If" for each in fields):
        return node.whole
    (condition,) = [each.content for each in fields if each.number == NODE_INPUT]
    branches = dict(filter(None, map(_branch, fields)))
    if condition in known:
        outputs = [each.content for each in fields if each.number == NODE_OUTPUT]
        return _inlined(branches[_TAKEN[known[condition]]], outputs, known, names)
    row = condition + b"/%d" % next(names)
    own = b"".join(
        delimited(NODE_INPUT, row) if each.number == NODE_INPUT else _deeper(each, known, names)
        for each in fields
    )
    reshape = _operator(b"Reshape", [condition, _ROW], row)
    return reshape + delimited(GRAPH_NODE, own)


def _branch(attribute: OnnxField) -> tuple[bytes, bytes] | None:
    if attribute.number != NODE_ATTRIBUTE:
        return None
    inside = {each.number: each.content for each in parts(attribute.content)}
    return inside[_ATTRIBUTE_NAME], inside[_ATTRIBUTE_GRAPH]


def _deeper(field: OnnxField, known: Mapping[bytes, bool], names: Iterator[int]) -> bytes:
    if field.number != NODE_ATTRIBUTE:
        return field.whole
    content = b"".join(
        delimited(_ATTRIBUTE_GRAPH, _graph(each.content, known, names))
        if each.number == _ATTRIBUTE_GRAPH
        else each.whole
        for each in parts(field.content)
    )
    return delimited(NODE_ATTRIBUTE, content)


def _inlined(
    branch: bytes, outputs: Iterable[bytes], known: Mapping[bytes, bool], names: Iterator[int]
) -> bytes:
    """Give a branch as fields of the graph around it: names of both differ, as ONNX demands."""
    found = list(parts(_graph(branch, known, names)))
    kept = b"".join(each.whole for each in found if each.number in (GRAPH_NODE, GRAPH_INITIALIZER))
    given = [
        name.content
        for each in found
        if each.number == GRAPH_OUTPUT
        for name in parts(each.content)
        if name.number == VALUE_NAME
    ]
    passed = zip(given, outputs, strict=True)
    return kept + b"".join(_operator(b"Identity", [own], output) for own, output in passed)


def _operator(kind: bytes, inputs: Iterable[bytes], output: bytes) -> bytes:
    content = b"".join(delimited(NODE_INPUT, name) for name in inputs)
    content += delimited(NODE_OUTPUT, output) + delimited(NODE_KIND, kind)
    return delimited(GRAPH_NODE, content)
