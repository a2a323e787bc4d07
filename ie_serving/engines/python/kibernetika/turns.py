"""Where a hook runs: short ones on the event loop, others in threads of the version.

A thread costs some 100 us, and on the loop a hook holds every other request up. So each is measured
in a thread first, by the size of what it is given, as inferences are (`run/latency_model.py`).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from ie_serving.core.errors import NotAvailable, QueueFull, ServingError
from ie_serving.engines.python.daemons import DaemonThreads
from ie_serving.engines.python.kibernetika.asking import Asking
from ie_serving.engines.python.kibernetika.context import HookContext
from ie_serving.engines.python.kibernetika.functions import Hook
from ie_serving.engines.python.kibernetika.linked import PLAIN
from ie_serving.engines.run.function import one_line
from ie_serving.engines.run.latency_model import CEILING_S, WEIGHT, LatencyModel
from ie_serving.engines.run.pool import MOST_WAITING
from ie_serving.telemetry.logs import Event

log = logging.getLogger(__name__)

NEVER = 1e9
"""Seconds that are taken for a size that no thread has measured."""


class Turns:
    """Runs the hooks of one version. Used from one event loop at a time.

    Args of the constructor:
        file: that they stand in, for errors.
        asking: whether one of them waits for models.
        most: hooks that run at a time.
        execution: see `EngineOptions.execution`.
    """

    def __init__(self, file: str, asking: Asking, most: int, execution: str) -> None:
        self._file = file
        self._asking = asking
        self._most = most
        self._execution = execution
        self._threads = DaemonThreads(most)
        self._latency: dict[str, LatencyModel] = {}
        self._running = 0

    def at_once(
        self, hook: Hook, tensors: Mapping[str, Any], ctx: HookContext
    ) -> "dict[str, Any] | None":
        """Call a hook that is short, here; None where it is not known to be.

        Raises:
            ServingError: it failed, or returned something else than a dict.
        """
        if self._asking.blocks or self._running >= self._most:
            return None
        latency = self._latency.get(hook.name) or self._new(hook.name)
        size = 0  # as `_size`, without the call for numbers
        for each in tensors.values():
            plain = type(each) is np.ndarray and each.dtype.kind in PLAIN
            size += each.size if plain else _size(each)
        bucket = size.bit_length()
        mean_s = latency.mean_s.get(bucket, NEVER)
        if mean_s > latency.longest_inline_s:
            return None
        began = time.perf_counter()
        found = self._called(hook, tensors, ctx)
        seen_s = time.perf_counter() - began  # as `LatencyModel.learn`, without the call
        latency.mean_s[bucket] = mean_s + WEIGHT * (min(seen_s, CEILING_S) - mean_s)
        if isinstance(found, ServingError):
            raise found
        return found

    async def run(self, hook: Hook, tensors: Mapping[str, Any], ctx: HookContext) -> dict[str, Any]:
        """Call a hook in a thread, and learn how long it takes. Raises: as `at_once`."""
        found, took_s = await self._in_thread(hook, tensors, ctx)
        if self._running == 0:
            latency = self._latency.get(hook.name) or self._new(hook.name)
            latency.learn(sum(map(_size, tensors.values())).bit_length(), took_s)
        if isinstance(found, ServingError):
            raise found
        return found

    def close(self) -> None:
        """End the threads; one that hangs is left alone."""
        self._threads.shutdown()

    def _new(self, name: str) -> LatencyModel:
        made = self._latency[name] = LatencyModel(self._execution)
        return made

    def _called(
        self, hook: Hook, tensors: Mapping[str, Any], ctx: HookContext
    ) -> "dict[str, Any] | ServingError":
        """Call a hook, wherever this is; give the error that it failed with."""
        try:
            given = dict(tensors)
            # As kibernetika-serving gave them: authors compute in place. A request's arrays may be
            # its bytes.
            for name, each in tensors.items():
                if isinstance(each, np.ndarray) and not each.flags.writeable:
                    given[name] = each.copy()
            found = hook.call(given, ctx)
        except ServingError as error:
            return error
        # Whoever ends the program in a hook ends the request. On the event loop nothing else raises
        # these here: signals have handlers of their own, and a task is cancelled at an await.
        except BaseException as error:
            return self._failed(hook, error, ctx)
        if isinstance(found, dict):
            return found
        if isinstance(found, Mapping):
            return dict(found)
        has = "nothing" if found is None else f"a {type(found).__name__}"
        return ServingError(f"{hook.name} of {self._file} returned {has}; expected a dict by name")

    def _failed(self, hook: Hook, error: BaseException, ctx: HookContext) -> ServingError:
        name = f"{self._file}:{hook.name}"
        log.error(Event("kernel failed", kernel=name, request_id=ctx.request_id), exc_info=error)
        text = f"hook {name} failed: {type(error).__name__}: {one_line(error)}"
        return QueueFull(text) if isinstance(error, MemoryError) else ServingError(text)

    async def _in_thread(
        self, hook: Hook, tensors: Mapping[str, Any], ctx: HookContext
    ) -> "tuple[dict[str, Any] | ServingError, float]":
        if self._running >= MOST_WAITING:
            raise QueueFull(f"{MOST_WAITING} calls wait for these hooks already: ask again later")
        loop = self._asking.loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        self._running += 1
        try:
            self._threads.submit(self._work, hook, tensors, ctx, done, loop, _left(ctx))
        except RuntimeError as error:
            self._running -= 1
            raise NotAvailable(f"no thread takes the call: {error}") from error
        return await done  # type: ignore[no-any-return]

    def _work(
        self,
        hook: Hook,
        tensors: Mapping[str, Any],
        ctx: HookContext,
        done: "asyncio.Future[Any]",
        loop: asyncio.AbstractEventLoop,
        left_s: Callable[[], float | None],
    ) -> None:
        """Call a hook in a thread; raises nothing."""
        self._asking.left_s.tell = left_s
        began = time.perf_counter()
        found: dict[str, Any] | ServingError
        try:
            # A client that has left needs no answer.
            found = {} if done.cancelled() else self._called(hook, tensors, ctx)
        # All: an error that ended the thread would leave the call waiting for ever.
        except BaseException as error:
            found = ServingError(f"hook {hook.name} failed: {type(error).__name__}")
        answer = found, time.perf_counter() - began
        with suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(self._settle, done, answer)

    # Here, not where the answer is awaited: a hook whose client has left runs on.
    def _settle(self, done: "asyncio.Future[Any]", answer: object) -> None:
        self._running -= 1
        if not done.done():
            done.set_result(answer)


def _left(ctx: HookContext) -> Callable[[], float | None]:
    deadline = ctx.deadline
    return lambda: None if deadline is None else max(0.0, deadline - time.time())


def _size(value: object) -> int:
    """Count elements; a string counts its bytes, since the time to decode an image follows them."""
    size: int = getattr(value, "size", 1)
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        size += sum(len(text) for text in value.ravel().tolist() if isinstance(text, bytes))
    return size
