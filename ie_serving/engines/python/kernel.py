"""Makes one form of kernel from a class, a function, or an object with `predict`.

class Scale:
    def load(self, ctx): ...                      # optional, as all but the last two
    def metadata(self): ...                       # {"inputs": {NAME: {"dtype", "shape"}}, ...}
    def update(self, params): ...
    def close(self): ...
    def execute(self, inputs, ctx): ...           # or
    def execute_batch(self, calls): ...           # or
    async def stream(self, items, ctx): ...       # for streams, mostly beside one of them
"""

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ie_serving.core.values.errors import LoadFailed, PreconditionFailed
from ie_serving.core.values.tensors import BY_NUMPY, Array, Arrays, DataType, Specs, TensorSpec
from ie_serving.engines import driver_params
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.python import ovms
from ie_serving.engines.python.context import Context, LoadContext
from ie_serving.engines.python.runners import Execute, ExecuteBatch, StreamFunction
from ie_serving.engines.run.function import one_line

OWN = ("execute", "execute_batch", "stream")
"""A kernel has at least one of these methods."""
_NEEDED = f"expected {', '.join(OWN)} or predict"
ALL = ("inputs", "data")
"""Parameters of a function that take all inputs, by name."""
GIVEN = (*ALL, "ctx", "params")


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A loaded kernel.

    Attributes:
        name: name in errors.
        inputs, outputs: its declared tensors.
        execute, execute_batch: at least one of them.
        stream: answers streams; None where each request of a stream is a separate call.
        update: takes new parameters; None where they need a new load.
        close: ends it.
    """

    name: str
    inputs: Specs
    outputs: Specs
    execute: Execute | None = None
    execute_batch: ExecuteBatch | None = None
    stream: StreamFunction | None = None
    update: Callable[[Mapping[str, Any]], object] | None = None
    close: Callable[[], object] = lambda: None


def kernel_of(module: ModuleType, name: str, ctx: LoadContext, options: EngineOptions) -> Kernel:
    """Make a kernel of the object that a module has under a name, and load the kernel.

    Without a name it is the module's only kernel class, or an `OvmsPythonModel`.

    Raises:
        LoadFailed: the module has no such object, or the object is no kernel.
        Exception: raised by the kernel.
    """
    name = name or _only_class(module)
    if not hasattr(module, name):
        raise LoadFailed(
            f"the file has no {name}; it has {', '.join(_own_names(module)) or 'nothing'}"
        )
    found = getattr(module, name)
    subject = found() if inspect.isclass(found) else found
    if name == ovms.CLASS:
        return _of_node(subject, module, ctx, options)
    if any(_has(subject, each) for each in OWN):
        return _of_object(name, subject, ctx, options)
    if _has(subject, "predict"):
        return _of_predictor(name, subject, ctx, options)
    if callable(subject):
        return _of_function(name, subject, module, options, ctx.params)
    if inspect.isclass(found):
        raise LoadFailed(f"class {name} is no kernel: {_NEEDED}")
    raise LoadFailed(
        f"{name} is no kernel: expected a class with execute, execute_batch or predict, a function,"
        " or an object with predict"
    )


def _own_names(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        # An imported object has another module's name.
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def _only_class(module: ModuleType) -> str:
    names = [name for name in _own_names(module) if _is_kernel(getattr(module, name))]
    if ovms.CLASS in names:
        return ovms.CLASS
    classes = [name for name in _own_names(module) if inspect.isclass(getattr(module, name))]
    if not names and len(classes) == 1:
        raise LoadFailed(f"class {classes[0]} is no kernel: {_NEEDED}")
    if len(names) != 1:
        has = f"it has {', '.join(names or _own_names(module)) or 'nothing'}"
        raise LoadFailed(
            f"name the kernel, as FILE:NAME; without a name the file's one class: {has}"
        )
    return names[0]


def _is_kernel(value: object) -> bool:
    methods = (*OWN, "predict")
    return inspect.isclass(value) and any(_has(value, method) for method in methods)


def _has(subject: object, method: str) -> bool:
    return callable(getattr(subject, method, None))


# -- objects with execute ---------------------------------------------------------------------


def _of_object(name: str, subject: Any, ctx: LoadContext, options: EngineOptions) -> Kernel:  # noqa: ANN401
    # Looked at before `load`, which may take long.
    for method in ("execute", "execute_batch"):
        _check_plain(f"{name}.{method}", getattr(subject, method, None))
    execute = _with_context(name, subject.execute) if _has(subject, "execute") else None
    stream = _stream_of(name, subject)
    if execute is None and not _has(subject, "execute_batch"):
        execute = partial(_streams_alone, name)
    _load(subject, ctx)
    described = subject.metadata() if _has(subject, "metadata") else None
    inputs, outputs = _specs(described, options, name)
    return Kernel(
        name=name,
        inputs=inputs,
        outputs=outputs,
        execute=execute,
        execute_batch=subject.execute_batch if _has(subject, "execute_batch") else None,
        stream=stream,
        update=subject.update if _has(subject, "update") else None,
        close=_close_of(subject),
    )


def _of_node(subject: Any, module: ModuleType, ctx: LoadContext, options: EngineOptions) -> Kernel:  # noqa: ANN401
    inputs, outputs = (
        driver_params.specs(options, key, takes_any=True)
        for key in (driver_params.INPUTS, driver_params.OUTPUTS)
    )
    ovms.declared_or_refused(inputs, outputs)
    if ctx.own_process and any(spec.untyped for spec in (*inputs.values(), *outputs.values())):
        raise LoadFailed(
            'params: dtype "any" is for nodes in the server: set "isolation": "thread"'
        )
    node = ovms.PythonNode(subject, inputs, outputs)
    node.begin(ctx, Path(module.__file__ or ".").parent)
    return Kernel(
        name=ovms.CLASS,
        inputs=inputs,
        outputs=outputs,
        execute=node.execute,
        stream=node.stream if node.generates else None,
        close=node.close,
    )


def _check_plain(name: str, function: object) -> None:
    """Refuse a coroutine function or a generator function. Raises: LoadFailed."""
    # The outer function, not the one that a decorator wraps: the decorator may await the outputs.
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    if any(is_kind(function) for is_kind in kinds):
        raise LoadFailed(
            f"{name} is a coroutine or a generator; expected a plain def that returns the answer."
            " Several answers are for async def stream(self, items, ctx)"
        )


def _stream_of(name: str, subject: Any) -> StreamFunction | None:  # noqa: ANN401
    if not _has(subject, "stream"):
        return None
    if not inspect.isasyncgenfunction(inspect.unwrap(subject.stream)):
        raise LoadFailed(
            f"{name}.stream is no async generator; expected async def stream(self, items, ctx) that"
            " yields outputs"
        )
    stream: StreamFunction = subject.stream
    return stream


def _streams_alone(name: str, _: Arrays, __: Context) -> object:
    raise PreconditionFailed(f"kernel {name} answers streams alone: it has no execute")


def _load(subject: Any, ctx: LoadContext) -> None:  # noqa: ANN401
    if _has(subject, "load"):
        subject.load(*([ctx] if _parameters(subject.load) else []))


def _close_of(subject: Any) -> Callable[[], object]:  # noqa: ANN401
    return subject.close if _has(subject, "close") else lambda: None


def _with_context(name: str, execute: Callable[..., object]) -> Execute:
    """Take `execute(inputs)` as well. A decorator may hide which it is, and gets both."""
    parameters = _parameters(execute)
    if any(each.kind is each.VAR_POSITIONAL for each in parameters) or len(parameters) == 2:
        return execute
    if len(parameters) != 1:
        given = ", ".join(each.name for each in parameters) or "nothing"
        raise LoadFailed(f"{name}.execute takes {given}; expected execute(self, inputs, ctx)")
    return lambda inputs, _: execute(inputs)


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    # Through decorators with `__wrapped__`: their own parameters are mostly `*args, **kwargs`.
    return list(inspect.signature(inspect.unwrap(function)).parameters.values())


# -- objects with predict ---------------------------------------------------------------------


def _of_predictor(name: str, subject: Any, ctx: LoadContext, options: EngineOptions) -> Kernel:  # noqa: ANN401
    _load(subject, ctx)
    described = subject.metadata() if _has(subject, "metadata") else None
    if described is None and driver_params.OUTPUTS not in options.params:
        given = driver_params.specs(options, driver_params.INPUTS)
        inputs, outputs = given_by(name, subject, given)
    else:
        inputs, outputs = _specs(described, options, name)
    return Kernel(
        name=name,
        inputs=inputs,
        outputs=outputs,
        execute=partial(_predict, subject),
        close=_close_of(subject),
    )


def _predict(subject: Any, inputs: Arrays, _: Context) -> object:  # noqa: ANN401
    (*several,) = inputs.values()
    return subject.predict(several[0] if len(several) == 1 else inputs)


# -- functions --------------------------------------------------------------------------------


def _of_function(
    name: str,
    function: Callable[..., object],
    module: ModuleType,
    options: EngineOptions,
    params: Mapping[str, Any],
) -> Kernel:
    describe = getattr(function, "metadata", None) or getattr(module, "metadata", None)
    inputs, outputs = _specs(describe() if describe else None, options, name, function)
    _check_plain(name, function)
    call = _binding(name, function, inputs, params)
    return Kernel(name=name, inputs=inputs, outputs=outputs, execute=call)


def _binding(
    name: str, function: Callable[..., object], inputs: Specs, params: Mapping[str, Any]
) -> Execute:
    """Give a wrapper that calls a function with the values that its parameters name."""
    parameters = _parameters(function)
    rest = any(each.kind is each.VAR_KEYWORD for each in parameters)
    names = [p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    required = {p.name for p in parameters if p.default is p.empty and p.name in names}
    _check_known(name, required, inputs)
    takes_all = rest or any(each in names and each not in inputs for each in ALL)
    lost = [] if takes_all else [each for each in inputs if each not in names]
    if lost:
        raise LoadFailed(
            f"{name} takes no {', '.join(lost)}, which its metadata declares as input: let it take"
            f" that, or {ALL[0]}"
        )

    def call(given: Arrays, ctx: Context) -> object:
        known = {**dict.fromkeys(ALL, given), "ctx": ctx, "params": params, **given}
        bound = {each: known[each] for each in names if each in known}
        return function(
            **bound, **({k: v for k, v in given.items() if k not in bound} if rest else {})
        )

    return call


def _check_known(name: str, required: Collection[str], inputs: Specs) -> None:
    unknown = sorted({*required} - {*GIVEN, *inputs})
    if unknown:
        raise LoadFailed(
            f"{name} takes {', '.join(unknown)}; its inputs are {', '.join(inputs)}, beside which"
            f" there are {', '.join(GIVEN)}"
        )


# -- declared tensors -------------------------------------------------------------------------


def _specs(
    described: object,
    options: EngineOptions,
    name: str,
    function: "Callable[..., object] | None" = None,
) -> tuple[Specs, Specs]:
    """Read `metadata()`; where there is none, the tensors that `params` declares."""
    if described is None:
        inputs = driver_params.specs(options, driver_params.INPUTS)
        outputs = driver_params.specs(options, driver_params.OUTPUTS, takes_json=True)
        if inputs and outputs:
            return inputs, outputs
        raise LoadFailed(_undeclared(name, function))
    source = f"{name}.metadata()"
    if not isinstance(described, Mapping):
        raise LoadFailed(f'{source}: expected {{"inputs": {{...}}, "outputs": {{...}}}}')
    return tuple(  # type: ignore[return-value]
        driver_params.tensors(
            described.get(key), f"{source}.{key}", takes_json=key == driver_params.OUTPUTS
        )
        for key in (driver_params.INPUTS, driver_params.OUTPUTS)
    )


def _undeclared(name: str, function: "Callable[..., object] | None") -> str:
    taken = [p.name for p in _parameters(function) if p.name not in GIVEN] if function else ["x"]
    form = '{"dtype": "float32", "shape": [-1]}'
    inputs = ", ".join(f'"{each}": {form}' for each in taken)
    return (
        f"{name} declares no inputs and outputs: give it a metadata() that returns"
        f' {{"inputs": {{{inputs}}}, "outputs": {{"y": {form}}}}}, or write both into params'
    )


# -- the undeclared input and output of an object with predict, as of scikit-learn --------------

# One row would not do: outputs for the whole batch would look like outputs for each row.
ROWS = 2
FEATURES = "n_features_in_"
"""Attribute by which estimators of scikit-learn tell how many features they were fitted with."""


def given_by(name: str, subject: Any, given: Specs) -> tuple[Specs, Specs]:  # noqa: ANN401
    """Find the undeclared specs by a trial with zeros: rows of features, and one output.

    Raises:
        LoadFailed: the trial failed.
    """
    inputs = given or _matrix(name, subject)
    zeros = {each: _zeros(spec) for each, spec in inputs.items()}
    try:
        outputs = np.asarray(
            subject.predict(next(iter(zeros.values())) if len(zeros) == 1 else zeros)
        )
    except Exception as error:  # libraries raise what they like
        raise LoadFailed(
            f"{name}.predict fails on zeros: {one_line(error)}; declare its outputs in params"
        ) from error
    dtype = DataType.STRING if outputs.dtype.kind in "USO" else BY_NUMPY.get(outputs.dtype)
    if dtype is None or outputs.shape[:1] != (ROWS,):
        raise LoadFailed(
            f"{name}.predict gives {outputs.dtype} {list(outputs.shape)} for {ROWS} rows; declare"
            " its outputs in params"
        )
    return inputs, {"y": TensorSpec("y", dtype, (-1, *outputs.shape[1:]), "y")}


def _matrix(name: str, subject: object) -> Specs:
    features = getattr(subject, FEATURES, None)
    if not isinstance(features, int):
        raise LoadFailed(
            f"{name} does not say what predict takes: declare it in params, as"
            ' {"inputs": {"x": {"dtype": "float64", "shape": [-1, 4]}}}'
        )
    return {"x": TensorSpec("x", DataType.FP64, (-1, features), "x")}


def _zeros(spec: TensorSpec) -> Array:
    sizes = [ROWS if at == 0 else abs(size) for at, size in enumerate(spec.shape or (-1,))]
    return np.full(sizes, b"" if spec.dtype is DataType.STRING else 0, spec.dtype.numpy)
