"""Pipelines of Konduit for tests, and their data."""

import base64
import json
from typing import Any

import numpy as np

from ie_serving.compat.konduit import data
from ie_serving.compat.konduit.pipeline.definition import read
from ie_serving.compat.konduit.pipeline.running import RunningPipeline
from ie_serving.core.values.requests import Caller
from ie_serving.engines.python.context import Context


def ran(steps: Any, given: dict[str, Any], **more: Any) -> Any:
    running = RunningPipeline(read({"steps": steps, **more}, "pipeline"))
    return running(data.decode(json.dumps(given).encode()), Context(Caller({}, None)).models)


def array(*numbers: float, kind: str = "FLOAT", form: str = ">f4") -> dict[str, Any]:
    raw = np.array(numbers, form).tobytes()
    return {
        "@NDArrayType": kind,
        "@NDArrayShape": [len(numbers)],
        "@NDArrayDataBase64": base64.b64encode(raw).decode(),
    }
