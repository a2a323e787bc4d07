"""When the answers of two engines count as the same."""

from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.tensors import Array
from ie_serving.engines.generated_requests import ValueKind
from ie_serving.engines.verification.verdict import (
    QUANTIZED,
    Compare,
    Fail,
    Findings,
    Replace,
    Serve,
    choose,
    choose_uncompared,
    differences,
    may_be_sooner,
)

FINITE, SECOND, REFERENCE = ValueKind.FINITE, "onnxruntime", "onnxruntime 1.0"
DIFFER = "OpenVINO and onnxruntime 1.0 differ: "
NEITHER = "neither engine can serve it, export it anew"


@pytest.mark.parametrize(
    ("told", "choice"),
    [
        pytest.param({}, Serve(), id="both answer the same"),
        pytest.param({"differs": {FINITE: "y is 1"}}, Replace(f"{DIFFER}y is 1"), id="they differ"),
        pytest.param({"differs": {ValueKind.NAN: "y is 1"}}, Serve(), id="they differ at NaN"),
        pytest.param({"crashed": {FINITE: "OpenVINO a"}}, Replace(f"{DIFFER}OpenVINO a"), id="one"),
        pytest.param({"crashed": {FINITE: "onnxruntime b"}}, Serve(), id="the second crashed"),
        pytest.param(
            {"crashed": {FINITE: "OpenVINO a; onnxruntime b"}},
            Fail(f"{DIFFER}OpenVINO a; onnxruntime b; and OpenVINO a; onnxruntime b: {NEITHER}"),
            id="both crashed",
        ),
        pytest.param(
            {"differs": {FINITE: "y is 1"}, "crashed": {FINITE: "onnxruntime b"}},
            Fail(f"{DIFFER}y is 1; and onnxruntime b: {NEITHER}"),
            id="they differ, and the second crashed",
        ),
        pytest.param({"asked": 0, "refused": "no"}, Replace(f"{DIFFER}no"), id="OpenVINO refuses"),
        pytest.param({"refused": "no"}, Serve(), id="OpenVINO refuses some"),
    ],
)
def test_the_findings_decide_which_engine_serves(
    told: dict[str, Any], choice: Serve | Replace | Fail
) -> None:
    found = Findings(**{"reference": REFERENCE, "asked": 9, **told})
    assert choose(found, SECOND) == choice
    assert choose(found, SECOND, needs_reference="it is computed otherwise", advice="") == choice


def test_the_second_engine_serves_an_uncompared_model_where_it_is_needed() -> None:
    found = Findings(why_not="it took longer")
    assert choose(found, SECOND) == Serve()
    told = "the version is not compared: it took longer; install it"
    assert choose(found, SECOND, advice="; install it") == Fail(told)
    needs = "it is computed otherwise"
    assert choose(found, SECOND, needs_reference=needs, advice="") == Replace(needs)


@pytest.mark.parametrize(
    ("refusal", "left_out", "choice"),
    [
        pytest.param(None, "", Compare(), id="OpenVINO compiles it"),
        pytest.param("no", "", Replace("no"), id="OpenVINO refuses it"),
        pytest.param("", "", Replace(""), id="OpenVINO refuses it without a word"),
        pytest.param(None, "s", Replace("s", or_compare=True), id="a signature is left out"),
    ],
)
def test_the_engine_of_a_model_that_openvino_does_not_compile_wholly_is_the_second(
    refusal: str | None, left_out: str, choice: Compare | Replace
) -> None:
    assert choose_uncompared(refusal=refusal, left_out=left_out) == choice


@pytest.mark.parametrize(
    ("found", "choice"),
    [
        pytest.param(Findings(REFERENCE, asked=9), Replace("sooner"), id="both answer the same"),
        pytest.param(Findings(why_not="it took longer"), Replace("sooner"), id="not compared"),
        pytest.param(
            Findings(REFERENCE, 9, {FINITE: "y is 1"}), Replace(f"{DIFFER}y is 1"), id="they differ"
        ),
    ],
)
def test_an_engine_that_answers_sooner_serves_unless_the_findings_decide(
    found: Findings, choice: Replace
) -> None:
    assert choose(found, SECOND, sooner="sooner") == choice


