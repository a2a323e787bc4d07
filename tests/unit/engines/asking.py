"""Asks a compiled model as requests do: inputs are checked and cast first."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ie_serving.core.fit import fit
from ie_serving.core.tensors import SERVING_DEFAULT, Array


async def answer(model: Any, **inputs: Any) -> dict[str, Array]:
    """Give copies of the outputs of `serving_default`."""
    signature = model.signatures[SERVING_DEFAULT]
    fitted, _ = fit(signature, {name: np.asarray(value) for name, value in inputs.items()})

    def copies(outputs: Mapping[str, Array]) -> dict[str, Array]:
        return {name: array.copy() for name, array in outputs.items()}

    found: dict[str, Array] = await model.infer(signature, fitted, copies)
    return found


def told(model: Any) -> dict[str, str]:
    """Describe the tensors of `serving_default`, by name."""
    signature = model.signatures[SERVING_DEFAULT]
    specs = {**signature.inputs, **signature.outputs}
    return {name: f"{spec.dtype.word} {list(spec.shape)}" for name, spec in specs.items()}


def strings(*texts: str) -> Array:
    """Give texts as requests bring them."""
    return np.array([text.encode() for text in texts], np.object_)
