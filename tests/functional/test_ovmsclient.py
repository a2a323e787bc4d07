"""`ovmsclient`, OVMS's own Python client, speaks with this server. Skipped where it is missing."""

import importlib.util
import json
import sys
from typing import Any

import pytest

from tests.functional.servers import ROOT, Server
from tests.process import output_of

SCRIPT = ROOT / "tests" / "functional" / "ovms_calls.py"


@pytest.fixture(scope="module")
def answers(digits: Server) -> Any:
    if importlib.util.find_spec("ovmsclient") is None:
        pytest.skip("ovmsclient is not installed")
    ports = (str(digits.port), str(digits.rest_port))
    return json.loads(output_of(sys.executable, SCRIPT, *ports)[-1])


@pytest.mark.parametrize("interface", ["grpc", "rest"])
def test_every_method_is_answered(answers: Any, interface: str) -> None:
    answer = answers[interface]
    assert {version: s["state"] for version, s in answer["status"].items()} == {
        "1": "AVAILABLE",
        "2": "AVAILABLE",
    }
    assert len(answer["probabilities"][0]) == 10


@pytest.mark.parametrize("interface", ["grpc", "rest"])
def test_metadata_is_understood(answers: Any, interface: str) -> None:
    metadata = answers[interface]["metadata"]
    assert metadata["model_version"] == 2
    assert metadata["inputs"]["image"] == {"shape": [-1, 64], "dtype": "DT_FLOAT"}


@pytest.mark.parametrize("interface", ["grpc", "rest"])
def test_errors_have_its_classes(answers: Any, interface: str) -> None:
    assert answers[interface]["unknown"].startswith("ModelNotFoundError")
    assert answers[interface]["wrong"].startswith("InvalidInputError")


def test_both_interfaces_give_the_same_numbers(answers: Any) -> None:
    grpc, rest = answers["grpc"], answers["rest"]
    assert grpc["digit"] == rest["digit"]
    assert grpc["probabilities"][0] == pytest.approx(rest["probabilities"][0])
