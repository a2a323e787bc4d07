"""The second engines by file format, and the protocol by which the comparison runs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol, cast

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import Arrays
from ie_serving.engines.generated import GeneratedInput
from ie_serving.engines.onnxruntime import driver as onnxruntime
from ie_serving.engines.openvino.reading.formats import ONNX, TFLITE
from ie_serving.engines.verification.comparison import Tensors

ROOM = "ie_serving.engines.verification"


class Refused(ServingError):
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
    tensors: Tensors

    def run(self, inputs: Arrays) -> Arrays:
        """Infer once. Raises: Refused."""


@dataclass(frozen=True)
class SecondEngine:
    """One second engine.

    Attributes:
        library: its name in texts.
        module: imported name of its library.
        package: distribution whose release a verdict depends on.
        install: the command that installs it.
        takes_odd: whether it gets requests with NaN and the like that OpenVINO answers otherwise.
        place: module of this package whose `opened` gives a `Reference` for each signature.
    """

    library: str
    module: str
    package: str
    install: str
    takes_odd: bool
    place: str

    @property
    def is_installed(self) -> bool:
        """Whether its library is installed; does not import it."""
        return find_spec(self.module) is not None

    def opened(self, file: Path) -> Sequence[Reference]:
        """Open a file: imports the library. Raises: LoadFailed."""
        return cast("Sequence[Reference]", import_module(f"{ROOM}.{self.place}").opened(file))


BY_SUFFIX: Final[Mapping[str, SecondEngine]] = {
    ONNX: SecondEngine(
        onnxruntime.LIBRARY,
        "onnxruntime",
        "onnxruntime",
        onnxruntime.INSTALL,
        takes_odd=True,
        place="onnx_reference",
    ),
    TFLITE: SecondEngine(
        "LiteRT",
        "ai_edge_litert",
        "ai-edge-litert",
        "pip install '.[litert]'",
        takes_odd=False,
        place="lite_reference",
    ),
}
"""By the suffix of the file. Models of other formats have no second engine."""
