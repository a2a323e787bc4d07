"""The functions of a file of hooks: which there are, and how each of them is called.

    init_hook(**params)              init_hook(ctx, **params)        update_hook(ctx, **params)
    preprocess(inputs)               preprocess(inputs, ctx)         the same with **kwargs
    postprocess(outputs)             ...                             process(inputs, ctx)

`preprocess` and `postprocess` may be lists with an entry for each model, None for no hook. A hook
may return `(tensors, ctx)` as well. A postprocess may be a generator: a preprocess behind it gets
an iterator over the dicts. Without one the next model runs for each dict, and its postprocess gets
an iterator over the outputs; without a hook there has to be a single dict.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import CodeType, ModuleType
from typing import Any, cast

from ie_serving.compat.kibernetika.hooks.context import HookContext
from ie_serving.core.values.errors import LoadFailed, ServingError

HookTensors = Mapping[str, Any]
"""Inputs or outputs by name: arrays, and whatever else hooks return."""
HookFunction = Callable[[dict[str, Any], HookContext], object]
HookFacts = Mapping[str, Any]
_JSON = (str, int, float, list, tuple, dict, type(None))
"""Types of parameters that `json.dumps` takes."""

INIT, UPDATE = "init_hook", "update_hook"
PRE, POST, PROCESS = "preprocess", "postprocess", "process"
NAMES = (INIT, UPDATE, PRE, POST, PROCESS)
CONTEXT_NAMES = ("ctx", "context", "_", "_ctx")
ANSWERS = "ml-serving-answers"
"""Key of the dicts that a generator has yielded, or what a model has made of them, on their way."""
IGNORE = "ml-serving-ignore"
"""Key by which a preprocess says that its model is not to be run."""


@dataclass(frozen=True)
class Hook:
    """One function, ready to be called with tensors and the context."""

    name: str
    call: HookFunction


@dataclass(frozen=True, kw_only=True)
class Functions:
    """The functions of a hooks file, bound to the file's parameters.

    Attributes:
        pre, post: an entry for each model.
        process: answers the whole request instead of them.
        init, update: take the context and the parameters.
        described: result of the file's `metadata()`; None without one.
    """

    pre: Sequence[Hook | None]
    post: Sequence[Hook | None]
    process: Hook | None = None
    init: Callable[[HookContext, HookFacts], object] | None = None
    update: Callable[[HookContext, HookFacts], object] | None = None
    described: object = None


def functions_of(module: ModuleType, extras: Sequence[HookFacts]) -> Functions:
    """Find the functions of a module.

    Args:
        module: the file.
        extras: `**kwargs` of the hooks of each model; read at each call.

    Raises:
        LoadFailed: naming the function, what it takes and what was expected.
    """
    found: dict[str, Any] = {name: getattr(module, name) for name in NAMES if hasattr(module, name)}
    if not found.keys() & {PRE, POST, PROCESS}:
        raise LoadFailed(f"the file of hooks has none of {PRE}, {POST} and {PROCESS}: define one")
    describe = getattr(module, "metadata", None)
    pre, post = (entries(name, found.get(name), len(extras)) for name in (PRE, POST))
    # The next preprocess takes all that a generator yields; without one the model runs for each of
    # them, and its postprocess takes all outputs.
    before = (False, *map(_generates, post[:-1]))
    takes = [
        several and (first is not None or last is not None)
        for several, first, last in zip(before, pre, post, strict=True)
    ]
    return Functions(
        pre=[
            _hook(_label(PRE, found, at), pre[at], each, iterates=takes[at])
            for at, each in enumerate(extras)
        ],
        post=[
            _hook(
                _label(POST, found, at),
                post[at],
                each,
                yields=any(takes[at + 1 : at + 2]),
                iterates=takes[at] and pre[at] is None,
            )
            for at, each in enumerate(extras)
        ],
        process=Hook(PROCESS, bound(PROCESS, found[PROCESS], extras[0]))
        if PROCESS in found
        else None,
        init=with_params(INIT, found[INIT]) if INIT in found else None,
        update=with_params(UPDATE, found[UPDATE]) if UPDATE in found else None,
        described=describe() if callable(describe) else None,
    )


def entries(name: str, given: object, count: int) -> Sequence[object]:
    """Give the entry of each model; None for no hook."""
    if given is None:
        return [None] * count
    if not isinstance(given, list | tuple):
        if count == 1:
            return [given]
        raise LoadFailed(
            f"{name} is one function, and there are {count} models: write a list of {count}, with"
            " None for a model without a hook"
        )
    if len(given) != count:
        raise LoadFailed(
            f"{name} has {len(given)} entries, and there are {count} models: write one for each,"
            " None for a model without a hook"
        )
    return given


def _label(name: str, found: HookFacts, at: int) -> str:
    return f"{name}[{at}]" if isinstance(found.get(name), list | tuple) else name


def _hook(
    name: str, function: object, extras: HookFacts, *, yields: bool = False, iterates: bool = False
) -> Hook | None:
    """Make one hook.

    Args:
        name: name in errors.
        function: the hook; None for none.
        extras: `**kwargs` of the hook.
        yields: the next hook takes all that the generator `function` yields.
        iterates: the hook takes what the generator before it has yielded.
    """
    if function is None:
        return None
    call = bound(name, function, extras)
    if _generates(function):
        call = partial(_yielded, name, call, yields)
    return Hook(name, partial(_iterating, call) if iterates else call)


def _generates(function: object) -> bool:
    return callable(function) and inspect.isgeneratorfunction(inspect.unwrap(function))


def _yielded(
    name: str, call: HookFunction, several: bool, tensors: dict[str, Any], ctx: HookContext
) -> object:
    """Run a generator to its end: its one dict, or all of them for a hook that iterates."""
    results: list[object] = list(cast("Iterable[object]", call(tensors, ctx)))
    if several:
        return {ANSWERS: results}
    if len(results) != 1:
        raise ServingError(
            f"{name} yielded {len(results)} answers, and no hook iterates over them: yield one"
        )
    return results[0]


def _iterating(call: HookFunction, tensors: dict[str, Any], ctx: HookContext) -> object:
    return call(cast("dict[str, Any]", iter(tensors[ANSWERS])), ctx)


def bound(name: str, function: object, extras: HookFacts) -> HookFunction:
    """Give a function that calls a hook, which may have any of four forms.

    Raises:
        LoadFailed: it has another form.
    """
    if not callable(function):
        raise LoadFailed(f"{name} is a {type(function).__name__}; expected a function")
    parameters = _parameters(function)
    positional = [each for each in parameters if each.kind in _BY_POSITION]
    required = [each.name for each in positional if each.default is each.empty]
    lone = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    # A second parameter with a default may be a setting of the author's own.
    wrong = len(positional) == 2 and len(required) == 1 and positional[1].name not in CONTEXT_NAMES
    if lone or wrong or len(positional) not in (1, 2) or not required:
        given = ", ".join(str(each) for each in parameters) or "nothing"
        first = _FIRST[name.partition("[")[0]]
        raise LoadFailed(
            f"{name} takes ({given}); expected ({first}), with ctx, **kwargs or both behind it"
        )
    function_: Callable[..., object] = function
    takes_rest = _takes_rest(parameters) and _takes_rest(_own_parameters(function))
    if len(positional) == 1:
        if takes_rest:
            return lambda tensors, _: function_(tensors, **extras)
        return lambda tensors, _: function_(tensors)
    if takes_rest:
        return lambda tensors, ctx: function_(tensors, ctx, **extras)
    return function_


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_TENSORS = inspect.Parameter("tensors", inspect.Parameter.POSITIONAL_OR_KEYWORD)
_FIRST = {PRE: "inputs", POST: "outputs", PROCESS: "inputs"}


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    """Give the parameters behind all decorators that name their wrapped function.

    A decorator without `functools.wraps` tells by its closure: the one function there. Else
    `*args` takes the tensors alone.
    """
    own = _own_parameters(inspect.unwrap(function))
    if not any(each.kind is each.VAR_POSITIONAL for each in own):
        return own
    wrapped = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    functions = [each for each in wrapped if inspect.isroutine(each) and each is not function]
    if len(functions) == 1:
        return _parameters(functions[0])
    named = [each for each in own if each.kind is not each.VAR_POSITIONAL]
    tensors = [] if any(each.kind in _BY_POSITION for each in named) else [_TENSORS]
    return [*tensors, *named]


def _own_parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, follow_wrapped=False).parameters.values())


def _takes_rest(parameters: Sequence[inspect.Parameter]) -> bool:
    return any(each.kind is each.VAR_KEYWORD for each in parameters)


def with_params(name: str, function: object) -> Callable[[HookContext, HookFacts], object]:
    """Give what calls `init_hook` or `update_hook`, with ctx or without.

    Raises:
        LoadFailed: it is no function; when it is called: it takes an argument that is not given.
    """
    if not callable(function):
        raise LoadFailed(f"{name} is a {type(function).__name__}; expected a function")
    parameters = _parameters(function)
    names = {each.name for each in parameters if each.kind is not each.VAR_KEYWORD}
    takes_rest = _takes_rest(parameters)
    # Authors write the rest as JSON: objects are for code that mentions their names.
    code = getattr(inspect.unwrap(function), "__code__", None)
    asked = names | (mentioned(code) if code else set())

    def call(ctx: HookContext, params: HookFacts) -> object:
        first = parameters[0] if parameters and parameters[0].kind in _BY_POSITION else None
        takes_ctx = first is not None and first.default is first.empty and first.name not in params
        taken = [ctx] if takes_ctx else []
        lacking = [
            each.name
            for each in parameters[len(taken) :]
            if each.kind is not each.VAR_KEYWORD
            and each.default is each.empty
            and each.name not in params
        ]
        if lacking:
            raise LoadFailed(
                f"{name} takes {', '.join(lacking)}, which is not given; given are"
                f" {', '.join(sorted(params))}"
            )
        rest = {k for k, v in params.items() if k in asked or isinstance(v, _JSON)}
        return function(
            *taken, **{k: params[k] for k in params if k in (rest if takes_rest else names)}
        )

    return call


def mentioned(code: CodeType) -> set[str]:
    """Give the names and texts that a file's code has anywhere in it."""
    found = {*code.co_names}
    for each in code.co_consts:
        if isinstance(each, str):
            found.add(each)
        elif isinstance(each, CodeType):
            found |= mentioned(each)
    return found
