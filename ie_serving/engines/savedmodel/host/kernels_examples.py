"""Kernels that parse Examples where they cannot be cut out: in the functions of loops."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.savedmodel.example_features import (
    EXAMPLE_PARSERS,
    ExampleFeatures,
)
from ie_serving.engines.savedmodel.host.host_kernel import Attributes, Compute, HostKernel, Output
from ie_serving.wire.examples.serialized_examples import parse
from ie_serving.wire.protobuf.messages import Proto

_OUTPUTS = (
    Output("", DataType.INT64, "sparse_indices"),
    Output("sparse_types", None, "sparse_values"),
    Output("", DataType.INT64, "sparse_shapes"),
    Output("Tdense", None, "dense_values"),
    Output("ragged_value_types", None, "ragged_values"),
    Output("ragged_split_types", None, "ragged_row_splits"),
)
"""Lists, each with as many members as the node has features of the kind."""


def _sizes(node: Proto) -> list[int]:
    """Give the number of members of each of these lists."""
    sparse, dense, ragged = (
        len(node.attr[name].list.type) for name in ("sparse_types", "Tdense", "ragged_value_types")
    )
    return [sparse, sparse, sparse, dense, ragged, ragged]


def _make(attributes: Attributes) -> Compute:
    node, made = attributes.node, dict[bool, Any]()

    def compute(serialized: Array, *others: Array) -> list[Array]:
        scalar = node.op == "ParseSingleExample" or serialized.ndim == 0
        if scalar not in made:
            # The others are constants (`_check`): those of the first call are those of all.
            features = ExampleFeatures(node, lambda number: others[number - 1])
            outputs = [(each.group, each.index) for each in features.outputs(scalar)]
            names = {output: f"{output[0]} {output[1]}" for output in outputs}
            made[scalar] = features.spec(scalar, names), list(names.values())
        spec, names = made[scalar]
        tensors = parse(spec, serialized.ravel().tolist())
        return [tensors[name] for name in names]

    return compute


def _check(attributes: Attributes, inputs: Sequence[Any]) -> None:
    # The second input of ParseExample has names of the Examples, for texts of faults.
    first = 1 if attributes.node.op == "ParseSingleExample" else 2
    if any(each is None for each in inputs[first:]):
        raise attributes.refused("has keys or defaults that are no constants")


KERNELS: Mapping[str, HostKernel] = MappingProxyType(
    dict.fromkeys(EXAMPLE_PARSERS, HostKernel(_make, _OUTPUTS, _check, sizes=_sizes))
)
