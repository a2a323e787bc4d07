"""Reads the features that a ParseExample parses from its node.

The node's attributes and constant inputs define the features. Each version of such an operation has
its keys in another place; the outputs have the same names.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import BY_NUMBER, Array, DataType
from ie_serving.wire.examples.example_spec import (
    DenseFeature,
    ExampleSpec,
    OutputNames,
    ParsedOutput,
    RaggedFeature,
    SparseFeature,
    is_default,
)
from ie_serving.wire.examples.sequence_examples import DenseList, RaggedList, SequenceSpec
from ie_serving.wire.protobuf.messages import Proto

EXAMPLE_PARSERS = frozenset({"ParseExample", "ParseExampleV2", "ParseSingleExample"})
SEQUENCE_PARSERS = frozenset(
    {"ParseSequenceExample", "ParseSequenceExampleV2", "ParseSingleSequenceExample"}
)
_INT64 = DataType.INT64.number
_SPARSE_PARTS = ("indices", "values", "shapes")


class ExampleParser(ABC):
    """Reads one node, whose features are in groups, such as those of `context_sparse`.

    Args of the constructor:
        node: ParseExample or ParseSequenceExample in one of its versions.
        value: evaluates the constant input with a number. Raises LoadFailed for another.
    """

    types: ClassVar[Mapping[str, str]]
    """The attribute with the dtypes of each group."""

    def __init__(self, node: Proto, value: Callable[[int], Array]) -> None:
        self.node = node
        self.value = value
        self._types = {group: self._dtypes(attribute) for group, attribute in self.types.items()}
        self._keys, first_default = self._read_keys()
        dense = next(len(types) for group, types in self._types.items() if group.endswith("dense"))
        self._defaults = [value(first_default + at) for at in range(dense)]

    @abstractmethod
    def _read_keys(self) -> tuple[Mapping[str, list[str]], int]:
        """Give the keys of each group, and the number of the first default of dense features."""

    def _dtypes(self, attribute: str) -> list[DataType]:
        """Read an attribute of dtypes. Raises: LoadFailed, for one that the API cannot carry."""
        numbers = self.node.attr[attribute].list.type
        unknown = [number for number in numbers if number not in BY_NUMBER]
        if unknown:
            name = f"{self.node.op} {self.node.name!r}"
            raise LoadFailed(
                f"{name} has a feature of dtype number {unknown[0]}:"
                " export it as float32, int64 or string"
            )
        return [BY_NUMBER[number] for number in numbers]

    def _shapes(self, group: str) -> list[tuple[int, ...]]:
        shapes = self.node.attr[f"{group}_shapes"].list.shape
        return [tuple(dim.size for dim in shape.dim) for shape in shapes]

    def _texts(self, attribute: str) -> list[str]:
        return [text.decode() for text in self.node.attr[attribute].list.s]

    def _input(self, number: int) -> list[str]:
        """Read an input of strings, by its number."""
        return [key.decode() for key in self.value(number).ravel()]

    def _one_each(self, first: int, counts: Mapping[str, int]) -> dict[str, list[str]]:
        """Read the keys of groups of so many features, where each has an input for its key."""
        numbers = itertools.count(first)
        return {
            group: [self._input(next(numbers))[0] for _ in range(counts.get(group, 0))]
            for group in self.types
        }

    def _outputs(self, side: str, batch: tuple[int, ...]) -> Iterator[ParsedOutput]:
        yield from self._sparse_outputs(f"{side}sparse", 1 + len(batch))
        yield from self._dense_outputs(f"{side}dense", batch)
        yield from self._ragged_outputs(f"{side}ragged", ("values", "row_splits"))

    def _sparse_outputs(self, group: str, rank: int) -> Iterator[ParsedOutput]:
        # The node has the indices of all features, then the values, then the shapes.
        for at, _ in enumerate(self._types[group]):
            yield ParsedOutput(f"{group}_indices", at, _INT64, (-1, rank))
        for at, dtype in enumerate(self._types[group]):
            yield ParsedOutput(f"{group}_values", at, dtype.number, (-1,))
        for at, _ in enumerate(self._types[group]):
            yield ParsedOutput(f"{group}_shapes", at, _INT64, (rank,))

    def _dense_outputs(self, group: str, before: tuple[int, ...]) -> Iterator[ParsedOutput]:
        for at, shape in enumerate(self._shapes(group)):
            dtype = self._types[group][at]
            yield ParsedOutput(f"{group}_values", at, dtype.number, (*before, *shape))

    def _ragged_outputs(self, group: str, parts: tuple[str, ...]) -> Iterator[ParsedOutput]:
        splits = self._dtypes(f"{group}_split_types")
        for part in parts:
            for at, dtype in enumerate(self._types[group]):
                number = dtype.number if part == "values" else splits[at].number
                yield ParsedOutput(f"{group}_{part}", at, number, (-1,))

    def _spec(self, side: str, scalar: bool, names: OutputNames) -> ExampleSpec:
        return ExampleSpec(
            scalar,
            tuple(self._dense(f"{side}dense", names)),
            tuple(self._sparse(f"{side}sparse", names)),
            tuple(self._ragged(f"{side}ragged", names)),
        )

    def _dense(self, group: str, names: OutputNames) -> Iterator[DenseFeature]:
        shapes, types = self._shapes(group), self._types[group]
        for at, key in enumerate(self._keys[group]):
            given, shape = self._defaults[at], shapes[at]
            default = given if is_default(given, shape) else None
            yield DenseFeature(
                key, types[at], shape, default, names.get((f"{group}_values", at), "")
            )

    def _sparse(self, group: str, names: OutputNames) -> Iterator[SparseFeature]:
        for at, key in enumerate(self._keys[group]):
            parts = [names.get((f"{group}_{part}", at), "") for part in _SPARSE_PARTS]
            yield SparseFeature(key, self._types[group][at], *parts)

    def _ragged(self, group: str, names: OutputNames) -> Iterator[RaggedFeature]:
        splits = self._dtypes(f"{group}_split_types")
        for at, key in enumerate(self._keys[group]):
            values, rows = (
                names.get((f"{group}_{part}", at), "") for part in ("values", "row_splits")
            )
            yield RaggedFeature(key, self._types[group][at], values, rows, splits[at])


class ExampleFeatures(ExampleParser):
    """Reads one node."""

    types: ClassVar[Mapping[str, str]] = {
        "sparse": "sparse_types",
        "dense": "Tdense",
        "ragged": "ragged_value_types",
    }

    def _read_keys(self) -> tuple[Mapping[str, list[str]], int]:
        # Inputs 0 and 1 are the Examples and their names. In ParseExample an input for each key
        # follows, in V2 one for all keys of a kind; ParseSingleExample has its keys as attributes.
        # The defaults of dense features come last.
        if self.node.op == "ParseSingleExample":
            return {group: self._texts(f"{group}_keys") for group in self.types}, 1
        if self.node.op == "ParseExampleV2":
            return {group: self._input(2 + at) for at, group in enumerate(self.types)}, 5
        counts = {group: len(types) for group, types in self._types.items()}
        return self._one_each(2, counts), 2 + sum(counts.values())

    def outputs(self, scalar: bool) -> Iterator[ParsedOutput]:
        """List the node's outputs in order, for one Example or as many as a batch has."""
        return self._outputs("", () if scalar else (-1,))

    def spec(self, scalar: bool, names: OutputNames) -> ExampleSpec:
        """Give the specification, with tensor names by output; "" for unused outputs.

        An unused dense feature is parsed as well, since TensorFlow refuses an Example without it.
        """
        return self._spec("", scalar, names)


