"""Loads the models of a chain and the hooks around them, in this order, in one thread."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

from ie_serving.compat.kibernetika.hooks.asking import AskedModel, ModelAccess, loader
from ie_serving.compat.kibernetika.hooks.functions import IGNORE, Functions, functions_of, mentioned
from ie_serving.compat.kibernetika.hooks.linked_model import ECHO, LinkedModel
from ie_serving.compat.kibernetika.hooks.links import link_of
from ie_serving.compat.kibernetika.hooks.model import HookedModel, HookStage
from ie_serving.compat.kibernetika.hooks.shims import shims
from ie_serving.compat.kibernetika.hooks.turns import HookTurns
from ie_serving.core.runtime.scratch import Scratch
from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, Signature, Specs
from ie_serving.engines import driver_params
from ie_serving.engines.base import Engine, EngineOptions
from ie_serving.engines.kernels import ChainedModel, CodeSource, HookOptions, KernelOptions
from ie_serving.engines.python.driver import PYTHON
from ie_serving.engines.python.opening import OwnModules, found, lacking, telling, warn
from ie_serving.engines.run import forks
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

DRIVER_WORDS = (driver_params.INPUTS, driver_params.OUTPUTS, "model_class", "model_args")
"""Words of `params` that drivers know; hooks get these, too."""


def opened(engine: Engine, directory: Path, options: EngineOptions) -> HookedModel:
    """Make the model of a version, or of a chain, with its hooks.

    Args:
        engine: compiles each model.
        directory: directory of the version; a chain's is not looked at for models.
        options: options of the version, with `HookOptions`.

    Raises:
        LoadFailed: a model or the hooks cannot be loaded, or no setting allows to run the hooks.
    """
    own = options.of(HookOptions)
    if own.source is not None and not options.allow_python:
        raise LoadFailed(f"hooks {own.source} ask to run Python code", PYTHON)
    with ExitStack() as undone:
        freed = undone.enter_context(ExitStack())
        model = _VersionOpening(engine, directory, options, freed).model(own)
        undone.pop_all()
    return model


@dataclass
class _VersionOpening:
    """What is known while a version is loaded."""

    engine: Engine
    directory: Path
    options: EngineOptions
    freed: ExitStack
    models: "WeakSet[LinkedModel]" = field(default_factory=WeakSet)
    """All that are loaded: hooks may load further ones at any time, and free them."""
    lacks: str = ""
    """Requirements of the hooks that the server lacks."""

    def model(self, own: HookOptions) -> HookedModel:
        """Load everything."""
        asking = ModelAccess()
        models = [self.linked(link) for link in own.chain or (self._own_model(),)]
        params = {**self.options.params, "model_path": models[0].link.path}
        known = [self._hook_arguments(asking, each, params) for each in models]
        functions, names = Functions(pre=[None] * len(models), post=[None] * len(models)), set()
        if own.source is not None:
            file = found(own.source, self.directory, "the file of hooks")
            load_driver = loader(asking, self._for_hooks, self.freed)
            modules = OwnModules(file.parent, shims(load_driver, asking.limit_s))
            self.freed.callback(modules.close)
            self.lacks = lacking(file.parent)
            with telling(own.source, self.lacks):
                names = mentioned(compile(file.read_bytes(), str(file), "exec"))
                forks.watch()
                functions = forks.call(str(file), functions_of, modules.load(file), known)
        asking.blocks = bool(names & {"predict", "predict_grpc", "predict_hooks"})
        made = self._hooked_model(str(own.source or ""), models, functions, asking, names)
        begun = self._with_context(made, own.source, functions, known)
        if own.source is not None:
            warn(own.source, self.lacks)
        return begun

    def _hooked_model(
        self,
        file: str,
        models: Sequence[LinkedModel],
        functions: Functions,
        asking: ModelAccess,
        names: set[str],
    ) -> HookedModel:
        kernel = self.options.of(KernelOptions)
        # On the event loop nothing could end the wait for a hook that hangs.
        execution = "async" if kernel.timeout_ms else self.options.execution
        turns = HookTurns(file, asking, kernel.max_concurrency, execution)
        self.freed.callback(turns.close)
        stages = [
            HookStage(turns.of(pre), model, turns.of(post))
            for pre, model, post in zip(functions.pre, models, functions.post, strict=True)
        ]
        may_skip = bool(names & {IGNORE, "skip"})
        return HookedModel(
            file,
            _signature(file, stages, functions, may_skip=may_skip),
            stages,
            self.models,
            turns.of(functions.process),
            asking,
            timeout_s=kernel.timeout_ms / 1e3 or None,
            freed=self.freed.close,
        )

    def _with_context(
        self,
        made: HookedModel,
        source: CodeSource | None,
        functions: Functions,
        known: Sequence[dict[str, Any]],
    ) -> HookedModel:
        """Call `init_hook`, and let later parameters come to `update_hook`."""
        if functions.init is not None:
            assert source is not None  # it stands in the file
            with telling(source, self.lacks):
                made.global_ctx = functions.init(made.context(), known[0])
        if functions.update is not None:
            made.updates = partial(_update, made, functions, known, self.options)
        return made

    def linked(self, link: ChainedModel) -> LinkedModel:
        """Compile one model of the chain; `freed` closes it."""
        made = self._loaded(link)
        self.freed.callback(made.close)
        return made

    def _loaded(self, link: ChainedModel) -> LinkedModel:
        """Compile one model, unless it echoes. The caller closes it. Raises: LoadFailed."""
        if link.driver == ECHO:
            return LinkedModel(link, None)
        compiled = self.engine.compile(self._directory_of(link), link.options)
        try:
            made = LinkedModel(link, compiled)
        except LoadFailed:  # it lacks the signature or an output that the link names
            compiled.close()
            raise
        self.models.add(made)
        return made

    def _own_model(self) -> ChainedModel:
        """Give the model of the version itself."""
        params = {k: v for k, v in self.options.params.items() if k in DRIVER_WORDS}
        alone = replace(self.options.having(HookOptions()), params=params)
        return ChainedModel(driver=alone.driver, path=str(self.directory), options=alone)

    def _directory_of(self, link: ChainedModel) -> Path:
        """Give a directory with the files of one model and no others."""
        path = Path(link.path)
        if path.is_dir():
            return path
        if not path.is_file():
            raise LoadFailed(f"{path}: no such file or directory: correct the path of the model")
        made = self.freed.enter_context(Scratch())
        for each in path.parent.iterdir():
            if each.stem == path.stem and each.is_file():
                (made / each.name).symlink_to(each.resolve())
        if link.weights:
            weights = made / f"{path.stem}.bin"
            weights.unlink(missing_ok=True)
            weights.symlink_to(Path(link.weights).resolve())
        return made

    def _hook_arguments(
        self, asking: ModelAccess, model: LinkedModel, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Give what hooks of a model get by name."""
        asked = AskedModel(asking, model)
        extras = {"driver": asked, "model_inputs": asked.inputs, "model_outputs": asked.outputs}
        return {**params, **extras}

    def _for_hooks(self, driver: str, path: str, options: Mapping[str, Any]) -> LinkedModel:
        """Load a model that hooks ask for by `load_driver`; `LoadedModel` frees it."""
        base = replace(self.options.having(HookOptions()), params={})
        link, warnings = link_of(driver, path, options, base)
        for each in warnings:
            log.warning(Event("option without effect", model=path, cause=each))
        return self._loaded(link)


