"""Compares a compiled model with a second engine's answers; the second engines by file format.

It runs in the process that has the model. An error of the model is a finding, and is not raised.
"""

import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple, Protocol, cast

from ie_serving.core.values.errors import LoadFailed, ServingError
from ie_serving.core.values.tensors import (
    SERVING_DEFAULT,
    Arrays,
    Signature,
    Specs,
    copies,
    without_port,
)
from ie_serving.engines.base import CompiledModel
from ie_serving.engines.generated_requests import GeneratedInput, GeneratedRequest, ValueKind
from ie_serving.engines.layers import own_loop
from ie_serving.engines.onnxruntime import driver as onnxruntime
from ie_serving.engines.openvino.reading.formats import ONNX, TFLITE
from ie_serving.engines.verification.verdict import Findings, differences


class FileNames(NamedTuple):
    """Names of a signature's inputs and outputs in the file."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


NONE_RENAMED: Final = FileNames({}, {})


@dataclass(frozen=True)
class ComparedSignature:
    """A signature as the second engine has it.

    Attributes:
        inputs: names in the file.
        outputs: names in the file.
        signature: its name.
        precision: precision of the second engine, if coarser than f32.
    """

    inputs: frozenset[str]
    outputs: frozenset[str]
    signature: str = SERVING_DEFAULT
    precision: str = ""

    def names_of(self, signature: Signature, own: FileNames = NONE_RENAMED) -> FileNames:
        """Find the file's names of a signature's tensors.

        Args:
            signature: signature of the model.
            own: the file's names of tensors that a mapping has renamed.

        Raises:
            LoadFailed: an input has none of the file's names.
        """
        inputs = _in_the_file(signature.inputs, own.inputs, self.inputs)
        if unknown := sorted(set(inputs.values()) - self.inputs):
            raise LoadFailed(
                f"the second engine has no input {unknown[0]}; expected one of"
                f" {', '.join(sorted(self.inputs))}"
            )
        outputs = _in_the_file(signature.outputs, own.outputs, self.outputs)
        return FileNames(
            inputs, {name: own for name, own in outputs.items() if own in self.outputs}
        )


def _in_the_file(specs: Specs, own: Mapping[str, str], known: Container[str]) -> dict[str, str]:
    # A file of ONNX that was made of TensorFlow's graph has the port in its names.
    tensors = {name: own.get(name, spec.tensor) for name, spec in specs.items()}
    return {name: each if each in known else without_port(each) for name, each in tensors.items()}


def has_time(number: int, began: float, most_s: float) -> bool:
    """Tell whether another request fits into `most_s`, by the mean of the `number` before."""
    took_s = time.perf_counter() - began
    return not number or took_s * (number + 1) / number < most_s


@dataclass(frozen=True)
class ReferenceOutputs:
    """The second engine's answers to requests generated for a model."""

    release: str
    tensors: ComparedSignature
    answered: list[tuple[GeneratedRequest, Arrays]]
    crashed: dict[ValueKind, str] = field(default_factory=dict)

    def compared_with(self, model: CompiledModel, most_s: float) -> Findings:
        """Run `model` on the first request, and on others within `most_s` seconds. Blocking."""
        comparison = Comparison(Findings(self.release, crashed=self.crashed), self.tensors, model)
        if not comparison.found.refused:
            began = time.perf_counter()
            for number, (request, expected) in enumerate(self.answered):
                if not has_time(number, began, most_s):
                    break
                comparison.compare(request, expected)
        return comparison.found


