"""Reads the features that a ParseExample parses from its node."""

from collections.abc import Callable, Iterator

from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.savedmodel.parser import Parser
from ie_serving.wire.examples.example_spec import (
    Dense,
    ExampleSpec,
    Names,
    ParsedOutput,
    Ragged,
    Sparse,
    is_default,
)
from ie_serving.wire.protobuf.messages import Proto

EXAMPLE_PARSERS = frozenset({"ParseExample", "ParseExampleV2", "ParseSingleExample"})


class ExampleFeatures(Parser):
    """Reads one node."""

    def __init__(self, node: Proto, value: Callable[[int], Array]) -> None:
        super().__init__(node, value)
        self.dense_types = self.types("Tdense")
        self.sparse_types = self.types("sparse_types")
        self.ragged_types = self.types("ragged_value_types")
        self.split_types = self.types("ragged_split_types")
        self.dense_shapes = self.shapes("dense_shapes")
        self._read_keys()

    def _read_keys(self) -> None:
        node, dense, sparse = self.node, len(self.dense_types), len(self.sparse_types)
        self.ragged_keys: list[str] = []
        # Inputs 0 and 1 are the Examples and their names. In ParseExample an input for each key
        # follows, in V2 one for all keys of a kind; ParseSingleExample has its keys as attributes.
        # The defaults of dense features come last.
        if node.op == "ParseSingleExample":
            self.sparse_keys = self.texts("sparse_keys")
            self.dense_keys = self.texts("dense_keys")
            first_default = 1
        elif node.op == "ParseExampleV2":
            self.sparse_keys, self.dense_keys, self.ragged_keys = map(self.keys, (2, 3, 4))
            first_default = 5
        else:
            self.sparse_keys = [self.keys(2 + i)[0] for i in range(sparse)]
            self.dense_keys = [self.keys(2 + sparse + i)[0] for i in range(dense)]
            first_default = 2 + sparse + dense
        self.defaults = [self.value(first_default + i) for i in range(dense)]

    def outputs(self, scalar: bool) -> Iterator[ParsedOutput]:
        """List the node's outputs in order."""
        yield from self._sparse_outputs(1 if scalar else 2)
        batch = () if scalar else (-1,)  # the number of Examples
        for at, dtype in enumerate(self.dense_types):
            yield ParsedOutput("dense_values", at, dtype.number, (*batch, *self.dense_shapes[at]))
        for at, dtype in enumerate(self.ragged_types):
            yield ParsedOutput("ragged_values", at, dtype.number, (-1,))
        for at, dtype in enumerate(self.split_types):
            yield ParsedOutput("ragged_row_splits", at, dtype.number, (-1,))

    def _sparse_outputs(self, rank: int) -> Iterator[ParsedOutput]:
        # Not feature by feature: the node has the indices of all, then the values, then the shapes.
        for at, _ in enumerate(self.sparse_types):
            yield ParsedOutput("sparse_indices", at, DataType.INT64.number, (-1, rank))
        for at, dtype in enumerate(self.sparse_types):
            yield ParsedOutput("sparse_values", at, dtype.number, (-1,))
        for at, _ in enumerate(self.sparse_types):
            yield ParsedOutput("sparse_shapes", at, DataType.INT64.number, (rank,))

    def spec(self, scalar: bool, names: Names) -> ExampleSpec:
        """Give the specification, with tensor names by output; "" for unused outputs.

        An unused dense feature is parsed as well, since TensorFlow refuses an Example without it.
        """
        return ExampleSpec(
            scalar,
            tuple(self._dense(at, names) for at in range(len(self.dense_keys))),
            tuple(self._sparse(at, names) for at in range(len(self.sparse_keys))),
            tuple(self._ragged(at, names) for at in range(len(self.ragged_keys))),
        )

    def _dense(self, at: int, names: Names) -> Dense:
        default, shape = self.defaults[at], self.dense_shapes[at]
        return Dense(
            self.dense_keys[at],
            self.dense_types[at],
            shape,
            default if is_default(default, shape) else None,
            names.get(("dense_values", at), ""),
        )

    def _sparse(self, at: int, names: Names) -> Sparse:
        groups = ("sparse_indices", "sparse_values", "sparse_shapes")
        indices, values, shapes = (names.get((group, at), "") for group in groups)
        return Sparse(self.sparse_keys[at], self.sparse_types[at], indices, values, shapes)

    def _ragged(self, at: int, names: Names) -> Ragged:
        values, splits = (
            names.get((group, at), "") for group in ("ragged_values", "ragged_row_splits")
        )
        kinds = self.ragged_types[at], self.split_types[at]
        return Ragged(self.ragged_keys[at], kinds[0], values, splits, kinds[1])
