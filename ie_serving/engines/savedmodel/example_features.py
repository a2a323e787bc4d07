"""Reads the features that a ParseExample parses from its node.

A node that parses Examples; its attributes and constant inputs define the features.

Each version of such an operation has its keys in another place; the outputs have the same names.
"""

from collections.abc import Callable, Iterator, Mapping

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import BY_NUMBER, Array, DataType
from ie_serving.wire.examples.example_spec import (
    Dense,
    ExampleSpec,
    OutputNames,
    ParsedOutput,
    Ragged,
    Sparse,
    is_default,
)
from ie_serving.wire.examples.sequence_examples import DenseList, RaggedList, SequenceSpec
from ie_serving.wire.protobuf.messages import Proto


class ExampleParser:
    """Reads one node.

    Args of the constructor:
        node: ParseExample or ParseSequenceExample in one of its versions.
        value: evaluates the constant input with a number. Raises LoadFailed for another.
    """

    def __init__(self, node: Proto, value: Callable[[int], Array]) -> None:
        self.node = node
        self.value = value

    def types(self, attribute: str) -> list[DataType]:
        """Read an attribute of dtypes. Raises: LoadFailed, for one that the API cannot carry."""
        numbers = self.node.attr[attribute].list.type
        unknown = [number for number in numbers if number not in BY_NUMBER]
        if unknown:
            name = f"{self.node.op} {self.node.name!r}"
            raise LoadFailed(f"{name} has a feature of dtype number {unknown[0]}")
        return [BY_NUMBER[number] for number in numbers]

    def shapes(self, attribute: str) -> list[tuple[int, ...]]:
        """Read an attribute of shapes."""
        shapes = self.node.attr[attribute].list.shape
        return [tuple(dim.size for dim in shape.dim) for shape in shapes]

    def texts(self, attribute: str) -> list[str]:
        """Read an attribute of strings."""
        return [text.decode() for text in self.node.attr[attribute].list.s]

    def keys(self, number: int) -> list[str]:
        """Read an input of strings, by its number."""
        return [key.decode() for key in self.value(number).ravel()]


EXAMPLE_PARSERS = frozenset({"ParseExample", "ParseExampleV2", "ParseSingleExample"})


class ExampleFeatures(ExampleParser):
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
        # The node has the indices of all features, then the values, then the shapes.
        for at, _ in enumerate(self.sparse_types):
            yield ParsedOutput("sparse_indices", at, DataType.INT64.number, (-1, rank))
        for at, dtype in enumerate(self.sparse_types):
            yield ParsedOutput("sparse_values", at, dtype.number, (-1,))
        for at, _ in enumerate(self.sparse_types):
            yield ParsedOutput("sparse_shapes", at, DataType.INT64.number, (rank,))

    def spec(self, scalar: bool, names: OutputNames) -> ExampleSpec:
        """Give the specification, with tensor names by output; "" for unused outputs.

        An unused dense feature is parsed as well, since TensorFlow refuses an Example without it.
        """
        return ExampleSpec(
            scalar,
            tuple(self._dense(at, names) for at in range(len(self.dense_keys))),
            tuple(self._sparse(at, names) for at in range(len(self.sparse_keys))),
            tuple(self._ragged(at, names) for at in range(len(self.ragged_keys))),
        )

    def _dense(self, at: int, names: OutputNames) -> Dense:
        default, shape = self.defaults[at], self.dense_shapes[at]
        return Dense(
            self.dense_keys[at],
            self.dense_types[at],
            shape,
            default if is_default(default, shape) else None,
            names.get(("dense_values", at), ""),
        )

    def _sparse(self, at: int, names: OutputNames) -> Sparse:
        groups = ("sparse_indices", "sparse_values", "sparse_shapes")
        indices, values, shapes = (names.get((group, at), "") for group in groups)
        return Sparse(self.sparse_keys[at], self.sparse_types[at], indices, values, shapes)

    def _ragged(self, at: int, names: OutputNames) -> Ragged:
        values, splits = (
            names.get((group, at), "") for group in ("ragged_values", "ragged_row_splits")
        )
        kinds = self.ragged_types[at], self.split_types[at]
        return Ragged(self.ragged_keys[at], kinds[0], values, splits, kinds[1])


