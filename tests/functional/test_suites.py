"""The runner of `make suites` on a server with faults: each is told, and the rest goes on."""

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.onnx_models import onnx_model
from tests.suites import asking
from tests.suites.cases import Case
from tests.suites.judging import Kind
from tests.suites.running import Suite

SERVER = (sys.executable, str(Path(__file__).with_name("suite_server.py")), "config")
X = np.array([-1, 2], np.float32)
RIGHT = ("a_right", "between", "rest", "z_right")


def case(name: str, operator: str = "Abs", not_carried: str = "") -> Case:
    node = helper.make_node(operator, ["x"], ["y"])
    model = onnx_model([node], {"x": [2]}, {"y": [2]}, opset=13)
    sets = () if not_carried else (({"x": X}, {"y": abs(X)}),)
    return Case(name, model, sets, 1e-3, 1e-7, not_carried)


def test_faults_are_told_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "LONGEST_S", 2.0)
    cases = [
        *map(case, RIGHT),
        *(case(name) for name in ("dies_at_load", "dies_when_asked", "zz_hangs")),
        case("refused", "NoSuchOperator"),
        case("wrong", "Neg"),
        case("int4", not_carried="int4"),
    ]
    found = dict(Suite(tmp_path, SERVER, {}).run(sorted(cases, key=lambda each: each.name)))
    kinds = {name: {each.kind for each in outcomes.values()} for name, outcomes in found.items()}
    assert kinds == {
        **{name: {Kind.RIGHT} for name in RIGHT},
        "dies_at_load": {Kind.CRASH},
        "dies_when_asked": {Kind.CRASH},
        "zz_hangs": {Kind.HANG},
        "refused": {Kind.REFUSED},
        "wrong": {Kind.WRONG},
        "int4": {Kind.NOT_CARRIED},
    }
    assert "NoSuchOperator" in found["refused"]["predict"].cause
    cause = "y: 1 of 2 differ, from element 1: got [-2], expected [2]"
    assert found["wrong"]["rest"].cause == cause
