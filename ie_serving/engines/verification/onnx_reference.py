"""onnxruntime as the second engine: it computes the file as it was exported."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import onnxruntime

from ie_serving.core.errors import LoadFailed, ServingError
from ie_serving.core.tensors import Array, Signature, TensorSpec
from ie_serving.engines.generated import Dim, Input
from ie_serving.engines.onnxruntime.driver import LIBRARY, one_line
from ie_serving.engines.onnxruntime.session import Failure, SessionRequest
from ie_serving.engines.onnxruntime.specs import Node, input_specs, outputs_of


class Refused(ServingError):
    """The second engine refuses a request."""


class Names(NamedTuple):
    """Names in the file of a signature's inputs and outputs."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


class OnnxReference:
    """A session of onnxruntime without optimizations beyond those that keep every bit."""

    library = LIBRARY
    release = f"{LIBRARY} {onnxruntime.__version__}"

    def __init__(self, file: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.log_severity_level = 4
        # Weights in another order pay off after many inferences, and here there are few.
        options.add_session_config_entry("session.disable_prepacking", "1")
        options.intra_op_num_threads = 2
        try:
            session = onnxruntime.InferenceSession(
                str(file), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # the library's errors have no base class of their own
            raise LoadFailed(f"{LIBRARY} does not take the file: {one_line(error)}") from error
        specs = input_specs(session)
        self.inputs = [_input(node, specs[node.name]) for node in session.get_inputs()]
        self.known = set(specs)
        self._outputs = [each for each in outputs_of(session) if not each.maps]
        self._request = SessionRequest(session, list(specs.values()), self._outputs)

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Infer once. Raises: Refused."""
        try:
            self._request.fill(inputs)
            return self._request.run()
        except Failure as error:
            raise Refused(str(error)) from error

    def names_of(self, signature: Signature) -> Names:
        """Find the file's names of a signature's tensors, which a mapping may have renamed.

        Raises:
            LoadFailed: an input has none of them.
        """
        inputs = {name: _own(spec) for name, spec in signature.inputs.items()}
        if unknown := sorted(set(inputs.values()) - self.known):
            raise LoadFailed(f"{LIBRARY} has no input {unknown[0]}")
        given = {each.spec.name for each in self._outputs}
        outputs = {name: _own(spec) for name, spec in signature.outputs.items()}
        return Names(inputs, {name: own for name, own in outputs.items() if own in given})


def _own(spec: TensorSpec) -> str:
    return spec.tensor.removesuffix(":0")


def _input(node: Node, spec: TensorSpec) -> Input:
    return Input(node.name, spec.dtype, tuple(_dims(node)))


def _dims(node: Node) -> Iterator[Dim]:
    for place, size in enumerate(node.shape or ()):
        # A dimension without a name is alone.
        yield size if isinstance(size, int | str) and size != "" else f"{node.name}[{place}]"