class SequenceFeatures(ExampleParser):
    """Reads one node."""

    # In the order of the inputs of V2, the third to the eighth.
    types: ClassVar[Mapping[str, str]] = {
        "context_sparse": "context_sparse_types",
        "context_dense": "Tcontext_dense",
        "context_ragged": "context_ragged_value_types",
        "feature_list_sparse": "feature_list_sparse_types",
        "feature_list_dense": "feature_list_dense_types",
        "feature_list_ragged": "feature_list_ragged_value_types",
    }

    def _read_keys(self) -> tuple[Mapping[str, list[str]], int]:
        node = self.node
        if node.op == "ParseSequenceExampleV2":
            return {group: self._input(2 + at) for at, group in enumerate(self.types)}, 9
        if node.op == "ParseSequenceExample":
            return {group: self._texts(f"{group}_keys") for group in self.types}, 2
        # After the Example and the lists that may be missing; it has no ragged features.
        counts = {group: node.attr[f"N{group}"].i for group in self.types if "ragged" not in group}
        return self._one_each(2, counts), 2 + sum(counts.values())

    def _may_be_missing(self) -> list[bool]:
        """Tell, for each dense list, whether a SequenceExample may lack it."""
        keys = self._keys["feature_list_dense"]
        if self.node.op == "ParseSequenceExampleV2":
            return [bool(flag) for flag in self.value(8).ravel()] or [False] * len(keys)
        if self.node.op == "ParseSequenceExample":
            named = self._texts("feature_list_dense_missing_assumed_empty")
            return [key in named for key in keys]
        empty = self._input(1)
        return [key in empty for key in keys]

    def outputs(self, scalar: bool) -> Iterator[ParsedOutput]:
        """List the node's outputs in order, for one Example or as many as a batch has."""
        batch = () if scalar else (-1,)
        yield from self._outputs("context_", batch)
        yield from self._sparse_outputs("feature_list_sparse", 2 + len(batch))
        yield from self._dense_outputs("feature_list_dense", (*batch, -1))
        if self.node.op != "ParseSingleSequenceExample":
            for at, _ in enumerate(self._types["feature_list_dense"]):
                yield ParsedOutput("feature_list_dense_lengths", at, _INT64, batch)
        parts = ("values", "outer_splits", "inner_splits")
        yield from self._ragged_outputs("feature_list_ragged", parts)

    def spec(self, scalar: bool, names: OutputNames) -> SequenceSpec:
        """Give the specification, with tensor names by output; "" for unused outputs."""
        return SequenceSpec(
            self._spec("context_", scalar, names),
            tuple(self._dense_lists(names)),
            tuple(self._sparse("feature_list_sparse", names)),
            tuple(self._ragged_lists(names)),
        )

    def _dense_lists(self, names: OutputNames) -> Iterator[DenseList]:
        shapes = self._shapes("feature_list_dense")
        may_be_missing = self._may_be_missing()
        for at, key in enumerate(self._keys["feature_list_dense"]):
            yield DenseList(
                key,
                self._types["feature_list_dense"][at],
                shapes[at],
                None,
                names.get(("feature_list_dense_values", at), ""),
                names.get(("feature_list_dense_lengths", at), ""),
                may_be_missing[at],
            )

    def _ragged_lists(self, names: OutputNames) -> Iterator[RaggedList]:
        splits = self._dtypes("feature_list_ragged_split_types")
        for at, key in enumerate(self._keys["feature_list_ragged"]):
            values, outer, inner = (
                names.get((f"feature_list_ragged_{part}", at), "")
                for part in ("values", "outer_splits", "inner_splits")
            )
            dtype = self._types["feature_list_ragged"][at]
            yield RaggedList(key, dtype, values, outer, splits[at], inner)
