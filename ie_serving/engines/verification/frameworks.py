"""What trained a model, asked for the right answers. Each library is imported where it is named."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from ie_serving.core.errors import LoadFailed, ServingError
from ie_serving.core.tensors import Array, Signature

Arrays = Mapping[str, Array]


class Refused(ServingError):
    """The framework refuses a request."""


class Framework(Protocol):
    """A model as its framework computes it.

    Attributes:
        release: name and version of the library.
    """

    release: str

    def run(self, signature: Signature, inputs: Arrays) -> Arrays:
        """Infer once; gives outputs by alias. Raises: Refused; LoadFailed, for what it lacks."""


class TensorFlow:
    """A SavedModel, run by TensorFlow."""

    def __init__(self, directory: Path) -> None:
        import tensorflow as tf

        self._tf = tf
        self.release = f"tensorflow {tf.__version__}"
        self._model = tf.saved_model.load(str(directory))

    def run(self, signature: Signature, inputs: Arrays) -> Arrays:
        """See `Framework`."""
        function = self._model.signatures[signature.name]
        given = {
            name: self._tf.constant(each, self._tf.as_dtype(signature.inputs[name].dtype.word))
            for name, each in inputs.items()
        }
        try:
            return {name: np.asarray(each) for name, each in function(**given).items()}
        except self._tf.errors.OpError as error:
            raise Refused(str(error.message)) from error


class OnnxRuntime:
    """A file of ONNX, run by onnxruntime."""

    def __init__(self, directory: Path) -> None:
        from ie_serving.engines.verification.onnx_reference import OnnxReference

        self._reference = OnnxReference(_only(directory, "*.onnx"))
        self.release = self._reference.release

    def run(self, signature: Signature, inputs: Arrays) -> Arrays:
        """See `Framework`."""
        given = {
            signature.inputs[name].tensor.partition(":")[0]: each for name, each in inputs.items()
        }
        try:
            outputs = self._reference.run(given)
        except ServingError as error:
            raise Refused(str(error)) from error
        named = {name: spec.tensor.partition(":")[0] for name, spec in signature.outputs.items()}
        return {name: outputs[own] for name, own in named.items() if own in outputs}


class LiteRt:
    """A `*.tflite`, run by LiteRT; of files without signatures tensors are found by their names."""

    def __init__(self, directory: Path) -> None:
        from ai_edge_litert import __version__
        from ai_edge_litert.interpreter import Interpreter

        self.release = f"litert {__version__}"
        self._interpreter = Interpreter(str(_only(directory, "*.tflite")))

    def run(self, signature: Signature, inputs: Arrays) -> Arrays:
        """See `Framework`."""
        own: Any = self._interpreter
        try:
            if signature.name in own.get_signature_list():
                runner = own.get_signature_runner(signature.name)
                return dict(runner(**inputs))
            return self._by_tensors(signature, inputs)
        except (RuntimeError, ValueError) as error:
            raise Refused(str(error)) from error

    def _by_tensors(self, signature: Signature, inputs: Arrays) -> Arrays:
        own: Any = self._interpreter
        places = {each["name"]: each["index"] for each in own.get_input_details()}
        given = {places[signature.inputs[name].tensor]: each for name, each in inputs.items()}
        for place, array in given.items():
            own.resize_tensor_input(place, array.shape)
        own.allocate_tensors()
        for place, array in given.items():
            own.set_tensor(place, array)
        own.invoke()
        found = {each["name"]: each["index"] for each in own.get_output_details()}
        return {
            name: own.get_tensor(found[spec.tensor]) for name, spec in signature.outputs.items()
        }


class Torch:
    """A program of `torch.export` (`*.pt2`) or TorchScript (`*.pt`) beside what was made of it.

    Tensors go by their order, which is what the exporters keep.
    """

    def __init__(self, directory: Path) -> None:
        import torch

        self._torch = torch
        self.release = f"torch {torch.__version__}"
        if sorted(directory.glob("*.pt2")):
            self._module: Any = torch.export.load(_only(directory, "*.pt2")).module()
        else:
            self._module = torch.jit.load(str(_only(directory, "*.pt")))

    def run(self, signature: Signature, inputs: Arrays) -> Arrays:
        """See `Framework`."""
        given = [self._torch.from_numpy(inputs[name]) for name in signature.inputs]
        try:
            with self._torch.no_grad():
                found = self._module(*given)
        except RuntimeError as error:
            raise Refused(str(error)) from error
        each = found if isinstance(found, list | tuple) else [found]
        return dict(zip(signature.outputs, [one.numpy() for one in each], strict=True))


def _only(directory: Path, pattern: str) -> Path:
    found = sorted(directory.glob(pattern))
    if len(found) != 1:
        raise LoadFailed(f"{directory} has {len(found)} files {pattern}; expected one")
    return found[0]


FRAMEWORKS: Mapping[str, Callable[[Path], Framework]] = MappingProxyType(
    {"tensorflow": TensorFlow, "onnxruntime": OnnxRuntime, "litert": LiteRt, "torch": Torch}
)
"""By their names on the command line. The constructors raise ImportError where one is missing."""
