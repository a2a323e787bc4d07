"""Make the sample repository: two classifiers of handwritten digits, as OpenVINO IR.

    python examples/digits/train.py        (needs openvino and scikit-learn)

The data is scikit-learn's bundled set of 1,797 scanned digits, 8 x 8 pixels each. One fifth of it
is held out: never seen in training, and written to `held_out.json` as material for requests.
Version 1 is a linear model, version 2 a network with one hidden layer. Both take and give:

    image          float32 (-1, 64)   pixels row by row, 0 is paper and 16 is ink
    probabilities  float32 (-1, 10)   one for each digit
    digit          int32   (-1)       the most probable one

The same versions of the libraries write the same bytes again.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import openvino as ov
from openvino import opset13 as ops
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

HERE = Path(__file__).parent
SEED = 2026
INK = 16.0

Layer = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
"""Weights (in, out) and bias (out) of one fully connected layer."""


def linear(pixels: npt.NDArray[np.float64], digits: npt.NDArray[np.int64]) -> list[Layer]:
    """Fit a multinomial logistic regression."""
    fitted = LogisticRegression(max_iter=1000).fit(pixels, digits)
    return [(fitted.coef_.T, fitted.intercept_)]


def perceptron(pixels: npt.NDArray[np.float64], digits: npt.NDArray[np.int64]) -> list[Layer]:
    """Fit a network with one hidden layer of 64."""
    fitted = MLPClassifier((64,), alpha=0.1, max_iter=500, random_state=SEED).fit(pixels, digits)
    return list(zip(fitted.coefs_, fitted.intercepts_, strict=True))


VERSIONS = {1: linear, 2: perceptron}


def network(layers: Sequence[Layer]) -> ov.Model:
    """Build the layers, with ReLU between them, from OpenVINO's own operations."""
    image = ops.parameter([-1, 64], np.float32, name="image")
    image.output(0).get_tensor().set_names({"image"})
    values = ops.divide(image, ops.constant(INK, np.float32))
    for place, (weights, bias) in enumerate(layers):
        values = ops.relu(values) if place else values
        product = ops.matmul(values, ops.constant(weights.astype(np.float32)), False, False)
        values = ops.add(product, ops.constant(bias.astype(np.float32)))
    probabilities = ops.softmax(values, axis=1)
    best = ops.topk(values, ops.constant(1, np.int32), axis=1, mode="max", sort="value")
    digit = ops.squeeze(best.output(1), ops.constant([1], np.int32))
    return ov.Model(
        [_result(probabilities, "probabilities"), _result(digit, "digit")], [image], "digits"
    )


def _result(node: ov.Node, name: str) -> ov.Node:
    node.output(0).get_tensor().set_names({name})
    return ops.result(node, name=name)


def accuracy(model: Path, pixels: npt.NDArray[np.float64], digits: npt.NDArray[np.int64]) -> float:
    """Share of `pixels` that the written model names rightly."""
    compiled = ov.Core().compile_model(model, "CPU")
    predicted = compiled({"image": pixels.astype(np.float32)})["digit"]
    return float(np.mean(predicted == digits))


def write_requests(folder: Path, pixels: npt.NDArray[np.float64], digits: list[int]) -> None:
    """Write all held-out images with their digits, and the first as the body of a request."""
    images = [list(map(int, row)) for row in pixels]
    rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in images)
    (folder / "held_out.json").write_text(f'{{"digit": {digits},\n"image": [\n{rows}\n]}}\n')
    (folder / "request.json").write_text(json.dumps({"instances": [{"image": images[0]}]}) + "\n")


def main() -> None:
    """Train, write and judge every version."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repository", type=Path, default=HERE.parent / "models" / "digits")
    parser.add_argument("--requests", type=Path, default=HERE)
    to = parser.parse_args()
    pixels, digits = load_digits(return_X_y=True)
    seen, held_out, seen_digits, held_out_digits = train_test_split(
        pixels, digits, test_size=0.2, random_state=SEED, stratify=digits
    )
    write_requests(to.requests, held_out, held_out_digits.tolist())
    for version, fit in VERSIONS.items():
        path = to.repository / str(version) / "model.xml"
        ov.save_model(network(fit(seen / INK, seen_digits)), path, compress_to_fp16=False)
        right = accuracy(path, held_out, held_out_digits)
        print(f"version {version} ({fit.__name__}): {right:.1%} of {len(held_out)} held-out images")


if __name__ == "__main__":
    main()