SEQUENCE_PARSERS = frozenset(
    {"ParseSequenceExample", "ParseSequenceExampleV2", "ParseSingleSequenceExample"}
)

KEYS = (
    "context_sparse_keys",
    "context_dense_keys",
    "context_ragged_keys",
    "feature_list_sparse_keys",
    "feature_list_dense_keys",
    "feature_list_ragged_keys",
)
"""In the order of the inputs of V2, the third to the eighth."""

TYPES = {
    "context_sparse": "context_sparse_types",
    "context_dense": "Tcontext_dense",
    "context_ragged": "context_ragged_value_types",
    "feature_list_sparse": "feature_list_sparse_types",
    "feature_list_dense": "feature_list_dense_types",
    "feature_list_ragged": "feature_list_ragged_value_types",
}
"""The attribute with the dtypes of each kind of feature."""

_INT64 = DataType.INT64.number


class SequenceFeatures(ExampleParser):
    """Reads one node."""

    def __init__(self, node: Proto, value: Callable[[int], Array]) -> None:
        super().__init__(node, value)
        self._keys = self._read_keys()
        self._types = {kind: self.types(attribute) for kind, attribute in TYPES.items()}
        self._defaults = self._read_defaults()
        self._may_be_missing = self._read_may_be_missing()

    def _read_keys(self) -> Mapping[str, list[str]]:
        node = self.node
        if node.op == "ParseSequenceExampleV2":
            return {name: self.keys(2 + i) for i, name in enumerate(KEYS)}
        if node.op == "ParseSequenceExample":
            return {name: self.texts(name) for name in KEYS}
        counts = (
            "Ncontext_sparse",
            "Ncontext_dense",
            "Nfeature_list_sparse",
            "Nfeature_list_dense",
        )
        names = [name for name in KEYS if "ragged" not in name]
        keys: dict[str, list[str]] = {name: [] for name in KEYS}
        at = 2  # after the Example and the lists that may be missing
        for name, count in zip(names, counts, strict=True):
            keys[name] = [self.keys(at + i)[0] for i in range(node.attr[count].i)]
            at += node.attr[count].i
        return keys

    def _read_defaults(self) -> list[Array]:
        first = {"ParseSequenceExample": 2, "ParseSequenceExampleV2": 9}.get(self.node.op)
        if first is None:
            first = 2 + sum(map(len, self._keys.values()))
        return [self.value(first + i) for i in range(len(self._types["context_dense"]))]

    def _read_may_be_missing(self) -> list[bool]:
        """Tell, for each dense list, whether a SequenceExample may lack it."""
        keys = self._keys["feature_list_dense_keys"]
        if self.node.op == "ParseSequenceExampleV2":
            return [bool(flag) for flag in self.value(8).ravel()] or [False] * len(keys)
        if self.node.op == "ParseSequenceExample":
            named = self.texts("feature_list_dense_missing_assumed_empty")
            return [key in named for key in keys]
        empty = self.keys(1)
        return [key in empty for key in keys]

    def outputs(self, scalar: bool) -> Iterator[ParsedOutput]:
        """List the node's outputs in order."""
        batch = () if scalar else (-1,)
        yield from self._sparse_outputs("context_sparse", 1 + len(batch))
        yield from self._dense_outputs("context", batch, "context_dense_shapes")
        if self.node.op == "ParseSequenceExampleV2":
            yield from self._ragged_outputs("context_ragged", ("values", "row_splits"))
        yield from self._sparse_outputs("feature_list_sparse", 2 + len(batch))
        yield from self._dense_outputs("feature_list", (*batch, -1), "feature_list_dense_shapes")
        if self.node.op != "ParseSingleSequenceExample":
            for at, _ in enumerate(self._types["feature_list_dense"]):
                yield ParsedOutput("feature_list_dense_lengths", at, _INT64, batch)
        if self.node.op == "ParseSequenceExampleV2":
            parts = ("values", "outer_splits", "inner_splits")
            yield from self._ragged_outputs("feature_list_ragged", parts)

    def _sparse_outputs(self, group: str, rank: int) -> Iterator[ParsedOutput]:
        for at, _ in enumerate(self._types[group]):
            yield ParsedOutput(f"{group}_indices", at, _INT64, (-1, rank))
        for at, dtype in enumerate(self._types[group]):
            yield ParsedOutput(f"{group}_values", at, dtype.number, (-1,))
        for at, _ in enumerate(self._types[group]):
            yield ParsedOutput(f"{group}_shapes", at, _INT64, (rank,))

    def _dense_outputs(
        self, side: str, before: tuple[int, ...], shapes: str
    ) -> Iterator[ParsedOutput]:
        group = f"{side}_dense"
        for at, shape in enumerate(self.shapes(shapes)):
            dtype = self._types[group][at]
            yield ParsedOutput(f"{group}_values", at, dtype.number, (*before, *shape))

    def _ragged_outputs(self, group: str, parts: tuple[str, ...]) -> Iterator[ParsedOutput]:
        splits = self.types(f"{group}_split_types")
        for part in parts:
            for at, dtype in enumerate(self._types[group]):
                number = dtype.number if part == "values" else splits[at].number
                yield ParsedOutput(f"{group}_{part}", at, number, (-1,))

    def spec(self, scalar: bool, names: OutputNames) -> SequenceSpec:
        """Give the specification, with tensor names by output; "" for unused outputs."""
        context = ExampleSpec(
            scalar,
            tuple(self._dense(names)),
            tuple(self._sparse("context_sparse", names)),
            tuple(self._ragged(names)),
        )
        return SequenceSpec(
            context,
            tuple(self._dense_lists(names)),
            tuple(self._sparse("feature_list_sparse", names)),
            tuple(self._ragged_lists(names)),
        )

    def _dense(self, names: OutputNames) -> Iterator[Dense]:
        shapes, types = self.shapes("context_dense_shapes"), self._types["context_dense"]
        for at, key in enumerate(self._keys["context_dense_keys"]):
            given, shape = self._defaults[at], shapes[at]
            default = given if is_default(given, shape) else None
            yield Dense(key, types[at], shape, default, names.get(("context_dense_values", at), ""))

    def _sparse(self, group: str, names: OutputNames) -> Iterator[Sparse]:
        for at, key in enumerate(self._keys[f"{group}_keys"]):
            parts = [names.get((f"{group}_{part}", at), "") for part in _SPARSE_PARTS]
            yield Sparse(key, self._types[group][at], *parts)

    def _ragged(self, names: OutputNames) -> Iterator[Ragged]:
        splits = self.types("context_ragged_split_types")
        for at, key in enumerate(self._keys["context_ragged_keys"]):
            values, rows = (
                names.get((f"context_ragged_{part}", at), "") for part in ("values", "row_splits")
            )
            yield Ragged(key, self._types["context_ragged"][at], values, rows, splits[at])

    def _dense_lists(self, names: OutputNames) -> Iterator[DenseList]:
        shapes = self.shapes("feature_list_dense_shapes")
        for at, key in enumerate(self._keys["feature_list_dense_keys"]):
            yield DenseList(
                key,
                self._types["feature_list_dense"][at],
                shapes[at],
                None,
                names.get(("feature_list_dense_values", at), ""),
                names.get(("feature_list_dense_lengths", at), ""),
                self._may_be_missing[at],
            )

    def _ragged_lists(self, names: OutputNames) -> Iterator[RaggedList]:
        splits = self.types("feature_list_ragged_split_types")
        for at, key in enumerate(self._keys["feature_list_ragged_keys"]):
            values, outer, inner = (
                names.get((f"feature_list_ragged_{part}", at), "")
                for part in ("values", "outer_splits", "inner_splits")
            )
            dtype = self._types["feature_list_ragged"][at]
            yield RaggedList(key, dtype, values, outer, splits[at], inner)


_SPARSE_PARTS = ("indices", "values", "shapes")
