"""Runs one signature of a `*.tflite` by an interpreter of LiteRT."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array, without_port
from ie_serving.engines.openvino.reading.lite_signatures import LiteSignature
from ie_serving.engines.run.function import one_line

LIBRARY = "LiteRT"


def interpreter(model: Path | bytes, threads: int, *, exact: bool) -> Any:  # noqa: ANN401  untyped
    """Open a model.

    Args:
        model: its file, or what that has.
        threads: threads of one inference.
        exact: leaves out the default delegate, which is several times faster, and gives NaN for 1 /
            sqrt(0) and a number for log(NaN).

    Raises:
        LoadFailed: the library does not take the file.
    """
    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if exact else OpResolverType.AUTO
    try:
        given = (None, model) if isinstance(model, bytes) else (str(model), None)
        return Interpreter(*given, experimental_op_resolver_type=kernels, num_threads=threads)
    except (RuntimeError, ValueError) as error:
        raise LoadFailed(f"{LIBRARY} does not take the file: {one_line(error)}") from error


class LiteRun:
    """One signature with its own interpreter, since a runner keeps its tensors.

    Attributes:
        whole: the interpreter.
        inputs: details of the inputs, by their names in the file.
        outputs: likewise.
    """

    def __init__(self, whole: Any, signature: LiteSignature) -> None:  # noqa: ANN401  untyped
        self.whole = whole
        # Signatures of other subgraphs than the first have a runner; the first one needs none.
        self._runner: Any = (
            whole.get_signature_runner(signature.name) if signature.subgraph else None
        )
        tensors = self._runner or whole
        inputs = _by_name(tensors.get_input_details())
        outputs = _by_name(tensors.get_output_details())
        self._aliases = {without_port(name): own for own, name in signature.inputs.items()}
        self._given_as = {without_port(name): own for own, name in signature.outputs.items()}
        self.inputs = {name: inputs[name] for name in self._aliases}
        self.outputs = {name: outputs[name] for name in self._given_as}
        self._shapes: dict[str, tuple[int, ...]] = {}

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Infer once. Raises: RuntimeError, ValueError: the library's own."""
        return self._by_runner(inputs) if self._runner else self._by_index(inputs)

    def _by_runner(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        given = {self._aliases[name]: array for name, array in inputs.items()}
        found = self._runner(**given)
        return {name: np.array(found[own]) for name, own in self._given_as.items()}

    def _by_index(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        shapes = {name: array.shape for name, array in inputs.items()}
        if shapes != self._shapes:  # the library prepares all operations anew
            self._shapes = {}
            for name, shape in shapes.items():
                self.whole.resize_tensor_input(self.inputs[name]["index"], shape)
            self.whole.allocate_tensors()
            self._shapes = shapes
        for name, array in inputs.items():
            self.whole.set_tensor(self.inputs[name]["index"], array)
        self.whole.invoke()
        return {name: self.whole.get_tensor(each["index"]) for name, each in self.outputs.items()}


def _by_name(details: Any) -> Mapping[str, Any]:  # noqa: ANN401  a list, or by alias
    found = details.values() if isinstance(details, dict) else details
    return {without_port(each["name"]): each for each in found}
