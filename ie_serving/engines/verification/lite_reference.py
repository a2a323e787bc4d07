"""LiteRT as the second engine: it computes a `*.tflite` as TensorFlow Lite does.

Its kernels clamp results to the greatest finite number. In outputs that number counts as infinity;
requests with infinity are not sent, since their answers prove nothing.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import BY_NUMPY, Array, Arrays
from ie_serving.engines.generated import Dim, GeneratedInput
from ie_serving.engines.openvino.reading.lite_signatures import LiteSignature, signatures_of
from ie_serving.engines.verification.comparison import Tensors, without_port
from ie_serving.engines.verification.references import Refused
from ie_serving.engines.verification.verdict import QUANTIZED

LIBRARY = "LiteRT"


def opened(file: Path) -> Sequence["LiteReference"]:
    """Open each signature of a file. Raises: LoadFailed."""
    signatures = signatures_of(file.read_bytes(), file.name)
    found = []
    for signature in signatures:
        with suppress(KeyError):  # the file lacks a tensor: OpenVINO leaves the signature out
            found.append(LiteReference(_interpreter(file), signature))
    return found


def _interpreter(file: Path) -> Any:  # noqa: ANN401  untyped
    # The default delegate gives NaN for 1 / sqrt(0), and a number for log(NaN).
    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        return Interpreter(str(file), experimental_op_resolver_type=kernels, num_threads=2)
    except (RuntimeError, ValueError) as error:
        raise LoadFailed(f"{LIBRARY} does not take the file: {_one_line(error)}") from error


class LiteReference:
    """One signature with its own interpreter, since a runner keeps its tensors."""

    library = LIBRARY
    release = f"{LIBRARY} {version('ai-edge-litert')}"

    def __init__(self, whole: Any, signature: LiteSignature) -> None:  # noqa: ANN401  untyped
        self._whole = whole
        # Signatures of other subgraphs than the first have a runner; the first one needs none.
        self._runner: Any = (
            whole.get_signature_runner(signature.name) if signature.subgraph else None
        )
        tensors = self._runner or whole
        inputs = _by_name(tensors.get_input_details())
        outputs = _by_name(tensors.get_output_details())
        self._aliases = {without_port(name): own for own, name in signature.inputs.items()}
        self._given_as = {without_port(name): own for own, name in signature.outputs.items()}
        self._places = {name: inputs[name]["index"] for name in self._aliases}
        self._given_at = {name: outputs[name]["index"] for name in self._given_as}
        self.inputs = [_input(name, inputs[name]) for name in self._aliases]
        self.tensors = Tensors(
            frozenset(self._aliases),
            frozenset(self._given_as),
            signature.name,
            QUANTIZED if _is_quantized(whole) else "",
        )

    def run(self, inputs: Arrays) -> Arrays:
        """See `Reference`."""
        if any(array.dtype.kind == "f" and np.isinf(array).any() for array in inputs.values()):
            raise Refused(f"{LIBRARY} clamps infinity")
        try:
            outputs = self._by_runner(inputs) if self._runner else self._by_place(inputs)
        except (RuntimeError, ValueError) as error:
            raise Refused(_one_line(error)) from error
        return {name: _unclamped(array) for name, array in outputs.items()}

    def _by_runner(self, inputs: Arrays) -> Arrays:
        given = {self._aliases[name]: array for name, array in inputs.items()}
        found = self._runner(**given)
        return {name: np.array(found[own]) for name, own in self._given_as.items()}

    def _by_place(self, inputs: Arrays) -> Arrays:
        for name, array in inputs.items():
            self._whole.resize_tensor_input(self._places[name], array.shape)
        self._whole.allocate_tensors()
        for name, array in inputs.items():
            self._whole.set_tensor(self._places[name], array)
        self._whole.invoke()
        return {name: self._whole.get_tensor(place) for name, place in self._given_at.items()}


def _by_name(details: Any) -> Mapping[str, Any]:  # noqa: ANN401  a list, or by alias
    found = details.values() if isinstance(details, dict) else details
    return {without_port(each["name"]): each for each in found}


def _input(name: str, details: Any) -> GeneratedInput:  # noqa: ANN401
    dims: list[Dim] = [int(size) for size in details["shape"]]
    for place, size in enumerate(details["shape_signature"]):
        if size < 0:
            dims[place] = f"{name}[{place}]"
    dtype = BY_NUMPY.get(np.dtype(details["dtype"]))
    if dtype is None:
        raise LoadFailed(f'{LIBRARY} takes {details["dtype"]} for input "{name}"')
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


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:600] or "no reason given"
