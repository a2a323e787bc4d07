"""What a request of the Open Inference Protocol means for the signature that is run."""

import time
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor
from ie_serving.core.values.tensors import DataType, Signature, TensorSpec
from ie_serving.wire.kserve.inputs import check_datatype, sequence_inputs, unique
from tests.tables import named_by


def signature(*inputs: TensorSpec) -> Signature:
    return Signature("serving_default", {each.name: each for each in inputs}, {})


X = TensorSpec("x", DataType.FP32, (-1, 3), "x:0")
ID = TensorSpec("sequence_id", DataType.UINT64, (1,), "id:0", apart=True)
CONTROL = TensorSpec("sequence_control_input", DataType.UINT32, (1,), "control:0", apart=True)
PLAIN = signature(X)
STATEFUL = signature(X, ID, CONTROL)


@pytest.mark.parametrize("dtype", [DataType.FP32, DataType.FP64, DataType.INT64, DataType.BF16])
def test_numbers_whose_values_may_survive_are_taken(dtype: DataType) -> None:
    check_datatype(PLAIN, "x", dtype)


@pytest.mark.parametrize("dtype", [DataType.STRING, DataType.BOOL])
def test_other_types_are_refused_by_naming_both(dtype: DataType) -> None:
    word = "BYTES" if dtype is DataType.STRING else "BOOL"
    said = f'input "x" has datatype {word}; the model expects FP32'
    with pytest.raises(InvalidTensor, match=said):
        check_datatype(PLAIN, "x", dtype)


def test_a_name_that_the_signature_does_not_have_is_left_to_the_data_plane() -> None:
    check_datatype(PLAIN, "y", DataType.STRING)


def test_names_are_there_once() -> None:
    assert unique(iter(["a", "b"]), "input") == ("a", "b")
    with pytest.raises(InvalidRequest, match='input "a" is there more than once'):
        unique(["a", "b", "a"], "input")


def test_to_look_for_a_name_twice_takes_time_in_proportion() -> None:
    """To count each name took the server 19 s of processor time for a body of 2 MB."""
    names = [str(number) for number in range(100_000)]
    began = time.process_time()
    with pytest.raises(InvalidRequest, match='output "99999" is there more than once'):
        unique([*names, names[-1]], "output")
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("parameters", "number", "control"),
    [
        pytest.param({"sequence_id": 7}, 7, 0, id="goes on"),
        pytest.param({"sequence_id": 7, "sequence_start": True}, 7, 1, id="starts"),
        pytest.param({"sequence_start": True}, 0, 1, id="starts, and the server chooses the id"),
        pytest.param({"sequence_id": "7", "sequence_end": True}, 7, 2, id="ends"),
        pytest.param({"sequence_id": (1 << 64) - 1}, (1 << 64) - 1, 0, id="the last id"),
    ],
)
def test_parameters_become_the_inputs_of_a_sequence(
    parameters: dict[str, Any], number: int, control: int
) -> None:
    arrays = sequence_inputs(STATEFUL, parameters, {})
    assert {name: array.tolist() for name, array in arrays.items()} == {
        "sequence_id": [number],
        "sequence_control_input": [control],
    }
    assert arrays["sequence_id"].dtype == np.uint64
    assert arrays["sequence_control_input"].dtype == np.uint32


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"priority": 1},
        {"sequence_id": 0, "sequence_start": False, "sequence_end": False},
        {"sequence_id": ""},
    ],
    ids=str,
)
def test_a_request_of_no_sequence_gets_no_inputs(parameters: dict[str, Any]) -> None:
    assert sequence_inputs(PLAIN, parameters, {}) == {}


@named_by(
    "parameters",
    ("parameters", "said"),
    [
        ({"sequence_id": -1}, "expected a number below"),
        ({"sequence_id": 1 << 64}, "expected a number below"),
        ({"sequence_id": "9" * 5000}, "expected a number below"),
        ({"sequence_id": "speech"}, "expected a number below"),
        ({"sequence_id": 1.5}, "expected a number below"),
        ({"sequence_id": True}, "expected a number below"),
        ({"sequence_id": None}, "expected a number below"),
        ({"sequence_id": [1]}, "expected a number below"),
        ({"sequence_id": 1, "sequence_start": 1}, "expected true or false"),
    ],
)
def test_parameters_that_are_no_sequence_are_refused(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        sequence_inputs(STATEFUL, parameters, {})


def test_a_model_without_state_takes_no_sequence() -> None:
    with pytest.raises(InvalidRequest, match="this one keeps none"):
        sequence_inputs(PLAIN, {"sequence_id": 7}, {})


def test_a_sequence_is_not_given_twice() -> None:
    with pytest.raises(InvalidRequest, match="given twice"):
        sequence_inputs(STATEFUL, {"sequence_id": 7}, {"sequence_id": np.array([7], np.uint64)})