def _update(
    made: HookedModel,
    functions: Functions,
    known: Sequence[dict[str, Any]],
    options: EngineOptions,
    params: Mapping[str, Any],
) -> None:
    """Take other parameters. Raises whatever the hook raises, and where a driver's have changed."""
    if any(params.get(word) != options.params.get(word) for word in DRIVER_WORDS):
        raise LoadFailed("parameters of the driver have changed: the model is loaded anew")
    assert functions.update is not None  # asked before
    given = {**known[0], **params}
    found = functions.update(made.context(), given)
    if found is not None:
        made.global_ctx = found
    for each in known:
        each.update(params)


def _signature(
    file: str, stages: Sequence[HookStage], functions: Functions, *, may_skip: bool
) -> Signature:
    """Give the clients' signature: the file's declaration, else the part that no hook changes."""
    first, last = stages[0], stages[-1]
    own = functions.process is not None
    inputs: Specs = {} if own or first.pre else first.model.shown.inputs
    outputs: Specs = {} if own or last.post or may_skip else last.model.shown.outputs
    if last.model.link.outputs:
        outputs = {k: v for k, v in outputs.items() if k in last.model.link.outputs}
    if isinstance(functions.described, Mapping):
        for key in (driver_params.INPUTS, driver_params.OUTPUTS):
            if key not in functions.described:
                continue
            specs = driver_params.tensors(functions.described[key], f"{file}: metadata().{key}")
            inputs, outputs = (specs, outputs) if key == driver_params.INPUTS else (inputs, specs)
    models = ", ".join(stage.model.signature.runs_on or stage.model.link.path for stage in stages)
    return Signature(
        SERVING_DEFAULT,
        inputs,
        outputs,
        runs_on=f"{models}, with hooks {file}" if file else models,
        sees_caller=bool(file),
        is_open=True,
        behind=first.model.signature.inputs,
    )
