"""What an engine promises: a directory becomes a compiled model, numpy in and numpy out.

Settings hold `EngineOptions`, and the arbiter holds settings: numpy is not imported at run time.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Mapping,
)
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from ie_serving.core.values.callers import Caller
    from ie_serving.core.values.errors import ServingError
    from ie_serving.core.values.tensors import Array, Signature

T = TypeVar("T")
Own = TypeVar("Own")
AUTO = "auto"
"""Driver of models whose options name none: the first that claims the files."""
GATHERED: ContextVar[bool] = ContextVar("gathered", default=False)
"""Whether the inference is for several requests that were gathered, of which more are on their way.
Not an argument: layers lie between who gathers and what infers."""
Dimension = int | tuple[int, int]
"""A fixed size, -1 for any, or an inclusive range."""


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """How one model is to be compiled; the engine's part of a model's configuration."""

    driver: str = AUTO
    """Name of the driver that compiles the model, or `auto`."""

    nireq: int = 0
    """Infer requests run at once; 0 lets the engine choose."""

    ahead: bool = False
    """Whether the engine is to take one inference more than it runs; one that cannot does not."""

    execution: str = "auto"
    """`inline` infers on the event loop, `async` beside it, `auto` as the measured time says."""

    image_inputs: bool = True
    """Take encoded images for inputs that look like images. Nothing is added for other inputs, nor
    for numbers; `false` keeps what strangers send from the decoders of images."""

    verify: str = AUTO
    """`auto` compares a version with a second engine where one is installed for its format, before
    it serves; `require` lets OpenVINO serve only what was compared; `off` compares nothing."""

    cache_dir: Path | None = None
    """Where compiled models are kept between starts; None keeps none."""

    params: Mapping[str, object] = field(default_factory=dict)
    """What the model's own driver is told beyond its files; types are those of JSON."""

    allow_pickle: bool = False
    """Read pickles, which run whatever code whoever wrote them has put in."""

    allow_python: bool = False
    """Run Python code that a model names or brings along."""

    own: tuple[object, ...] = ()
    """What single drivers know beyond that: at most one value of each driver's type."""

    def of(self, kind: type[Own]) -> Own:
        """Give a driver's own options, by their type; its defaults where there are none."""
        return next((each for each in self.own if isinstance(each, kind)), None) or kind()

    def having(self, own: object) -> EngineOptions:
        """Copy with `own` in place of what is there of its type; defaults are not kept.

        So options that mean the same are equal, and a model whose options are equal is not loaded
        anew.
        """
        others = tuple(each for each in self.own if type(each) is not type(own))
        return replace(self, own=others if own == type(own)() else (*others, own))


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
            signature: one of `signatures` that is not left out.
            inputs: exactly the signature's inputs; dtypes and shapes as its specs admit.
            read: called once with the outputs by name, before their memory is used again: it
                must copy whatever it keeps. In any thread.

        Raises:
            InvalidTensor: a value or shape that the engine cannot take.
            ServingError: the engine failed; nothing of the request remains.
            asyncio.CancelledError: passed on; the infer request goes back once it is idle.
        """

    def at_once(self, signature: Signature) -> int:
        """Tell how many inferences of a signature run at once; others wait. 1 if it is unknown."""

    def close(self) -> None:
        """Free everything. Called once, when nothing infers any more. Blocking."""


class Stream(Protocol):
    """Answers all requests of one client: what a model may have beside `infer`, as `stream`."""

    def __call__(
        self,
        signature: Signature,
        inputs: AsyncIterator[Mapping[str, Array]],
        read: Callable[[Mapping[str, Array]], T],
        caller: Caller,
    ) -> AsyncGenerator[T | ServingError, None]:
        """Give none, one or several replies for each of the inputs, in the order that it likes.

        Args:
            signature: as of `CompiledModel.infer`.
            inputs: each as of `CompiledModel.infer`; asked for when the model wants the next.
            read: called with the outputs of each reply, in any thread.
            caller: who asks.

        Raises:
            ServingError: the stream has failed as a whole. What is wrong with one reply is given
                in its place.
        """


def stream_of(model: CompiledModel) -> Stream | None:
    """Give the stream that a model has of its own; None where each request is answered alone."""
    stream: Stream | None = getattr(model, "stream", None)
    return stream


def leave_of(model: CompiledModel) -> Callable[[], object] | None:
    """Give what closes all of a model that is more than memory, as the process ends. Blocking.

    A model tells by an attribute `leave`, which may be None; one without it is closed.
    """
    leave: Callable[[], object] | None = getattr(model, "leave", model.close)
    return leave


def leave_of_all(models: Iterable[CompiledModel]) -> Callable[[], object] | None:
    """Give the same for several models, of which each is left whatever the others raise."""
    found = [leave for model in models if (leave := leave_of(model)) is not None]
    if not found:
        return None
    leaving = ExitStack()
    for leave in found:
        leaving.callback(leave)
    return leaving.close


def takes_ahead(model: CompiledModel, signature: Signature) -> bool:
    """Tell whether a model takes an inference more than it runs, and goes on with that by itself.

    Where a model has a method `ahead` for it; its options must have asked for it.
    """
    ahead: Callable[[Signature], bool] | None = getattr(model, "ahead", None)
    return ahead is not None and ahead(signature)


class Engine(Protocol):
    """What makes compiled models of version directories."""

    @property
    def name(self) -> str:
        """What a configuration calls it."""

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


class Driver(Engine, Protocol):
    """An engine among others."""

    def claims(self, directory: Path) -> bool:
        """Tell, from the files of a complete version, whether this driver is to compile it."""
