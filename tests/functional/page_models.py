"""The models that the tests and the pictures of the page are about."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import openvino.opset15 as op

from ie_serving.core.values.tensors import DataType
from tests.functional.servers import SAMPLE
from tests.unit.engines.openvino.models import unary

MARKUP = "<img src=x onerror=document.title='pwned'>"
"""A model's name, or a part of a request, that a page must not take for HTML."""


def write(root: Path, odd: str = "odd") -> Path:
    """Write the configuration; its models are `digits`, `ranker`, `photos` and `odd`.

    `ranker` doubles four numbers, and its version 7 is broken; `photos` gives the mean colour of a
    picture; `odd` is another `ranker`.
    """
    for name, number in (("ranker", 6), ("odd", 1)):
        unary(root / name / str(number), [-1, 4], DataType.FP32, lambda x: op.multiply(x, two))
    (root / "ranker" / "7").mkdir()
    (root / "ranker" / "7" / "model.onnx").write_bytes(b"<b>broken</b>")
    unary(root / "photos" / "1", [-1, 24, 32, 3], DataType.FP32, _mean)
    own = {
        "digits": (SAMPLE, {"version_labels": {"stable": 2}}),
        "ranker": (root / "ranker", {"model_version_policy": {"all": {}}}),
        "photos": (root / "photos", {}),
        odd: (root / "odd", {}),
    }
    entries = [
        {"config": {"name": name, "base_path": str(path), **keys}}
        for name, (path, keys) in own.items()
    ]
    path = root / "config.json"
    path.write_text(json.dumps({"model_config_list": entries}))
    return path


two = np.float32(2)


def _mean(x: Any) -> Any:
    return op.reduce_mean(x, np.array([1, 2]), keep_dims=False)
