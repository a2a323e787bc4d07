"""Which changes of a signature a client of the version before would notice."""

from dataclasses import replace

import pytest

from ie_serving.core.values.breaking_changes import breaking_changes, summary
from ie_serving.core.values.tensors import DataType, Signature, TensorSpec


def spec(name: str, shape: tuple[int, ...] | None, dtype: DataType = DataType.FP32) -> TensorSpec:
    return TensorSpec(name, dtype, shape, name)


I32 = DataType.INT32


def signature(inputs: list[TensorSpec], outputs: list[TensorSpec]) -> Signature:
    return Signature("s", {s.name: s for s in inputs}, {s.name: s for s in outputs})


BEFORE = signature([spec("x", (-1, 4))], [spec("y", (-1, 2)), spec("z", (3,))])
X, Y, Z = BEFORE.inputs["x"], BEFORE.outputs["y"], BEFORE.outputs["z"]

CHANGES = [
    pytest.param([X], [Y, Z], "", id="nothing"),
    pytest.param([replace(X, shape=(-1, -1))], [Y, Z], "", id="an open size"),
    pytest.param([replace(X, shape=None)], [Y, Z], "", id="any rank"),
    pytest.param(
        [
            X,
            spec("more", (1,)),
        ],
        [Y, Z],
        'input "more" float (1) is new, and has to be given',
        id="a new input",
    ),
    pytest.param(
        [X, replace(spec("more", (1,)), optional=True)], [Y, Z], "", id="a new optional input"
    ),
    pytest.param([X], [Y, Z, spec("more", (1,))], "", id="a new output"),
    pytest.param([X], [Y, replace(Z, shape=(5,))], "", id="a fixed output"),
    pytest.param([spec("w", (-1, 4))], [Y, Z], 'input "x" is gone', id="another name"),
    pytest.param([X], [Z], 'output "y" is gone', id="one output fewer"),
    pytest.param(
        [replace(X, dtype=I32)],
        [Y, Z],
        'input "x" float (-1, 4) is now "x" int32 (-1, 4)',
        id="another dtype of an input",
    ),
    pytest.param(
        [X],
        [replace(Y, dtype=DataType.FP16), Z],
        'output "y" float (-1, 2) is now "y" half (-1, 2)',
        id="another dtype of an output",
    ),
    pytest.param(
        [replace(X, shape=(-1, 5))],
        [Y, Z],
        'input "x" float (-1, 4) is now "x" float (-1, 5)',
        id="another size",
    ),
    pytest.param(
        [replace(X, shape=(1, 4))],
        [Y, Z],
        'input "x" float (-1, 4) is now "x" float (1, 4)',
        id="a fixed batch",
    ),
    pytest.param(
        [replace(X, shape=(4,))],
        [Y, Z],
        'input "x" float (-1, 4) is now "x" float (4)',
        id="one dimension fewer",
    ),
    pytest.param(
        [X],
        [replace(Y, shape=(2,)), Z],
        'output "y" float (-1, 2) is now "y" float (2)',
        id="one dimension of an output fewer",
    ),
]


@pytest.mark.parametrize(("inputs", "outputs", "text"), CHANGES)
def test_a_change_that_breaks_clients_is_told(
    inputs: list[TensorSpec], outputs: list[TensorSpec], text: str
) -> None:
    found = list(breaking_changes({"s": BEFORE}, {"s": signature(inputs, outputs)}))
    assert found[:1] == ([f'signature "s": {text}'] if text else [])


def test_a_signature_that_is_gone_is_a_breaking_change() -> None:
    left_out = replace(BEFORE, left_out="no engine has it")
    assert list(breaking_changes({"s": BEFORE}, {})) == ['signature "s" is gone']
    assert list(breaking_changes({"s": BEFORE}, {"s": left_out})) == ['signature "s" is gone']
    assert list(breaking_changes({"s": left_out}, {})) == []
    assert list(breaking_changes({}, {"s": BEFORE})) == []


def test_a_summary_names_three_changes_and_counts_the_others() -> None:
    before = {str(number): BEFORE for number in range(5)}
    first = "; ".join(f'signature "{number}" is gone' for number in range(3))
    assert summary(before, {}) == f"{first}, and 2 more"
    assert summary(before, before) == ""
