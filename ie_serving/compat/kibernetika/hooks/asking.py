"""Models as hooks ask them: `ctx.drivers`, and those that `load_driver` makes.

A hook runs in a thread and waits for the reply, which is made on the event loop. While a version
is loaded there is none yet: then on a loop of its own.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import ExitStack
from functools import partial
from typing import Any

from ie_serving.compat.kibernetika.hooks.linked_model import LinkedModel, arrays_of, plain
from ie_serving.core.values.errors import DeadlineExceeded, LoadFailed, ServingError
from ie_serving.core.values.tensors import Array
from ie_serving.engines.layers import own_loop
from ie_serving.engines.python.asking import LONGEST_S, marked

log = logging.getLogger(__name__)

OpenLinked = Callable[[str, str, Mapping[str, Any]], LinkedModel]
"""Loads a model: driver, path, options. Blocking."""


class ModelAccess:
    """How the hooks of one version ask models.

    Attributes:
        loop: event loop on which models answer; None until the first request.
        left_s: functions by thread that return the seconds left to its request.
        blocks: a hook has waited for a model: none of them may run on the event loop.
    """

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.left_s = threading.local()
        self.blocks = False

    def ask(self, model: LinkedModel, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Run a model, and wait for it. Raises: ServingError."""
        self.blocks = True
        if asyncio._get_running_loop() is not None:
            raise ServingError(
                "a hook asked a model on the event loop, which would wait for itself; from now on"
                " it runs in a thread: send the request again, or set execution to async"
            )
        with marked():
            return self._answer(model, inputs)

    def _answer(self, model: LinkedModel, inputs: Mapping[str, Any]) -> dict[str, Array]:
        inputs = arrays_of(inputs, plain)  # here, not on the event loop: lists may be long
        if self.loop is None:
            return own_loop.run(model.infer(inputs))
        asked = asyncio.run_coroutine_threadsafe(model.infer(inputs), self.loop)
        try:
            return asked.result(self.limit_s())
        except (TimeoutError, FutureTimeout):  # one class since Python 3.11
            asked.cancel()
            raise DeadlineExceeded(f"{model.link.path} did not answer in time: ask again") from None

    def limit_s(self) -> float:
        """Give the seconds that a hook in this thread may wait for a reply."""
        tell = getattr(self.left_s, "tell", None)
        left = tell() if tell else None
        return LONGEST_S if left is None else float(left)


class AskedModel:
    """A model of the chain: an element of `ctx.drivers`.

    Attributes:
        driver_name: name of the driver in the configuration.
    """

    driver_name = ""
    _asking: ModelAccess
    _model: LinkedModel | None = None

    def __init__(self, asking: ModelAccess, model: LinkedModel) -> None:
        self._asking = asking
        self._model = model
        self.driver_name = model.link.driver

    @property
    def inputs(self) -> dict[str, list[int]]:
        """Shapes by name, -1 for any size."""
        specs = self._loaded().signature.inputs
        return {name: list(spec.shape or ()) for name, spec in specs.items()}

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return list(self._loaded().signature.outputs)

    def predict(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Ask the model, past all hooks. Raises: ServingError."""
        return self._asking.ask(self._loaded(), inputs)

    # A model of the chain has its hooks from the chain, which runs them.
    def predict_hooks(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the model. Raises: ServingError."""
        return self.predict(inputs)

    def release(self) -> None:
        """Do nothing: the server frees its loaded models."""

    def _loaded(self) -> LinkedModel:
        if self._model is None:
            raise LoadFailed("no model is loaded: call load_model(path) first")
        return self._model


def loader(
    asking: ModelAccess, open_model: OpenLinked, undone: ExitStack
) -> Callable[[str], type["HookModel"]]:
    """Give `load_driver` for the hooks of one version; `undone` frees what they load."""

    def load_driver(driver: str) -> type[HookModel]:
        """Give the class of a driver by its name."""

        class LoadedHookModel(HookModel):
            driver_name = driver
            _asking = asking
            _open = staticmethod(partial(open_model, driver))
            _undone = undone

        return LoadedHookModel

    return load_driver


class HookModel(AskedModel):
    """A model that hooks load themselves, by `load_driver(name)(preprocess=f, ...)`.

    Args of the constructor:
        preprocess, postprocess: functions around `predict_hooks`; None for none.
        init_hook: called with `params` when the model is loaded; None for none.
        params: parameters of the hooks.
    """

    _open: Callable[[str, Mapping[str, Any]], LinkedModel]
    _undone: ExitStack

    def __init__(
        self,
        preprocess: "Callable[..., Any] | None" = None,
        postprocess: "Callable[..., Any] | None" = None,
        init_hook: "Callable[..., Any] | None" = None,
        **params: Any,  # noqa: ANN401  whatever authors say
    ) -> None:
        self._pre, self._post, self._init = preprocess, postprocess, init_hook
        self._params = params
        self._undone.callback(self.release)

    def load_model(self, path: str, **options: Any) -> "HookModel":  # noqa: ANN401
        """Load a model, and give this object. Options are those of `-o`. Raises: LoadFailed."""
        self.release()
        self._model = self._open(str(path), {**self._params, **options})
        if self._init is not None:
            self._init(**{**self._params, "model_path": str(path), **options})
        return self

    def predict_hooks(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the model, with the functions of the constructor around it. Raises: ServingError."""
        given = self._pre(inputs) if self._pre else inputs
        found = self.predict(given)
        return self._post(found) if self._post else found

    def release(self) -> None:
        """Free the model, if there is one."""
        model, self._model = self._model, None
        if model is not None:
            model.close()
