"""The protocols of engines: an engine compiles a directory to a model, numpy in and numpy out.

Numpy is not imported here at run time: the arbiter process holds settings with `EngineOptions`.
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ie_serving.core.settings import structures, words
from ie_serving.core.settings.declaration import BOOLEAN, SettingKind, choice, whole

if TYPE_CHECKING:
    from ie_serving.core.values.errors import InvalidTensor, ServingError
    from ie_serving.core.values.requests import Caller
    from ie_serving.core.values.tensors import Arrays, Read, Signature

T = TypeVar("T")
OwnT = TypeVar("OwnT")
DRIVER = SettingKind(words.text, "TEXT")
"""The driver's name; `config/schema/model.py` has the names there are, whose table imports this."""
NOTHING = "the model is missing"
"""First words of an engine's error when it finds nothing of a model."""
AUTO = "auto"
"""Driver of models whose options name none: the first that claims the files."""
GATHERED: ContextVar[bool] = ContextVar("gathered", default=False)
"""True while a batch of several requests is inferred and more requests are expected. Not an
argument: other layers lie between the layer that batches and the program that infers."""
REHEARSED: ContextVar[bool] = ContextVar("rehearsed", default=False)
"""True while a version is asked and no client gets the answer: to warm it up, for golden requests,
or as the shadow of another one."""


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """How one model is compiled; the engine's part of a model's configuration."""

    driver: str = DRIVER.setting(
        AUTO,
        "library that runs the model, or a driver of another package; auto: by the files, and"
        " onnxruntime for ONNX with operators of ai.onnx.ml",
        "openvino",
    )
    params: Mapping[str, object] = SettingKind(structures.params, "JSON").setting(
        {},
        "parameters for the driver beyond the files; docs/guide/libraries.md has the words of each",
        '{"inputs": {"text": {"dtype": "string", "shape": [-1]}}}',
        shown="{}",
    )
    """Types are those of JSON."""

    # Each infer request has tensors of its own: far fewer than 100,000 exhaust any memory.
    nireq: int = whole(0, 100_000).setting(
        0, "infer requests run at once; 0 lets the engine choose", "4", ovms="nireq"
    )
    image_inputs: bool = BOOLEAN.setting(
        True, "take JPEG, PNG or WebP as strings for inputs of four dimensions with 1 or 3 channels"
    )
    """Take encoded images for inputs that look like images. Other inputs, and numbers, do not
    change; `false` keeps untrusted data from the image decoders."""

    verify: str = choice("auto", "off", "require").setting(
        AUTO,
        "compare ONNX models with onnxruntime and TFLite with LiteRT before they serve: where"
        " these are installed; never; always, so that OpenVINO serves nothing that was not"
        " compared",
        "require",
    )
    # The setting serves for measurements, and for models for which `auto` chooses wrongly.
    execution: str = choice("auto", "inline", "async").setting(
        "auto", "infer on the event loop or beside it; auto: short inferences on it", "async"
    )
    # The setting is one of the server: the right to write a repository or the configuration must
    # not include the right to run code here.
    allow_pickle: bool = BOOLEAN.setting(
        False,
        "read models from pickles (*.pkl, *.joblib), which may run any code when read",
        word="",
        flag="allow_pickle",
        tfs="allow_pickle",
    )
    allow_python: bool = BOOLEAN.setting(
        False,
        "run Python code that a model names or brings along",
        word="",
        flag="allow_python",
        tfs="allow_python",
    )
    saved_model_tags: tuple[str, ...] = ("serve",)
    """Tags of the graph of a SavedModel that is served."""

    ahead: bool = False
    """Queue one inference in the engine beyond the running ones, where the engine can."""

    cache_dir: Path | None = None
    """Directory of compiled models kept between starts; None keeps none."""

    own: tuple[object, ...] = ()
    """Further options of single drivers: at most one value of each driver's type."""

    def of(self, kind: type[OwnT]) -> OwnT:
        """Give a driver's own options, by their type; its defaults where there are none."""
        return next((each for each in self.own if isinstance(each, kind)), None) or kind()

    def having(self, own: object) -> EngineOptions:
        """Copy with `own` in place of the value of the same type; defaults are not kept.

        So options with the same meaning are equal, and a model whose options are equal is not
        loaded again.
        """
        others = tuple(each for each in self.own if type(each) is not type(own))
        return replace(self, own=others if own == type(own)() else (*others, own))


