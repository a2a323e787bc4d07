"""The contexts that a kernel gets beside tensors: at its load, and with each call."""

import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from ie_serving.core.runtime.scratch import Scratch
from ie_serving.core.values.codes import ERROR_OF, Code
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.requests import Caller
from ie_serving.engines.python.asking import AskableModels, NamedModels, RunnerSlot

REQUEST_ID = "x-request-id"
"""Header by which callers name their requests."""

log = logging.getLogger("ie_serving.kernel")
"""The logger of kernels."""


def kernel_scratch() -> Scratch:
    """Name a directory for a kernel's own files."""
    return Scratch("ie_serving_kernel_")


class Context:
    """One call, as its kernel sees it.

    Attributes:
        request_id: the header `x-request-id`, or a generated id.
        headers: headers of the request by name, in lower case; metadata over gRPC.
        deadline: Unix time at which the caller gives up; None where none is known.
        state: data for the kernel's own use; it ends with the call.
        skipped: the argument of `skip`.
        slot: slot in which the call runs; None before it does.
        shared: it runs in a thread that all models share.
    """

    def __init__(
        self,
        caller: Caller,
        models: AskableModels | None = None,
        timeout_s: float | None = None,
        *,
        shared: bool = False,
    ) -> None:
        self.headers = caller.headers
        self.request_id = caller.headers.get(REQUEST_ID) or uuid.uuid4().hex
        limits = [each for each in (caller.remaining_s, timeout_s) if each is not None]
        self.deadline = time.time() + min(limits) if limits else None
        self.slot: RunnerSlot | None = None
        self.shared = shared
        self._models = models
        self.state: dict[str, Any] = {}
        self.log = log
        self.skipped: Mapping[str, Any] | None = None

    @property
    def models(self) -> NamedModels:
        """The other models of the server, by name."""
        return NamedModels(self._models, self)

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
    # Kernels are not type-checked: the number of a code is a mistake like any other word.
    kind = ERROR_OF.get(Code.__members__.get(str(code).upper(), Code.OK))
    if kind is None:
        known = ", ".join(Code(each).name for each in ERROR_OF)
        return ServingError(f"{text} (the kernel gave the code {code!r}; expected one of {known})")
    return kind(text)


@dataclass(frozen=True)
class LoadContext:
    """The context of a kernel's `load`.

    Attributes:
        name: name of the model.
        version: its number; None where the directory's name is no number.
        path: the version's directory, read-only.
        params: params of the model's entry, with the types of JSON.
        own_process: the kernel has a process of its own: its environment, its working directory.
    """

    name: str
    version: int | None
    path: Path
    params: Mapping[str, Any]
    own_process: bool = False
    log: logging.Logger = field(default=log)
    _scratch: Scratch = field(default_factory=kernel_scratch, repr=False)

    @property
    def scratch_dir(self) -> Path:
        """A directory to write to, which goes with the version."""
        return self._scratch.made()

    def close(self) -> None:
        """Remove the scratch directory, if there is one."""
        self._scratch.close()
