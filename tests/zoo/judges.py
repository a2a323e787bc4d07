"""Runs a published model in its own runtime, in this process, with that runtime's defaults."""

import importlib.util
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.core.values.tensors import Array
from tests.zoo.models import Published

Arrays = Mapping[str, Array]
Run = Callable[[], Arrays]
ORT = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}


class NoJudgeError(Exception):
    """The runtime is not installed, or does not take the model."""


def opened(model: Published, file: Path) -> tuple[Arrays, Run]:
    """Give a request for a model, and what runs it in its runtime. Raises: NoJudgeError."""
    by_suffix = {".onnx": _onnx, ".tflite": _lite, ".jit": _torch, "": _tensorflow}
    return by_suffix[file.suffix](model, file)


def _value(model: Published, name: str, sizes: Any, dtype: Any) -> Array:
    given = model.request.get(name, sizes)
    if isinstance(given, np.ndarray):
        return given
    random = np.random.default_rng(zlib.crc32(f"{model.name} {name}".encode()))
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return random.integers(info.min, info.max, given, dtype=dtype)
    return random.random(given, np.float32).astype(dtype)


def _onnx(model: Published, file: Path) -> tuple[Arrays, Run]:
    import onnxruntime

    session = onnxruntime.InferenceSession(file)
    inputs = {
        each.name: _value(model, each.name, each.shape, ORT[each.type])
        for each in session.get_inputs()
    }
    names = [each.name for each in session.get_outputs()]
    return inputs, lambda: dict(zip(names, session.run(names, inputs), strict=True))


def _lite(model: Published, file: Path) -> tuple[Arrays, Run]:
    from ai_edge_litert.interpreter import Interpreter

    def ready() -> Any:
        made = Interpreter(str(file), num_threads=2)
        made.allocate_tensors()
        return made

    try:
        whole = ready()
    except (RuntimeError, ValueError) as error:
        raise NoJudgeError(str(error).split(". See ")[0]) from error
    signed = bool(whole.get_signature_list())
    details = whole.get_signature_runner().get_input_details() if signed else _named(whole, "input")
    inputs = {
        name: _value(model, name, tuple(each["shape"]), each["dtype"])
        for name, each in details.items()
    }

    def run() -> Arrays:
        used = ready() if model.keeps_state else whole
        if signed:
            return dict(used.get_signature_runner()(**inputs))
        for name, each in details.items():
            used.set_tensor(each["index"], inputs[name])
        used.invoke()
        made = _named(used, "output")
        return {name: used.get_tensor(each["index"]) for name, each in made.items()}

    return inputs, run


def _named(whole: Any, which: str) -> Mapping[str, Any]:
    return {
        each["name"].removesuffix(":0"): each for each in getattr(whole, f"get_{which}_details")()
    }


def _tensorflow(model: Published, file: Path) -> tuple[Arrays, Run]:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(file))
    inputs = {name: _value(model, name, given, np.float32) for name, given in model.request.items()}
    sent = {name: tf.constant(each) for name, each in inputs.items()}

    def run() -> Arrays:
        found = loaded.signatures["serving_default"](**sent)
        return {name: each.numpy() for name, each in found.items()}

    return inputs, run


def _torch(model: Published, file: Path) -> tuple[Arrays, Run]:
    if importlib.util.find_spec("torch") is None:
        raise NoJudgeError("torch is not installed")
    import torch

    inputs = {name: _value(model, name, given, np.float32) for name, given in model.request.items()}
    given = torch.from_numpy(inputs["x"]), int(inputs["sr"])
    module = torch.jit.load(str(file))

    def run() -> Arrays:
        with torch.inference_mode():
            module.reset_states()
            return {"output": module(*given).numpy()}

    return inputs, run
