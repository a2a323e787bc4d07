"""Examples that are alike give what each of them gives alone; others are left to the other ways."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.requests import Features
from ie_serving.core.values.tensors import DataType
from ie_serving.wire.examples import serialized_examples as examples
from ie_serving.wire.examples.example_spec import ExampleSpec, RaggedFeature
from ie_serving.wire.examples.serialized_examples import parse
from ie_serving.wire.examples.uniform_examples import read_alike
from ie_serving.wire.protobuf.fields import UnusualField
from ie_serving.wire.tfs.classify_regress import serialize_examples

INTEGER, FLOAT, STRING = DataType.INT64, DataType.FP32, DataType.STRING
LONG_NAME = "a longer name" * 12
SPEC = ExampleSpec(
    ragged=[
        RaggedFeature("n", INTEGER, "n", "n splits", INTEGER),
        RaggedFeature("f", FLOAT, "f", "f splits", INTEGER),
        RaggedFeature(LONG_NAME, STRING, "t", "t splits", INTEGER),
        RaggedFeature("absent", FLOAT, "x", "x splits", INTEGER),
    ]
)
WIDE = st.integers(1 << 62, (1 << 63) - 1)
ALIKE = st.fixed_dictionaries(
    {
        "n": st.lists(WIDE, min_size=1, max_size=4),
        "f": st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=4),
        LONG_NAME: st.lists(st.binary(max_size=9), min_size=1, max_size=3),
        "not read": st.just([1]),
    }
)
ROWS = serialize_examples([{"n": [1, 300], "f": [1.0]}, {"n": [2], "f": [2.0, 3.0]}])


@given(st.lists(ALIKE, min_size=1, max_size=6))
def test_the_values_are_those_that_protobuf_reads(rows: list[Features]) -> None:
    rows = [dict(sorted(row.items())) for row in rows]
    serialized = serialize_examples(rows)
    columns = read_alike(SPEC.features, serialized)
    alone = [parse(SPEC, [data]) for data in serialized]
    for each in SPEC.ragged:
        column = columns[each.key]
        assert column.values.tolist() == [v for one in alone for v in one[each.values].tolist()]
        assert column.lengths.tolist() == [len(one[each.values]) for one in alone]
        assert column.values.dtype == each.dtype.numpy


@pytest.mark.parametrize("size", [1, 127, 128, 300, 20_000])
def test_lengths_of_several_bytes_are_read(size: int) -> None:
    values = [[i + at / 7 for at in range(size)] for i in range(3)]
    columns = read_alike(SPEC.features, serialize_examples([{"f": each} for each in values]))
    assert columns["f"].values.tolist() == np.array(values, np.float32).ravel().tolist()


@pytest.mark.parametrize(
    "row",
    [{"f": [1.0]}, {"f": [1.0], "n": [1], "x": [2]}, {"n": [1.0], "f": [1.0]}, {}, {"n": []}],
    ids=["missing", "more", "another kind", "nothing", "empty"],
)
def test_examples_that_are_not_alike_are_left_to_the_other_ways(row: Features) -> None:
    with pytest.raises(UnusualField):
        read_alike(SPEC.features, [*ROWS, *serialize_examples([row])])


def test_a_cut_example_is_left_to_protobuf() -> None:
    for cut in range(len(ROWS[0])):
        for rows in ([ROWS[0], ROWS[0][:cut]], [ROWS[0][:cut], ROWS[0]]):
            with pytest.raises(UnusualField):
                read_alike(SPEC.features, rows)


@given(st.integers(0, len(ROWS[0]) - 1), st.integers(0, 255))
def test_an_example_with_another_byte_is_left_or_read_as_protobuf_reads_it(
    place: int, byte: int
) -> None:
    changed = bytearray(ROWS[0])
    changed[place] = byte
    try:
        columns = read_alike(SPEC.features, [ROWS[0], bytes(changed)])
    except UnusualField:
        return
    alone = parse(SPEC, [bytes(changed)])
    assert columns["n"].values.tolist()[2:] == alone["n"].tolist()
    assert columns["f"].values.tolist()[1:] == alone["f"].tolist()


def test_a_key_that_two_features_read_as_different_kinds_is_left_to_protobuf() -> None:
    features = [*SPEC.features, RaggedFeature("n", FLOAT, "m", "m splits", INTEGER)]
    with pytest.raises(UnusualField):
        read_alike(features, ROWS)


def test_blocks_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    together = parse(SPEC, ROWS * examples.ALIKE)
    monkeypatch.setattr(examples, "BLOCK", 7)
    in_blocks = parse(SPEC, ROWS * examples.ALIKE)
    assert {name: each.tolist() for name, each in in_blocks.items()} == {
        name: each.tolist() for name, each in together.items()
    }


def test_no_example_has_more_copied_than_it_has() -> None:
    """Each of 900 announced the 400,000 bytes that only the last one has: 375 MB were copied."""
    size, whole = 400_000, serialize_examples([{"f": [0.5] * 100_000}])[0]
    head = whole[4 : len(whole) - size]  # behind the length of all features, of three bytes
    short = bytes([whole[0], len(head) | 0x80, 0x80, 0]) + head
    tracemalloc.start()
    try:
        with pytest.raises(UnusualField):
            read_alike(SPEC.features, [short] * 900 + [whole])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * size