@pytest.mark.parametrize(
    ("crashed", "is_replaceable", "refused", "is_open"),
    [
        pytest.param({}, True, "", True, id="open"),
        pytest.param({}, False, "", False, id="a driver is configured"),
        pytest.param({}, True, "shape", False, id="an option of OpenVINO alone"),
        pytest.param({FINITE: "onnxruntime b"}, True, "", False, id="it crashed"),
        pytest.param({ValueKind.NAN: "onnxruntime b"}, True, "", True, id="it crashed at NaN"),
    ],
)
def test_the_second_engine_is_measured_only_if_it_may_serve(
    crashed: dict[ValueKind, str], is_replaceable: bool, refused: str, is_open: bool
) -> None:
    found = Findings(REFERENCE, 9, crashed=crashed)
    assert may_be_sooner(found, is_replaceable=is_replaceable, refused=refused) == is_open


def said(found: Array, expected: Array, precision: str = "f32") -> str:
    return differences({"y": found}, {"y": expected}, precision)


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("found", "expected", "precision"),
    [
        pytest.param(floats(100.001, 0), floats(100, 0.001), "f32", id="by the greatest number"),
        pytest.param(floats(1e-7), floats(0), "f32", id="rounding of zero"),
        pytest.param(floats(np.nan, np.inf), floats(np.nan, np.inf), "f32", id="not finite"),
        pytest.param(floats(1.009), floats(1), "bf16", id="eight bits"),
        pytest.param(np.arange(3), np.arange(3), "f32", id="integers"),
        pytest.param(floats(9.5, 1), floats(10, 0.2), QUANTIZED, id="some of 255 steps"),
        pytest.param(np.array([9], np.int8), np.array([1], np.int8), QUANTIZED, id="steps"),
        pytest.param(np.array([3]), np.array([1]), QUANTIZED, id="class of a quantized model"),
        pytest.param(np.arange(5000), np.r_[9, 1:5000], "f32", id="one pixel of many"),
    ],
)
def test_values_within_the_tolerance_count_as_the_same(
    found: Array, expected: Array, precision: str
) -> None:
    assert said(found, expected, precision) == ""


@pytest.mark.parametrize(
    ("found", "expected", "precision"),
    [
        pytest.param(floats(1.01), floats(1), "f32", id="a hundredth"),
        pytest.param(floats(1.1), floats(1), "bf16", id="a tenth in eight bits"),
        pytest.param(floats(0), floats(np.nan), "f32", id="zero for NaN"),
        pytest.param(floats(-3.4028235e38), floats(-np.inf), "f32", id="the least for infinity"),
        pytest.param(floats(7, 0), floats(10, 0), QUANTIZED, id="fifty of 255 steps"),
        pytest.param(np.array([90], np.uint8), np.array([9], np.uint8), QUANTIZED, id="steps"),
        pytest.param(floats(-1), floats(1, 1), QUANTIZED, id="a shape of a quantized model"),
        pytest.param(np.array([1, 0]), np.array([0, 1]), "f32", id="indices"),
        pytest.param(floats(1), floats(1, 1), "f32", id="a shape"),
        pytest.param(np.array([True]), np.array([False]), "f32", id="truth"),
    ],
)
def test_values_beyond_the_tolerance_differ(found: Array, expected: Array, precision: str) -> None:
    assert 'output "y"' in said(found, expected, precision)


def test_halves_have_their_own_tolerance() -> None:
    one, other = (floats(x).astype(np.float16) for x in (1, 1.004))
    assert said(one, other) == ""
    assert said(one.astype(np.float32), other.astype(np.float32)) != ""


def test_the_summary_says_how_many_requests_or_why_none() -> None:
    assert Findings("r 1", asked=3).summary() == "compared with r 1 on 3 requests"
    assert Findings(why_not="r is not installed").summary() == "not compared: r is not installed"
