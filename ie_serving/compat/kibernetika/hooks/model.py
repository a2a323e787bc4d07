"""Models with hooks around them, as one compiled model."""

import asyncio
import json
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ie_serving.compat.kibernetika.hooks.asking import AskedModel, ModelAccess
from ie_serving.compat.kibernetika.hooks.context import HookContext
from ie_serving.compat.kibernetika.hooks.functions import IGNORE
from ie_serving.compat.kibernetika.hooks.linked_model import PLAIN, LinkedModel, arrays_of, plain
from ie_serving.compat.kibernetika.hooks.turns import HookTurn
from ie_serving.core.values.errors import DeadlineExceeded, InvalidRequest, ServingError
from ie_serving.core.values.fit import ARRAY
from ie_serving.core.values.requests import CALLER, NO_CALLER
from ie_serving.core.values.tensors import Array, Arrays, Read, Signature
from ie_serving.engines.base import CompiledModel, leave_of_all
from ie_serving.engines.python.outputs import checked

T = TypeVar("T")


class HookStage(NamedTuple):
    """One model of the chain, and the hooks around it."""

    pre: HookTurn | None
    model: LinkedModel
    post: HookTurn | None


class HookedModel(CompiledModel):
    """See `engines.base.CompiledModel`.

    Args of the constructor:
        file: file of the hooks, for errors; empty where there are none.
        signature: public signature.
        stages: stages in order of execution.
        models: models of these, and those that hooks have loaded.
        process: answers the whole request in their place; None where there is none.
        asking: access of hooks to models.
        timeout_s: longest time of a request; None sets no limit.
        freed: called last by `close`.

    Attributes:
        global_ctx: result of `init_hook`, or later of `update_hook`.
        updates: takes other parameters; None where the model has to be loaded anew.
    """

    def __init__(
        self,
        file: str,
        signature: Signature,
        stages: Sequence[HookStage],
        models: Collection[LinkedModel],
        process: HookTurn | None,
        asking: ModelAccess,
        *,
        timeout_s: float | None,
        freed: Callable[[], object],
    ) -> None:
        self._file = file
        self.signatures = {signature.name: signature}
        self._stages = tuple(stages)
        self._models = models
        self._process = process
        self._asking = asking
        self._timeout_s = timeout_s
        self._freed = freed
        self._drivers = [AskedModel(asking, stage.model) for stage in stages]
        self.global_ctx: object = None
        self.updates: Callable[[Mapping[str, Any]], object] | None = None

    def context(self) -> HookContext:
        """Make the context of `init_hook` and `update_hook`."""
        return HookContext(self._drivers, self.global_ctx)

    def infer(self, signature: Signature, inputs: Arrays, read: Read[T]) -> Coroutine[Any, Any, T]:
        """See `engines.base`."""
        if self._asking.loop is None:
            self._asking.loop = asyncio.get_running_loop()
        if (caller := CALLER.get()) is not NO_CALLER:  # as `taken`, without the call
            CALLER.set(NO_CALLER)
        ctx = HookContext(self._drivers, self.global_ctx, caller)
        work = self._run_chain(signature, inputs, read, ctx)
        return work if self._timeout_s is None else self._limited(work, self._timeout_s)

    def at_once(self, signature: Signature) -> int:
        """See `engines.base`."""
        model = self._stages[0].model
        return model.compiled.at_once(model.signature) if model.compiled else 1

    @property
    def update(self) -> Callable[[Mapping[str, Any]], object] | None:
        """See `engines.base`."""
        return self.updates

    @property
    def leave(self) -> Callable[[], object] | None:
        """See `engines.base`: hooks have nothing that is called at their end."""
        return leave_of_all(each.compiled for each in self._models if each.compiled)

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

    async def _run_chain(
        self, signature: Signature, given: Mapping[str, Any], read: Read[T], ctx: HookContext
    ) -> T:
        """Run the models in order, each with its hooks. Written out: every request does it."""
        own: dict[str, Any] | None = None  # what a model has given, for a hook to change
        if self._process is not None:
            done = self._process.at_once(given, ctx)
            given = done if done is not None else await self._process.run(given, ctx)
        for stage in self._stages if self._process is None else ():
            pre, model, post = stage
            ignored = False
            if pre is not None:
                done = pre.at_once(given, ctx, own)
                given = done if done is not None else await pre.run(given, ctx)
                own = None
                if IGNORE in given:
                    ignored = bool(given[IGNORE])
                    given = {name: value for name, value in given.items() if name != IGNORE}
            if ctx.skipped is not None:
                ignored, given, ctx.skipped = True, ctx.skipped or given, None
            if not ignored:
                try:
                    given = made = await model.start(given)
                    own = made if model.compiled is not None else None
                except InvalidRequest as error:
                    # The client is at fault for its own tensors, not for a hook's or a model's.
                    if pre is None and stage is self._stages[0]:
                        raise
                    raise _blamed(stage, error) from error
            if post is not None:
                done = post.at_once(given, ctx, own)
                given = done if done is not None else await post.run(given, ctx)
                own = None
        return read(self._outputs(signature, given))

    def _outputs(self, signature: Signature, found: Mapping[str, Any]) -> Arrays:
        if signature.outputs:
            return checked(self._file, found, signature.outputs)
        for name, each in found.items():
            if type(each) is not ARRAY or each.dtype.kind not in PLAIN or type(name) is not str:
                break
        else:  # as `arrays_of` would give them
            return found
        try:
            return arrays_of(found, _or_json)
        except (InvalidRequest, TypeError, ValueError) as error:
            raise ServingError(f"hooks {self._file} must return tensors: {error}") from error


def _blamed(stage: HookStage, error: InvalidRequest) -> ServingError:
    before = stage.pre.name if stage.pre else "the model before"
    return ServingError(f"{before} gave what {stage.model.link.path} does not take: {error}")


def _or_json(value: object) -> Array:
    """Write a value that is no tensor, but has a JSON form, as one text: objects, lists of them."""
    holds = isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(each, dict) for each in value)
    )
    return plain(json.dumps(value) if holds else value)
