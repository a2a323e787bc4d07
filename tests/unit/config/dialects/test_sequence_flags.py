"""The settings of models that keep state, as flags."""

import pytest

from ie_serving.engines.layer_options import Sequences
from tests.tables import named_by
from tests.unit.config.dialects.test_ie_serving import ONE, faults, settings

STATEFUL = ("--stateful", "--max_sequence_number", "7", "--idle_sequence_cleanup=false")


@named_by(
    "given",
    ("given", "fault"),
    [
        (("--max_sequence_number", "7"), "--max_sequence_number: it has a meaning for a stateful"),
        (("--low_latency_transformation",), "--low_latency_transformation: it has a meaning for"),
        ((*STATEFUL, "--max_batch_size", "4"), "--max_batch_size: requests of a stateful model"),
        (
            (*STATEFUL, "--allowed_batch_sizes", "[4]"),
            "--allowed_batch_sizes: requests of a stateful model",
        ),
        ((*STATEFUL, "--shape", "auto"), "--shape: auto is not taken for a stateful model"),
        ((*STATEFUL, "--batch_size", "auto"), "--batch_size: auto is not taken for a stateful"),
        ((*STATEFUL, "--max_sequence_number", "-1"), "--max_sequence_number: '-1' given"),
    ],
)
def test_a_setting_that_cannot_be_beside_sequences_is_a_fault(
    given: tuple[str, ...], fault: str
) -> None:
    (found,) = faults(*ONE, *given)
    assert found.startswith(fault)


@pytest.mark.parametrize("given", [(), ("--low_latency_transformation=false", "--shape", "auto")])
def test_without_stateful_nothing_is_kept(given: tuple[str, ...]) -> None:
    assert settings(*ONE, *given).models[0].engine.of(Sequences) == Sequences()
