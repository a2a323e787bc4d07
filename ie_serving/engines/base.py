"""What an engine promises: a directory becomes a compiled model, numpy in and numpy out.

Settings hold `EngineOptions`, and the arbiter holds settings: numpy is not imported at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from ie_serving.tensors import Array, Signature

T = TypeVar("T")
Dimension = int | tuple[int, int]
"""A fixed size, -1 for any, or an inclusive range."""


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """How one model is to be compiled; the engine's part of a model's configuration."""

    target_device: str = "CPU"
    """OpenVINO device string, passed on as it is: `CPU`, `GPU`, `AUTO`, `HETERO:GPU,CPU`."""

    plugin_config: Mapping[str, str] = field(default_factory=dict)
    """Device properties, passed on as they are; names of 2020 are translated."""

    batch_size: int | None = None
    """First dimension of every input: a number, -1 for any (`auto`), None to keep the model's."""

    shape: Mapping[str, tuple[Dimension, ...]] | tuple[Dimension, ...] | str | None = None
    """New input shapes: by input name, one for the only input, `auto` for any, None to keep."""

    nireq: int = 0
    """Infer requests run at once; 0 lets the engine choose."""

    inference_precision: str = ""
    """`f32`, `bf16` or `f16`; empty keeps the device's own choice."""

    execution: str = "auto"
    """`inline` infers on the event loop, `async` beside it, `auto` as the measured time says."""

    cache_dir: Path | None = None
    """Where compiled models are kept between starts; None keeps none."""


class CompiledModel(Protocol):
    """One version, ready to infer. Used from one event loop."""

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """Signatures by name; `serving_default` is the one without a name in requests."""

    async def infer(
        self,
        signature: Signature,
        inputs: Mapping[str, Array],
        read: Callable[[Mapping[str, Array]], T],
    ) -> T:
        """Run once and return what `read` makes of the outputs.

        Args:
            signature: one of `signatures`.
            inputs: exactly the signature's inputs; dtypes and shapes as its specs admit.
            read: called once with the outputs by name, before their memory is used again: it
                must copy whatever it keeps. In any thread.

        Raises:
            InvalidTensor: a value or shape that the engine cannot take.
            ServingError: the engine failed; nothing of the request remains.
            asyncio.CancelledError: passed on; the infer request goes back once it is idle.
        """

    def close(self) -> None:
        """Free everything. Called once, when nothing infers any more. Blocking."""


class Engine(Protocol):
    """One way to make compiled models."""

    name: str

    def missing(self, files: Collection[str]) -> str | None:
        """Say what a version directory still lacks before it can be compiled.

        Args:
            files: paths relative to the version directory.

        Returns:
            None when complete; otherwise a phrase for the log, such as
            `model.bin is missing beside model.xml`.
        """

    def compile(self, directory: Path, options: EngineOptions) -> CompiledModel:
        """Read and compile the model in `directory`. Blocking, often for seconds.

        Raises:
            LoadFailed: naming the file, operation, device or option at fault.
        """
