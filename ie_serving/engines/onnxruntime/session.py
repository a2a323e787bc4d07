"""Sessions of onnxruntime: their inputs and outputs as clients see them, and infer requests.

Converters end a classifier with ZipMap, whose output is a list of `{class: probability}`, one map
for each row. It becomes a tensor with a row for each map and a column for each class, in sorted
order as in scikit-learn's `classes_` and `predict_proba`.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array, DataType, TensorSpec, decoded, encoded

TYPES: Mapping[str, DataType] = {
    "float": DataType.FP32,
    "double": DataType.FP64,
    "float16": DataType.FP16,
    "int8": DataType.INT8,
    "int16": DataType.INT16,
    "int32": DataType.INT32,
    "int64": DataType.INT64,
    "uint8": DataType.UINT8,
    "uint16": DataType.UINT16,
    "uint32": DataType.UINT32,
    "uint64": DataType.UINT64,
    "bool": DataType.BOOL,
    "string": DataType.STRING,
}
"""onnxruntime's names of element types. bfloat16 is missing: its numpy interface has none."""

_TENSOR = re.compile(r"tensor\((\w+)\)")
_MAPS = re.compile(r"seq\(map\((?:int64|string),tensor\((\w+)\)\)\)")


class SessionNode(Protocol):
    """`onnxruntime.NodeArg`; a dimension is a size, a name or None."""

    name: str
    type: str
    shape: Sequence[object] | None


class Session(Protocol):
    """The used part of `onnxruntime.InferenceSession`."""

    def get_inputs(self) -> Sequence[SessionNode]:
        """List the inputs, in the graph's order."""

    def get_outputs(self) -> Sequence[SessionNode]:
        """List the outputs, in the graph's order."""

    def run(self, outputs: Sequence[str], feed: Mapping[str, Array], /) -> Sequence[object]:
        """Infer, and give the named outputs in the order of the names."""


@dataclass(frozen=True)
class SessionOutput:
    """One output: as clients see it, and whether it comes as a list of maps."""

    spec: TensorSpec
    maps: bool

    def array(self, value: object) -> Array:
        """Give the output's value as clients see it."""
        if self.maps:
            maps = cast("Sequence[Mapping[Any, float]]", value)
            rows = [[row[key] for key in sorted(row)] for row in maps]
            # The number of classes is unknown without rows, and reshape cannot derive -1 from 0.
            return np.array(rows, self.spec.dtype.numpy).reshape(len(rows), -1 if rows else 0)
        array = cast("Array", value)
        if self.spec.dtype is DataType.STRING:
            return encoded(array)
        return array


def input_specs(session: Session) -> dict[str, TensorSpec]:
    """Describe the inputs. Raises: LoadFailed, for an input that is not a tensor."""
    return {
        node.name: TensorSpec(node.name, _dtype(_TENSOR, node), _shape(node.shape), node.name)
        for node in session.get_inputs()
    }


def outputs_of(session: Session) -> Sequence[SessionOutput]:
    """Describe the outputs. Raises: LoadFailed, for an output that cannot become a tensor."""
    return [_output(node) for node in session.get_outputs()]


def _output(node: SessionNode) -> SessionOutput:
    maps = _MAPS.fullmatch(node.type) is not None
    shape = (-1, -1) if maps else _shape(node.shape)
    dtype = _dtype(_MAPS if maps else _TENSOR, node)
    return SessionOutput(TensorSpec(node.name, dtype, shape, node.name), maps)


def _dtype(pattern: re.Pattern[str], node: SessionNode) -> DataType:
    # Sequences, maps and sparse tensors are refused, except the form of ZipMap.
    found = pattern.fullmatch(node.type)
    if found is None or found[1] not in TYPES:
        raise LoadFailed(
            f'"{node.name}" is of type {node.type}, which the TensorFlow Serving API cannot carry;'
            " convert it in the model"
        )
    return TYPES[found[1]]


def _shape(dims: Sequence[object] | None) -> tuple[int, ...] | None:
    """Give the sizes, with -1 for a dimension with a name, or without a size."""
    if dims is None:
        return None
    return tuple(size if isinstance(size, int) and size >= 0 else -1 for size in dims)


class SessionFailure(Exception):
    """An error of the library during an inference; its own errors have no common base class."""


class SessionRequest:
    """Runs one inference at a time, on a session that several requests share.

    See `engines.run.infer_request.EngineRequest`. Every inference gives new arrays, so a failure
    leaves no state.
    """

    renews = False

    def __init__(
        self, session: Session, inputs: Collection[TensorSpec], outputs: Collection[SessionOutput]
    ) -> None:
        self._run = session.run
        self._texts = [spec.name for spec in inputs if spec.dtype is DataType.STRING]
        self._outputs = list(outputs)
        self._names = [output.spec.name for output in self._outputs]
        self._feed: dict[str, Array] = {}

    def fill(self, inputs: Mapping[str, Array]) -> None:
        """Take the inputs as they are, for one run. Raises: InvalidTensor."""
        self._feed = {
            **inputs,
            **{name: decoded(name, inputs[name], "onnxruntime") for name in self._texts},
        }

    def run(self) -> Mapping[str, Array]:
        """Infer, once for each `fill`. Raises: SessionFailure.

        The inputs are released before anything can fail: they may be views of a large request,
        whose memory would otherwise stay until this object is used again.
        """
        feed, self._feed = self._feed, {}
        try:
            values = self._run(self._names, feed)
        # All errors: those of the library's binding derive from Exception or RuntimeError, and an
        # error that passed would count as a defect of this server.
        except Exception as error:
            raise SessionFailure(str(error)) from error
        return {
            output.spec.name: output.array(value)
            for output, value in zip(self._outputs, values, strict=True)
        }

    def run_new(self) -> Mapping[str, Array]:
        """As `run`, for any shapes."""
        return self.run()

    def cancel(self) -> None:
        """Do nothing: the library cannot cancel an inference."""

    def renew(self) -> None:
        """Do nothing: a failure leaves no state."""
