"""Runs a model in the framework that trained it. Each library is imported when it is used."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from ie_serving.core.values.errors import LoadFailed, ServingError
from ie_serving.core.values.tensors import Arrays, Signature
from ie_serving.engines.openvino.reading.formats import ONNX, TFLITE
from ie_serving.engines.openvino.reading.mapping import read_mapping
from ie_serving.engines.verification.comparison import BY_SUFFIX, FileNames, RefusedBySecond


class Framework(Protocol):
    """A model as its framework computes it.

    Attributes:
        release: name and version of the library.
        precision: precision of its computation, if coarser than f32.
    """

    release: str
    precision: str

    def run(self, signature: Signature, inputs: Arrays) -> Arrays:
        """Infer once; give outputs by alias.

        Raises:
            RefusedBySecond: the framework refuses the request.
            LoadFailed: the file has features that the framework lacks.
        """


class TensorFlow:
    """A SavedModel, run by TensorFlow."""

    precision = ""

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
            raise RefusedBySecond(str(error.message)) from error


class FormatEngine:
    """A file of one format, run by the second engine that a load compares it with."""

    def __init__(self, suffix: str, directory: Path) -> None:
        references = BY_SUFFIX[suffix].opened(_single_file(directory, f"*{suffix}"))
        self._references = {each.tensors.signature: each for each in references}
        renames = read_mapping(directory)
        self._own = FileNames(*({new: old for old, new in each.items()} for each in renames))
        self.release = references[0].release
        self.precision = references[0].tensors.precision

    def run(self, signature: Signature, inputs: Arrays) -> Arrays:
        """See `Framework`."""
        reference = self._references[signature.name]
        names = reference.tensors.names_of(signature, self._own)
        try:
            outputs = reference.run({names.inputs[name]: each for name, each in inputs.items()})
        except ServingError as error:
            raise RefusedBySecond(str(error)) from error
        return {name: outputs[own] for name, own in names.outputs.items()}


class Torch:
    """A program of `torch.export` (`*.pt2`) or TorchScript (`*.pt`), beside the model made of it.

    Tensors correspond by their order, which exporters keep.
    """

    precision = ""

    def __init__(self, directory: Path) -> None:
        import torch

        self._torch = torch
        self.release = f"torch {torch.__version__}"
        if sorted(directory.glob("*.pt2")):
            self._module: Any = torch.export.load(_single_file(directory, "*.pt2")).module()
        else:
            self._module = torch.jit.load(str(_single_file(directory, "*.pt")))

    def run(self, signature: Signature, inputs: Arrays) -> Arrays:
        """See `Framework`."""
        given = [self._torch.from_numpy(inputs[name]) for name in signature.inputs]
        try:
            with self._torch.no_grad():
                found = self._module(*given)
        except RuntimeError as error:
            raise RefusedBySecond(str(error)) from error
        each = found if isinstance(found, list | tuple) else [found]
        return dict(zip(signature.outputs, [one.numpy() for one in each], strict=True))


def _single_file(directory: Path, pattern: str) -> Path:
    found = sorted(directory.glob(pattern))
    if len(found) != 1:
        raise LoadFailed(f"{directory} has {len(found)} files {pattern}; expected one")
    return found[0]


FRAMEWORKS: Final[Mapping[str, Callable[[Path], Framework]]] = {
    "tensorflow": TensorFlow,
    "onnxruntime": partial(FormatEngine, ONNX),
    "litert": partial(FormatEngine, TFLITE),
    "torch": Torch,
}
"""Frameworks by name on the command line. A constructor raises ImportError if its library is
missing."""
