"""Rows that OpenVINO would mix when it reshapes a model, found so that they are refused.

A model with the pattern (1, 2048) in front of a matrix product is to take other batches. So
`Model.reshape` replaces such a pattern by one that makes the product fit, whatever the pattern was:
of one image of twice the height and width it then makes four rows, without an error. Measured with
OpenVINO 2026.4; most classifiers of images end in such a pattern, ONNX's `Flatten` among them.
"""

from collections.abc import Collection, Iterator

import openvino as ov

from ie_serving.engines.openvino.graphs.walk import operations

RESHAPE = "Reshape"
SAME = 0
"""Entry of a pattern that keeps a dimension."""


def keepers(model: ov.Model) -> frozenset[str]:
    """Name the operations that keep the first dimension, by a pattern that is known.

    To be called before the model is reshaped. A pattern that begins with -1 leaves the rows open,
    and what it makes of them is what the model's author wrote.
    """
    return frozenset(str(node.get_friendly_name()) for node in _reshapes(model) if _keeps(node))


def mixed(model: ov.Model, names: Collection[str]) -> str:
    """Say which of the operations `names` keeps the first dimension no longer; empty if all do.

    Where a size is open, nothing is known yet.
    """
    for node in _reshapes(model) if names else ():
        if node.get_friendly_name() in names and not _is_constant(node):
            given, made = _sizes(node)
            if None not in (given, made) and given != made:
                return f'{RESHAPE} "{node.get_friendly_name()}" would make {made} rows of {given}'
    return ""


def _reshapes(model: ov.Model) -> Iterator[ov.Node]:
    return (node for node in operations(model) if node.get_type_name() == RESHAPE)


def _is_constant(node: ov.Node) -> bool:
    return bool(node.input_value(1).get_node().get_type_name() == "Constant")


def _keeps(node: ov.Node) -> bool:
    if not _is_constant(node):
        return False
    pattern = node.input_value(1).get_node().get_vector()
    if not len(pattern):
        return False
    if pattern[0] == SAME and node.get_attributes()["special_zero"]:
        return True
    return bool(_first(node.get_input_partial_shape(0)) == pattern[0])


def _sizes(node: ov.Node) -> tuple[int | None, int | None]:
    """Give the first dimension of what a node is given, and of what it makes."""
    return _first(node.get_input_partial_shape(0)), _first(node.get_output_partial_shape(0))


def _first(sizes: ov.PartialShape) -> int | None:
    """Give the first dimension; None where it is open, or there is none."""
    if sizes.rank.is_dynamic or not len(sizes) or sizes[0].is_dynamic:
        return None
    return int(sizes[0].get_length())
