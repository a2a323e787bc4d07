"""The sample repository is what its script makes, and as good as the README says."""

import json
import sys
from pathlib import Path

import numpy as np
import openvino as ov
import pytest

from tests.process import output_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DIGITS = EXAMPLES / "digits"
REPOSITORY = EXAMPLES / "models" / "digits"
ACCURACY = {"1": 0.975, "2": 0.986}


def probabilities(repository: Path, version: str) -> np.ndarray:
    images = json.loads((DIGITS / "held_out.json").read_text())["image"]
    properties = {"INFERENCE_PRECISION_HINT": "f32"}
    path = repository / version / "model.xml"
    compiled = ov.Core().compile_model(path, "CPU", properties)
    return compiled({"image": np.array(images, np.float32)})["probabilities"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the script into an empty folder."""
    folder = tmp_path_factory.mktemp("digits")
    to = ["--repository", folder / "models", "--requests", folder]
    # Several threads spin between products as small as these: 36 s of processor time, not 3.
    one = {"OPENBLAS_NUM_THREADS": "1"}
    output_of(sys.executable, DIGITS / "train.py", *to, env=one, patience_s=100)
    return folder


@pytest.mark.parametrize("version", ACCURACY)
def test_the_accuracy_on_held_out_images_is_the_documented_one(version: str) -> None:
    truth = json.loads((DIGITS / "held_out.json").read_text())["digit"]
    guesses = probabilities(REPOSITORY, version).argmax(axis=1)
    assert np.mean(guesses == truth) == pytest.approx(ACCURACY[version], abs=0.0005)


@pytest.mark.deployed
@pytest.mark.parametrize("version", ACCURACY)
def test_the_script_trains_the_committed_models(trained: Path, version: str) -> None:
    """Another processor or library version rounds differently, so not to the last bit."""
    again = probabilities(trained / "models", version)
    np.testing.assert_allclose(again, probabilities(REPOSITORY, version), atol=0.05)


@pytest.mark.deployed
@pytest.mark.parametrize("name", ["held_out.json", "request.json"])
def test_the_script_holds_out_the_committed_images(trained: Path, name: str) -> None:
    assert (trained / name).read_text() == (DIGITS / name).read_text()


def test_the_request_is_the_first_held_out_image_a_one() -> None:
    """`make run` and the README say that the true digit is 1."""
    held_out = json.loads((DIGITS / "held_out.json").read_text())
    request = json.loads((DIGITS / "request.json").read_text())
    assert request == {"instances": [{"image": held_out["image"][0]}]}
    assert held_out["digit"][0] == 1
