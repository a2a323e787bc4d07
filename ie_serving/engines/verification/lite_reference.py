"""LiteRT as the second engine: it computes a `*.tflite` as TensorFlow Lite does.

Quantized models are computed by its default delegate, as where it serves. That takes 0.5 to 25 % of
the time of its other kernels, and the two are as far from each other as OpenVINO is from either.

Its kernels clamp results to the greatest finite number. In outputs that number counts as infinity;
requests with infinity are not sent, since their outputs prove nothing.
"""

from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import BY_NUMPY, Array, Arrays
from ie_serving.engines.generated_requests import Dim, GeneratedInput
from ie_serving.engines.litert.interpreters import LIBRARY, LiteRun, interpreter
from ie_serving.engines.openvino.reading.lite_signatures import (
    LiteSignature,
    refuse_deadly,
    signatures_of,
)
from ie_serving.engines.run.function import one_line
from ie_serving.engines.verification.comparison import ComparedSignature, RefusedBySecond
from ie_serving.engines.verification.verdict import QUANTIZED


def opened(file: Path) -> Sequence["LiteReference"]:
    """Open each signature of a file. Raises: LoadFailed."""
    data = file.read_bytes()
    signatures = signatures_of(data, file.name)
    refuse_deadly(data, file.name)
    found = []
    for signature in signatures:
        whole = interpreter(file, 2, exact=True)
        precision = QUANTIZED if _is_quantized(whole) else ""
        if precision:
            whole = interpreter(file, 2, exact=False)
        with suppress(KeyError):  # the file lacks a tensor: OpenVINO leaves the signature out
            found.append(LiteReference(whole, signature, precision))
    return found


class LiteReference:
    """One signature as LiteRT computes it."""

    library = LIBRARY
    release = f"{LIBRARY} {version('ai-edge-litert')}"

    def __init__(self, whole: Any, signature: LiteSignature, precision: str) -> None:  # noqa: ANN401
        self._run = LiteRun(whole, signature)
        self.inputs = [_input(name, each) for name, each in self._run.inputs.items()]
        self.tensors = ComparedSignature(
            frozenset(self._run.inputs),
            frozenset(self._run.outputs),
            signature.name,
            precision,
        )

    def run(self, inputs: Arrays) -> Arrays:
        """See `Reference`."""
        if any(array.dtype.kind == "f" and np.isinf(array).any() for array in inputs.values()):
            raise RefusedBySecond(f"{LIBRARY} clamps infinity")
        try:
            outputs = self._run.run(inputs)
        except (RuntimeError, ValueError) as error:
            raise RefusedBySecond(one_line(error)) from error
        return {name: _unclamped(array) for name, array in outputs.items()}


def _input(name: str, details: Any) -> GeneratedInput:  # noqa: ANN401
    dims: list[Dim] = [int(size) for size in details["shape"]]
    for axis, size in enumerate(details["shape_signature"]):
        if size < 0:
            dims[axis] = f"{name}[{axis}]"
    dtype = BY_NUMPY.get(np.dtype(details["dtype"]))
    if dtype is None:
        raise LoadFailed(
            f'{LIBRARY} takes {details["dtype"]} for input "{name}", which the API cannot carry:'
            " convert the model with another dtype"
        )
    return GeneratedInput(name, dtype, tuple(dims))


def _is_quantized(whole: Any) -> bool:  # noqa: ANN401
    """Tell whether weights or values are integers that stand for floats."""
    return any(
        each["quantization_parameters"]["scales"].size and np.dtype(each["dtype"]).itemsize <= 2
        for each in whole.get_tensor_details()
    )


def _unclamped(array: Array) -> Array:
    if array.dtype.kind != "f":
        return array
    return np.where(np.abs(array) == np.finfo(array.dtype).max, np.copysign(np.inf, array), array)