class CompiledModel(Protocol):
    """One version, ready to infer. Used from one event loop.

    Classes that inherit from it have `ahead`, `stream`, `update` and `leave` of a model that has
    nothing special. A model of a third party may lack these four (`drivers.ThirdPartyDriver`).
    """

    signatures: Mapping[str, Signature]
    """Signatures by name; `serving_default` is the one without a name in requests."""

    async def infer(self, signature: Signature, inputs: Arrays, read: Read[T]) -> T:
        """Run once and return what `read` makes of the outputs.

        Args:
            signature: one of `signatures` that is not left out.
            inputs: exactly the signature's inputs; dtypes and shapes as its specs admit.
            read: called once with the outputs by name, before their memory is used again, so it
                must copy the values it keeps. In any thread.

        Raises:
            InvalidTensor: a value or shape that the engine cannot take.
            ServingError: the engine failed; nothing of the request remains.
            asyncio.CancelledError: passed on; the infer request goes back once it is idle.
        """

    async def infer_as_sent(
        self,
        signature: Signature,
        inputs: Arrays,
        outputs: Collection[str],
        refusal: InvalidTensor,
        read: Read[T],
    ) -> T:
        """Run once for shapes that the specs refuse, where TensorFlow's session would take them.

        Args:
            signature: one whose `as_sent` is set.
            inputs: named by the client; none is checked yet.
            outputs: names of the requested outputs.
            refusal: the error of the shapes.
            read: argument of `infer`.

        Raises:
            InvalidTensor: `refusal`, where TensorFlow would refuse the shapes, too, or might.
        """
        raise refusal

    def at_once(self, signature: Signature) -> int:
        """Tell how many inferences of a signature run at once; others wait. 1 if it is unknown."""

    def ahead(self, signature: Signature) -> bool:
        """Tell whether the model queues one inference beyond the running ones.

        The option `ahead` must be set as well.
        """
        return False

    @property
    def stream(self) -> Stream | None:
        """The model's own stream; None where each request is answered alone."""
        return None

    @property
    def update(self) -> Callable[[Mapping[str, Any]], object] | None:
        """The function that takes new `params`, in a thread; None where they need a new load."""
        return None

    @property
    def leave(self) -> Callable[[], object] | None:
        """The function that closes all but memory at exit, blocking; None if that is all."""
        return self.close

    def close(self) -> None:
        """Free everything. Called once, when nothing infers any more. Blocking."""


class Stream(Protocol):
    """Answers all requests of one client; a model may have one, beside `infer`."""

    def __call__(
        self, signature: Signature, inputs: AsyncIterator[Arrays], read: Read[T], caller: Caller
    ) -> AsyncGenerator[T | ServingError, None]:
        """Give none, one or several replies for each of the inputs, in any order.

        Args:
            signature: signature, as in `CompiledModel.infer`.
            inputs: each as of `CompiledModel.infer`; taken when the model wants the next.
            read: called with the outputs of each reply, in any thread.
            caller: the client's identity.

        Raises:
            ServingError: the stream has failed as a whole. The error of a single reply is yielded
                in place of that reply.
        """


def leave_of_all(models: Iterable[CompiledModel]) -> Callable[[], object] | None:
    """Give one such function for several models; an exception of one does not stop the others."""
    found = [leave for model in models if (leave := model.leave) is not None]
    if not found:
        return None
    leaving = ExitStack()
    for leave in found:
        leaving.callback(leave)
    return leaving.close


class Engine(Protocol):
    """Compiles version directories to models."""

    @property
    def name(self) -> str:
        """Its name in a configuration."""

    def missing(self, files: Collection[str]) -> str | None:
        """Name the files that a version directory still lacks before it can be compiled.

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
        """Tell, from the files of a complete version, whether this driver can compile it."""


class EngineAround:
    """Passes everything but `compile` on to `engine`. See `engines.base.Engine`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.name = engine.name

    def missing(self, files: Collection[str]) -> str | None:
        """See `engines.base`."""
        return self._engine.missing(files)
