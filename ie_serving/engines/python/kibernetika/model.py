"""Models with hooks around them, as one compiled model."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ie_serving.core.callers import taken
from ie_serving.core.errors import DeadlineExceeded, InvalidRequest, ServingError
from ie_serving.core.tensors import Array, Signature
from ie_serving.engines.python.kibernetika.asking import AskedModel, Asking
from ie_serving.engines.python.kibernetika.context import HookContext
from ie_serving.engines.python.kibernetika.functions import IGNORE, Functions, Hook
from ie_serving.engines.python.kibernetika.linked import LinkedModel, arrays_of, plain
from ie_serving.engines.python.kibernetika.turns import Turns
from ie_serving.engines.python.outputs import checked

T = TypeVar("T")


@dataclass(frozen=True)
class Stage:
    """One model of the chain, and the hooks around it."""

    pre: Hook | None
    model: LinkedModel
    post: Hook | None


class HookedModel:
    """See `engines.base.CompiledModel`.

    Args of the constructor:
        file: of the hooks, for errors; empty where there are none.
        signature: what clients see.
        stages: in order.
        functions: of the file.
        asking: by which hooks ask models.
        turns: where hooks run.
        timeout_s: longest time of a request; None sets no limit.
        freed: called last by `close`.

    Attributes:
        global_ctx: what `init_hook`, or later `update_hook`, returned.
        update: takes other parameters; None where the model has to be loaded anew.
    """

    def __init__(
        self,
        file: str,
        signature: Signature,
        stages: Sequence[Stage],
        functions: Functions,
        asking: Asking,
        turns: Turns,
        *,
        timeout_s: float | None,
        freed: Callable[[], object],
    ) -> None:
        self._file = file
        self._signatures = {signature.name: signature}
        self._stages = tuple(stages)
        self._process = functions.process
        self._asking = asking
        self._turns = turns
        self._timeout_s = timeout_s
        self._freed = freed
        self._drivers = [AskedModel(asking, stage.model) for stage in stages]
        self.global_ctx: object = None
        self.update: Callable[[Mapping[str, Any]], object] | None = None

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """See `engines.base`."""
        return self._signatures

    def context(self) -> HookContext:
        """Make the context of `init_hook` and `update_hook`."""
        return HookContext(self._drivers, self.global_ctx)

    def infer(
        self,
        signature: Signature,
        inputs: Mapping[str, Array],
        read: Callable[[Mapping[str, Array]], T],
    ) -> Coroutine[Any, Any, T]:
        """See `engines.base`."""
        if self._asking.loop is None:
            self._asking.loop = asyncio.get_running_loop()
        ctx = HookContext(self._drivers, self.global_ctx, taken())
        work = self._answered(signature, inputs, read, ctx)
        return work if self._timeout_s is None else self._limited(work, self._timeout_s)

    def at_once(self, signature: Signature) -> int:
        """See `engines.base`."""
        model = self._stages[0].model
        return model.compiled.at_once(model.signature) if model.compiled else 1

    def close(self) -> None:
        """See `engines.base`."""
        self._freed()

    async def _limited(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        try:
            return await asyncio.wait_for(work, timeout_s)
        except asyncio.TimeoutError:
            raise DeadlineExceeded(
                f"the hooks did not answer within {timeout_s * 1e3:g} ms (timeout_ms of the model)"
            ) from None

    async def _answered(
        self,
        signature: Signature,
        given: Mapping[str, Any],
        read: Callable[[Mapping[str, Array]], T],
        ctx: HookContext,
    ) -> T:
        """Run the models in order, each with its hooks. Written out: every request does it."""
        turns = self._turns
        if self._process is not None:
            done = turns.at_once(self._process, given, ctx)
            given = done if done is not None else await turns.run(self._process, given, ctx)
        for stage in self._stages if self._process is None else ():
            ignored = False
            if stage.pre is not None:
                done = turns.at_once(stage.pre, given, ctx)
                given = done if done is not None else await turns.run(stage.pre, given, ctx)
                if IGNORE in given:
                    ignored = bool(given[IGNORE])
                    given = {name: value for name, value in given.items() if name != IGNORE}
            if ctx.skipped is not None:
                ignored, given, ctx.skipped = True, ctx.skipped or given, None
            if not ignored:
                try:
                    given = await stage.model.infer(given)
                except InvalidRequest as error:
                    # What a client sent is its own fault, what a hook or another model gave is not.
                    if stage.pre is None and stage is self._stages[0]:
                        raise
                    raise _blamed(stage, error) from error
            if stage.post is not None:
                done = turns.at_once(stage.post, given, ctx)
                given = done if done is not None else await turns.run(stage.post, given, ctx)
        return read(self._outputs(signature, given))

    def _outputs(self, signature: Signature, found: Mapping[str, Any]) -> Mapping[str, Array]:
        if signature.outputs:
            return checked(self._file, found, signature.outputs)
        try:
            return arrays_of(found, _or_json)
        except (InvalidRequest, TypeError, ValueError) as error:
            raise ServingError(f"hooks {self._file} returned what is no tensor: {error}") from error


def _blamed(stage: Stage, error: InvalidRequest) -> ServingError:
    before = stage.pre.name if stage.pre else "the model before"
    return ServingError(f"{before} gave what {stage.model.link.path} does not take: {error}")


def _or_json(value: object) -> Array:
    """Write what is no tensor, but has a JSON, as one text: objects, and lists that hold some."""
    holds = isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(each, dict) for each in value)
    )
    return plain(json.dumps(value) if holds else value)
