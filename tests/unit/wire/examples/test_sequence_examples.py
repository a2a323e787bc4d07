"""What SequenceExamples may ask for. What they become: `test_cut_examples.py`."""

import pytest

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import RequestTooLarge
from ie_serving.core.values.tensors import DataType
from ie_serving.wire.examples.example_spec import ExampleSpec
from ie_serving.wire.examples.sequence_examples import DenseList, SequenceSpec, parse_sequences
from ie_serving.wire.protobuf import graph

STEPS, WIDTH, EMPTY = 1000, 4, 20


def test_padding_stays_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `test_examples.py`: one long list among many SequenceExamples of two bytes."""
    long = graph.SequenceExample()
    for _ in range(STEPS):
        step = long.feature_lists.feature_list["l"].feature.add()
        step.float_list.value.extend([1.0] * WIDTH)
    rows = [long.SerializeToString(), *[b""] * EMPTY]
    dense = DenseList("l", DataType.FP32, (WIDTH,), None, "t", "lengths", may_be_missing=True)
    spec = SequenceSpec(ExampleSpec(), dense=[dense])
    size = (EMPTY + 1) * STEPS * WIDTH * 4
    monkeypatch.setattr(BUDGET, "limit", BUDGET.held + size)
    tensors = parse_sequences(spec, rows)
    assert tensors["t"].shape == (EMPTY + 1, STEPS, WIDTH)
    assert tensors["t"].sum() == STEPS * WIDTH
    del tensors
    monkeypatch.setattr(BUDGET, "limit", BUDGET.held + size - 1)
    with pytest.raises(RequestTooLarge, match="send Examples of like lengths together"):
        parse_sequences(spec, rows)
