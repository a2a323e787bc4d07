"""Asks a compiled model as requests do: inputs are checked and cast first."""

import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ie_serving.core.values.fit import fit
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array


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


class Ran(NamedTuple):
    """What came of an infer request that ran once."""

    failed: bool
    holds_inputs: bool


def run_once(request: Any, failure: type[Exception]) -> Ran:
    """Run an infer request with an input `x` that no other code holds."""
    array = np.zeros(4, np.float32)
    request.fill({"x": array})
    # Without `pytest.raises`: it keeps the error, and with that the frames that hold the inputs.
    try:
        request.run()
        failed = False
    except failure:
        failed = True
    kept = weakref.ref(array)
    del array
    return Ran(failed, holds_inputs=kept() is not None)
