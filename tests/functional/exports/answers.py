"""Asks a server what TensorFlow was asked, over either interface, and compares the answers."""

import base64
import json
import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.functional.servers import Server

Tensors = Mapping[str, Any]

FLOAT32 = 1e-5
"""Relative difference allowed between two ways to compute the same in 32-bit floats."""


def expected(root: Path, model: str, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give what TensorFlow was asked, and what it answered."""
    pair: tuple[dict[str, Any], dict[str, Any]] = pickle.loads(
        (root / model / "expected" / f"{name}.pickle").read_bytes()
    )
    return pair


def configuration(root: Path, models: Iterable[str]) -> Path:
    """Write a model configuration file that names every model."""
    entries = "".join(
        f'config {{ name: "{name}" base_path: "{root / name}" model_platform: "tensorflow" }}\n'
        for name in models
    )
    file = root / "models.config"
    file.write_text(f"model_config_list {{\n{entries}}}\n")
    return file


def over_rest(
    server: Server, model: str, name: str, inputs: Tensors, outputs: Tensors
) -> dict[str, Any]:
    """Ask in columns; `outputs` tells which answers are strings, and the name of a lone one."""
    body = {
        "signature_name": name,
        "inputs": {alias: _in_json(value) for alias, value in inputs.items()},
    }
    # Not by the client: it refuses NaN.
    reply = server.rest.post(f"/v1/models/{model}:predict", content=json.dumps(body))
    assert reply.status_code == 200, reply.text
    got = reply.json()["outputs"]
    got = got if len(outputs) > 1 else {next(iter(outputs)): got}
    return {
        alias: np.array(_encoded(value), np.object_) if _is_text(outputs[alias]) else value
        for alias, value in got.items()
    }


def _in_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [_in_json(each) for each in value]
    array = np.asarray(value)
    return _in_json(array.tolist()) if array.dtype == np.object_ else array.tolist()


def _is_text(value: Any) -> bool:
    return np.asarray(value).dtype.kind in "SO"


def _encoded(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else [_encoded(each) for each in value]


def assert_equal(answer: Tensors, outputs: Tensors, rtol: float = FLOAT32) -> None:
    assert answer.keys() == outputs.keys()
    for alias, right in outputs.items():
        got, want = np.asarray(answer[alias]), np.asarray(right)
        assert got.shape == want.shape, alias
        if _is_text(want):
            assert got.tolist() == want.tolist(), alias
        else:
            np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-6, err_msg=alias)
