"""What a kernel is given beside the tensors: at its load, and with each call."""

import asyncio
import logging
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from ie_serving.core.callers import Caller
from ie_serving.core.codes import ERROR_OF, Code
from ie_serving.core.errors import DeadlineExceeded, NotAvailable, ServingError
from ie_serving.core.requests import ModelSpec
from ie_serving.core.tensors import Array, TensorSpec
from ie_serving.engines.others import Others
from ie_serving.engines.python.outputs import array_of

REQUEST_ID = "x-request-id"
"""Header by which callers name their requests."""

log = logging.getLogger("ie_serving.kernel")
"""What kernels log."""


class ModelHandle:
    """Another model of the server. Used in a kernel's threads."""

    def __init__(
        self, models: "Models", spec: ModelSpec, left_s: Callable[[], float | None]
    ) -> None:
        self._models = models
        self._spec = spec
        self._left_s = left_s

    @property
    def inputs(self) -> Mapping[str, TensorSpec]:
        """What it takes, by name."""
        return self._models.others.signature(self._spec).inputs

    @property
    def outputs(self) -> Mapping[str, TensorSpec]:
        """What it gives, by name."""
        return self._models.others.signature(self._spec).outputs

    def predict(self, inputs: Mapping[str, Any]) -> Mapping[str, Array]:
        """Ask it, and wait for its answer.

        Raises:
            ServingError: what a client would be told.
            DeadlineExceeded: the caller's time is over.
        """
        arrays = {name: array_of(value) for name, value in inputs.items()}
        asked = asyncio.run_coroutine_threadsafe(
            _awaited(self._models.others, self._spec, arrays), self._models.loop
        )
        try:
            return asked.result(self._left_s())
        except (TimeoutError, FutureTimeout):  # one class since Python 3.11
            asked.cancel()
            raise DeadlineExceeded(f'"{self._spec.name}" did not answer in time') from None


# A coroutine of its own: run_coroutine_threadsafe takes no other awaitable.
async def _awaited(
    others: Others, spec: ModelSpec, inputs: Mapping[str, Array]
) -> Mapping[str, Array]:
    return await others.infer(spec, inputs)


@dataclass(frozen=True)
class Models:
    """The models that serve, and the event loop on which they do."""

    others: Others
    loop: asyncio.AbstractEventLoop

    def handle(
        self, name: str, version: int | None, signature: str, left_s: Callable[[], float | None]
    ) -> ModelHandle:
        """Give one of them by its name; whether there is one, its first use tells."""
        return ModelHandle(self, ModelSpec(name, version, signature=signature), left_s)


class Named:
    """`ctx.models`: the other models by name.

    Args of the constructor:
        models: None where none can be asked.
        left_s: tells the seconds that are left.
    """

    def __init__(self, models: Models | None, left_s: Callable[[], float | None]) -> None:
        self._models = models
        self._left_s = left_s

    def __getitem__(self, name: str) -> ModelHandle:
        return self(name)

    def __call__(self, name: str, version: int | None = None, signature: str = "") -> ModelHandle:
        """Give a model, or one version or signature of it."""
        if self._models is None:
            raise NotAvailable(
                "no other model can be asked here: only a kernel in a server can ask one, and none"
                ' of isolation "process"'
            )
        return self._models.handle(name, version, signature, self._left_s)


class Context:
    """One call, as its kernel sees it.

    Attributes:
        request_id: the header `x-request-id`, or one that is made up.
        headers: of the request by name, in lower case; metadata over gRPC.
        deadline: Unix time at which the caller gives up; None where none is known.
        models: the other models of the server, by name.
        state: for the kernel's own use; it ends with the call.
        skipped: what `skip` was given.
    """

    def __init__(
        self, caller: Caller, models: Models | None = None, timeout_s: float | None = None
    ) -> None:
        self.headers = caller.headers
        self.request_id = caller.headers.get(REQUEST_ID) or uuid.uuid4().hex
        limits = [each for each in (caller.remaining_s, timeout_s) if each is not None]
        self.deadline = time.time() + min(limits) if limits else None
        self.models = Named(models, self.time_left)
        self.state: dict[str, Any] = {}
        self.log = log
        self.skipped: Mapping[str, Any] | None = None

    def time_left(self) -> float | None:
        """Give the seconds until the deadline; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.time())

    def fail(self, code: str, text: str) -> NoReturn:
        """End the call with an error of a canonical code, such as `INVALID_ARGUMENT`."""
        raise failure(code, text)

    def skip(self, outputs: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Say that nothing behind this has to run: `outputs` are the answer. Returns them."""
        self.skipped = dict(outputs or {})
        return self.skipped


def failure(code: str, text: str) -> ServingError:
    """Make the error of a canonical code; of one that is none, the error says which there are."""
    kind = ERROR_OF.get(Code.__members__.get(code.upper(), Code.OK))
    if kind is None:
        known = ", ".join(Code(each).name for each in ERROR_OF)
        return ServingError(f"{text} (the kernel gave the code {code!r}; expected one of {known})")
    return kind(text)


@dataclass(frozen=True)
class LoadContext:
    """What a kernel's `load` is told.

    Attributes:
        name: of the model.
        version: its number; None where the directory's name is none.
        path: the version's directory. Read it only.
        params: of the model's entry, with the types of JSON.
    """

    name: str
    version: int | None
    path: Path
    params: Mapping[str, Any]
    log: logging.Logger = field(default=log)

    @cached_property
    def scratch_dir(self) -> Path:
        """A directory to write to, which goes with the version."""
        return Path(self._scratch.name)

    @cached_property
    def _scratch(self) -> "tempfile.TemporaryDirectory[str]":
        return tempfile.TemporaryDirectory(prefix="ie_serving_kernel_")

    def close(self) -> None:
        """Remove the scratch directory, if there is one."""
        if "_scratch" in vars(self):
            self._scratch.cleanup()
