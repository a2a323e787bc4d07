"""Where a hook runs: short ones on the event loop, others in threads of the version.

A thread costs some 100 us, and on the loop a hook holds every other request up. So each is measured
in a thread first, by the size of what it is given, as inferences are (`run/latency_model.py`).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from ie_serving.compat.kibernetika.hooks.asking import ModelAccess
from ie_serving.compat.kibernetika.hooks.context import HookContext
from ie_serving.compat.kibernetika.hooks.functions import Hook
from ie_serving.core.runtime.threads import DaemonThreads, tell
from ie_serving.core.values.errors import NotAvailable, QueueFull, ServingError
from ie_serving.core.values.fit import ARRAY
from ie_serving.engines.python.runners import for_client
from ie_serving.engines.run import forks
from ie_serving.engines.run.function import one_line
from ie_serving.engines.run.infer_request import MOST_INFER_WAITERS
from ie_serving.engines.run.latency_model import CEILING_S, WEIGHT, LatencyModel
from ie_serving.telemetry.log.logs import Event, carried

log = logging.getLogger(__name__)

NEVER = 1e9
"""Seconds that are taken for a size that no thread has measured."""

OBJECTS = np.dtype(np.object_)
"""The dtype of arrays of texts."""


class HookTurns:
    """The hooks of one version: where they run. Used from one event loop at a time.

    Args of the constructor:
        file: file of the hooks, named in errors.
        asking: whether one of them waits for models.
        most: hooks that run at a time.
        execution: value of `EngineOptions.execution`.

    Attributes:
        running: hooks that threads run, or that wait for one.
        threads: threads that run the hooks.
        about: model and version, for log events.
    """

    def __init__(self, file: str, asking: ModelAccess, most: int, execution: str) -> None:
        self.file = file
        self.asking = asking
        self.most = most
        self.execution = execution
        self.running = 0
        self.threads = DaemonThreads(most)
        self.about = carried()

    def of(self, hook: Hook | None) -> "HookTurn | None":
        """Give what runs a hook; None for none."""
        return None if hook is None else HookTurn(self, hook)

    def close(self) -> None:
        """End the threads; one that hangs is left alone."""
        self.threads.shutdown(wait=False)


class HookTurn:
    """One hook, and how long it takes.

    Args of the constructor:
        turns: turns of its version.
        hook: the function.

    Attributes:
        name: name of the hook.
    """

    __slots__ = ("_call", "_latency", "_longest_inline_s", "_mean_s", "_turns", "name")

    def __init__(self, turns: HookTurns, hook: Hook) -> None:
        self.name = hook.name
        self._call = partial(forks.call, hook.name, hook.call)
        self._turns = turns
        self._latency = LatencyModel(turns.execution)
        self._mean_s = self._latency.mean_s
        self._longest_inline_s = self._latency.longest_inline_s

    def at_once(
        self, tensors: Mapping[str, Any], ctx: HookContext, own: dict[str, Any] | None = None
    ) -> dict[str, Any] | None:
        """Call the hook here, if it is short; None where it is not known to be.

        Args:
            tensors: arrays by name.
            ctx: context of the request.
            own: the same tensors, given if no other code has them: the hook may then change and
                keep these arrays. Without it the hook gets copies of those that it could change.

        Raises:
            ServingError: it failed, or returned something else than a dict.
        """
        turns = self._turns
        if turns.asking.blocks or turns.running >= turns.most:
            return None
        size = 0  # as `_size`, without the call for numbers
        for each in tensors.values():
            size += each.size if type(each) is ARRAY and each.dtype is not OBJECTS else _size(each)
        bucket = size.bit_length()
        mean_s = self._mean_s.get(bucket, NEVER)
        if mean_s > self._longest_inline_s:
            return None
        found: Any
        began = perf_counter()
        try:
            found = self._call(_writable(tensors) if own is None else own, ctx)
        # On the event loop nothing else raises what ends the program: signals have handlers of
        # their own, and a task is cancelled at an await.
        except BaseException as error:
            found = self._failed(error, ctx)
        else:
            if type(found) is not dict:
                found = self._by_name(found)
        seen_s = perf_counter() - began  # as `LatencyModel.learn`, without the call
        seen_s = seen_s if seen_s < CEILING_S else CEILING_S
        self._mean_s[bucket] = mean_s + WEIGHT * (seen_s - mean_s)
        if type(found) is not dict and isinstance(found, ServingError):
            raise found
        return found

    async def run(self, tensors: Mapping[str, Any], ctx: HookContext) -> dict[str, Any]:
        """Call the hook in a thread, and learn how long it takes. Raises: as `at_once`."""
        found, took_s = await self._in_thread(tensors, ctx)
        if self._turns.running == 0:
            self._latency.learn(sum(map(_size, tensors.values())).bit_length(), took_s)
        if isinstance(found, ServingError):
            raise found
        return found

    def _called(
        self, tensors: Mapping[str, Any], ctx: HookContext
    ) -> "dict[str, Any] | ServingError":
        """Call the hook in this thread; give the error that it failed with."""
        try:
            found = self._call(_writable(tensors), ctx)
        except BaseException as error:
            return self._failed(error, ctx)
        return self._by_name(found)

    def _by_name(self, found: object) -> "dict[str, Any] | ServingError":
        if isinstance(found, dict):
            return found
        if isinstance(found, Mapping):
            return dict(found)
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], HookContext):
            return self._by_name(found[0])
        has = "nothing" if found is None else f"a {type(found).__name__}"
        file = self._turns.file
        return ServingError(f"{self.name} of {file} returned {has}; expected a dict by name")

    def _failed(self, error: BaseException, ctx: HookContext) -> ServingError:
        """Give the request's error. A hook that ends the program ends the request alone."""
        if (meant := for_client(error)) is not None:
            return meant
        name = f"{self._turns.file}:{self.name}"
        with self._turns.about():
            event = Event("kernel failed", kernel=name, request_id=ctx.request_id)
            log.error(event, exc_info=error)
        text = f"hook {name} failed: {type(error).__name__}: {one_line(error)}"
        return QueueFull(text) if isinstance(error, MemoryError) else ServingError(text)

    async def _in_thread(
        self, tensors: Mapping[str, Any], ctx: HookContext
    ) -> "tuple[dict[str, Any] | ServingError, float]":
        turns = self._turns
        if turns.running >= MOST_INFER_WAITERS:
            raise QueueFull(
                f"{MOST_INFER_WAITERS} calls wait for these hooks already: ask again later"
            )
        loop = turns.asking.loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        turns.running += 1
        try:
            turns.threads.begin(self._work, tensors, ctx, done, loop, _left(ctx))
        except RuntimeError as error:
            turns.running -= 1
            raise NotAvailable(f"no thread takes the call: {error}") from error
        return await done  # type: ignore[no-any-return]

    def _work(
        self,
        tensors: Mapping[str, Any],
        ctx: HookContext,
        done: "asyncio.Future[Any]",
        loop: asyncio.AbstractEventLoop,
        left_s: Callable[[], float | None],
    ) -> None:
        """Call the hook in a thread; raises nothing."""
        self._turns.asking.left_s.tell = left_s
        began = perf_counter()
        found: dict[str, Any] | ServingError
        try:
            # A client that has left needs no reply.
            found = {} if done.cancelled() else self._called(tensors, ctx)
        # All: an error that ended the thread would leave the call waiting for ever.
        except BaseException as error:
            found = ServingError(f"hook {self.name} failed: {type(error).__name__}")
        result = found, perf_counter() - began
        tell(loop, self._settle, done, result)

    # Counts the hook as ended even if its client has left, which does not stop the hook.
    def _settle(self, done: "asyncio.Future[Any]", result: object) -> None:
        self._turns.running -= 1
        if not done.done():
            done.set_result(result)


def _writable(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Give what a hook may write to, as kibernetika-serving did: authors compute in place.

    The arrays of a request may be its bytes.
    """
    given = dict(tensors)
    for name, each in tensors.items():
        if isinstance(each, ARRAY) and not each.flags.writeable:
            given[name] = each.copy()
    return given


def _left(ctx: HookContext) -> Callable[[], float | None]:
    deadline = ctx.deadline
    return lambda: None if deadline is None else max(0.0, deadline - time.time())


def _size(value: object) -> int:
    """Count elements; a string counts its bytes, since the time to decode an image follows them."""
    size: int = getattr(value, "size", 1)
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        size += sum(len(text) for text in value.ravel().tolist() if isinstance(text, bytes))
    return size