class Comparison:
    """Runs a model on requests that the second engine has answered.

    Args of the constructor:
        found: findings, which this object extends.
        tensors: tensors of the signature.
        model: model of OpenVINO.
        begins: called with each request before the model runs; False skips the request.

    Attributes:
        found: the findings so far. An input that OpenVINO drops counts as a refusal.
        shows: the first request of finite values whose outputs differ.
    """

    def __init__(
        self,
        found: Findings,
        tensors: ComparedSignature,
        model: CompiledModel,
        begins: Callable[[GeneratedRequest], bool] = lambda request: True,
    ) -> None:
        self._model = model
        self._signature = model.signatures[tensors.signature]
        self._precision = tensors.precision or self._signature.precision
        self._names = tensors.names_of(self._signature)
        self._begins = begins
        self.found = found
        self.shows: GeneratedRequest | None = None
        taken = self._signature.ignored.union(self._names.inputs.values())
        if dropped := tensors.inputs - taken:
            self.found.refused = f'OpenVINO drops input "{min(dropped)}"'

    def compare(self, request: GeneratedRequest, expected: Arrays) -> None:
        """Run one request, and compare the outputs with those of the second engine."""
        if not self._begins(request):
            return
        try:
            found = self._infer(request)
        except ServingError as error:
            if "bad_alloc" in str(error):
                raise MemoryError from error
            if request.kind is ValueKind.FINITE and not self.found.refused:
                self.found.refused = f"{request}: {error}"
            return
        self.found.asked += 1
        named = {alias: expected[name] for alias, name in self._names.outputs.items()}
        if text := differences(found, named, self._precision):
            self.found.differs.setdefault(request.kind, f"{request}: {text}")
            if request.kind is ValueKind.FINITE and self.shows is None:
                self.shows = request

    def outputs_of(self, request: GeneratedRequest) -> Arrays:
        """Give the model's outputs under their names in the file. Raises: ServingError."""
        found = self._infer(request)
        return {name: found[alias] for alias, name in self._names.outputs.items()}

    def _infer(self, request: GeneratedRequest) -> Arrays:
        names = self._names.inputs
        inputs = {name: request.inputs[names[name]] for name in self._signature.inputs}
        return own_loop.run(self._model.infer(self._signature, inputs, copies))


ROOM = "ie_serving.engines.verification"


class RefusedBySecond(ServingError):
    """The second engine refuses a request."""


class Reference(Protocol):
    """One signature of a file, as the second engine computes it.

    Attributes:
        library: name of the second engine.
        release: the same with its release.
        inputs: specs to generate values for.
        tensors: the file's names of the signature's tensors.
    """

    library: str
    release: str
    inputs: Sequence[GeneratedInput]
    tensors: ComparedSignature

    def run(self, inputs: Arrays) -> Arrays:
        """Infer once. Raises: RefusedBySecond."""


@dataclass(frozen=True)
class SecondEngine:
    """One second engine.

    Attributes:
        library: its name in texts.
        module: imported name of its library.
        package: distribution whose release a verdict depends on.
        install: the command that installs it.
        takes_odd: whether it gets requests with NaN and the like that OpenVINO answers otherwise.
        reference: module of this package whose `opened` gives a `Reference` for each signature.
    """

    library: str
    module: str
    package: str
    install: str
    takes_odd: bool
    reference: str

    @property
    def is_installed(self) -> bool:
        """Whether its library is installed; does not import it."""
        return find_spec(self.module) is not None

    def opened(self, file: Path) -> Sequence[Reference]:
        """Open a file: imports the library. Raises: LoadFailed."""
        return cast("Sequence[Reference]", import_module(f"{ROOM}.{self.reference}").opened(file))


BY_SUFFIX: Final[Mapping[str, SecondEngine]] = {
    ONNX: SecondEngine(
        onnxruntime.LIBRARY,
        "onnxruntime",
        "onnxruntime",
        onnxruntime.INSTALL,
        takes_odd=True,
        reference="onnx_reference",
    ),
    TFLITE: SecondEngine(
        "LiteRT",
        "ai_edge_litert",
        "ai-edge-litert",
        "pip install '.[litert]'",
        takes_odd=False,
        reference="lite_reference",
    ),
}
"""Second engines by the suffix of the model's file. Models of other formats have no second
engine."""
