"""What OpenVINO raises for a request, in words that its client can use."""

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.error_texts import SHOWN, in_words, load_failures
from ie_serving.engines.openvino.runtime import core

ONE_STREAM = {"NUM_STREAMS": "1"}


def refusal(model: ov.Model, *shapes: tuple[int, ...]) -> RuntimeError:
    with pytest.raises(RuntimeError) as raised:
        model.reshape(dict(zip(model.inputs, map(ov.PartialShape, map(list, shapes)), strict=True)))
    return raised.value


def test_shapes_that_do_not_fit_together_are_named_before_the_text_of_openvino() -> None:
    given = op.parameter([-1], ov.Type.i32)
    model = ov.Model([op.add(given, op.constant(np.zeros(21, np.int32)))], [given])
    text = in_words(refusal(model, (4,)))
    assert text.startswith("shapes [4] and [21] do not fit together in Add (OpenVINO: While ")
    assert len(text) < SHOWN + 70


def test_matrices_that_do_not_fit_together() -> None:
    a, b = op.parameter([-1, -1]), op.parameter([-1, -1])
    text = in_words(refusal(ov.Model([op.matmul(a, b, False, False)], [a, b]), (4, 3), (4, 3)))
    assert text.startswith("shapes [4,3] and [4,3] do not fit together in MatMul (OpenVINO: ")


def test_a_negative_size_is_called_one() -> None:
    sizes = op.parameter([2], ov.Type.i32)
    model = ov.Model([op.broadcast(op.constant(np.float32(1)), sizes)], [sizes])
    compiled = core().compile_model(model, "CPU")
    with pytest.raises(RuntimeError) as raised:
        compiled([np.array([-1, -1], np.int32)])
    text = in_words(raised.value)
    assert text.startswith("-1 is no size: a dimension must be 0 or more (OpenVINO: [CPU] ")


def test_more_than_there_is_is_called_so() -> None:
    x = op.parameter([-1], np.float32)
    most = op.topk(op.relu(x), op.constant(np.int64(3)), 0, "max", "value")
    compiled = core().compile_model(ov.Model([op.result(most.output(0))], [x]), "CPU", ONE_STREAM)
    with pytest.raises(RuntimeError) as raised:
        compiled([np.array([1, 2], np.float32)])
    text = in_words(raised.value)
    assert text.startswith("TopK is asked for the first 3 of 2 (OpenVINO: [CPU] ")


def test_an_unknown_error_is_no_more_than_quoted() -> None:
    text = in_words(RuntimeError("out of memory"))
    assert text == (
        "the model cannot be computed with these shapes or values (OpenVINO: out of memory)"
    )


@pytest.mark.parametrize("name", ["util::SequenceMark", "CumProd-26", "ai.own.Add, CumProd-26"])
def test_operations_that_are_lacking_are_named_in_whole(name: str) -> None:
    begins = f"it fails: OpenVINO has no {name}: export the model without it, or"
    with pytest.raises(LoadFailed, match=f"^{begins}"), load_failures("it fails"):
        raise RuntimeError(
            f"No conversion rule found for operations: {name}\n-- Conversion is failed"
        )
