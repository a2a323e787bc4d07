"""onnxruntime as the second engine: it computes the file as it was exported."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import onnxruntime

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Arrays, TensorSpec
from ie_serving.engines.generated_requests import Dim, GeneratedInput
from ie_serving.engines.onnxruntime.driver import EXACT_SUMS, LIBRARY, ONLY_FATAL, refuse_past
from ie_serving.engines.onnxruntime.session import (
    SessionFailure,
    SessionNode,
    SessionRequest,
    input_specs,
    outputs_of,
)
from ie_serving.engines.run.function import one_line
from ie_serving.engines.verification.comparison import ComparedSignature, RefusedBySecond


def opened(file: Path) -> Sequence["OnnxReference"]:
    """Open a file, which has one signature. Raises: LoadFailed."""
    refuse_past(file)
    return [OnnxReference(file)]


class OnnxReference:
    """A session of onnxruntime with only the optimizations that keep every bit."""

    library = LIBRARY
    release = f"{LIBRARY} {onnxruntime.__version__}"

    def __init__(self, file: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.log_severity_level = ONLY_FATAL
        onnxruntime.set_default_logger_severity(ONLY_FATAL)
        # Reordered weights pay off only after many inferences, and here are few.
        options.add_session_config_entry("session.disable_prepacking", "1")
        options.add_session_config_entry(*EXACT_SUMS)
        # The server compiles the model meanwhile, and more threads would compete with it.
        options.intra_op_num_threads = 1
        try:
            session = onnxruntime.InferenceSession(
                str(file), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # the library's errors have no base class of their own
            raise LoadFailed(f"{LIBRARY} does not take the file: {one_line(error)}") from error
        specs = input_specs(session)
        self.inputs = [_input(node, specs[node.name]) for node in session.get_inputs()]
        outputs = [each for each in outputs_of(session) if not each.maps]
        self.tensors = ComparedSignature(
            frozenset(specs), frozenset(each.spec.name for each in outputs)
        )
        self._request = SessionRequest(session, list(specs.values()), outputs)

    def run(self, inputs: Arrays) -> Arrays:
        """See `Reference`."""
        try:
            self._request.fill(inputs)
            return self._request.run()
        except SessionFailure as error:
            if "bad_alloc" in str(error) or "allocate memory" in str(error):
                raise MemoryError from error
            raise RefusedBySecond(str(error)) from error


def _input(node: SessionNode, spec: TensorSpec) -> GeneratedInput:
    return GeneratedInput(node.name, spec.dtype, tuple(_dims(node)))


def _dims(node: SessionNode) -> Iterator[Dim]:
    for axis, size in enumerate(node.shape or ()):
        # A dimension without a name equals no other.
        yield size if isinstance(size, int | str) and size != "" else f"{node.name}[{axis}]"
