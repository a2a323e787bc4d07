"""The functions of a file of hooks: which there are, and how each of them is called.

    init_hook(**params)              init_hook(ctx, **params)        update_hook(ctx, **params)
    preprocess(inputs)               preprocess(inputs, ctx)         the same with **kwargs
    postprocess(outputs)             ...                             process(inputs, ctx)

`preprocess` and `postprocess` may be lists with an entry for each model, None for no hook.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any

from ie_serving.compat.kibernetika.hooks.context import HookContext
from ie_serving.core.values.errors import LoadFailed

Tensors = Mapping[str, Any]
"""Inputs or outputs by name: arrays, and whatever else hooks return."""
Call = Callable[[dict[str, Any], HookContext], object]
Known = Mapping[str, Any]

INIT, UPDATE = "init_hook", "update_hook"
PRE, POST, PROCESS = "preprocess", "postprocess", "process"
NAMES = (INIT, UPDATE, PRE, POST, PROCESS)
CONTEXT_NAMES = ("ctx", "context", "_", "_ctx")
IGNORE = "ml-serving-ignore"
"""Key by which a preprocess says that its model is not to be run."""


@dataclass(frozen=True)
class Hook:
    """One function, ready to be called with tensors and the context."""

    name: str
    call: Call


@dataclass(frozen=True, kw_only=True)
class Functions:
    """What a file has, bound to what it is told.

    Attributes:
        pre, post: an entry for each model.
        process: answers the whole request instead of them.
        init, update: take the context and the parameters.
        described: what `metadata()` of the file returned; None without one.
    """

    pre: Sequence[Hook | None]
    post: Sequence[Hook | None]
    process: Hook | None = None
    init: Callable[[HookContext, Known], object] | None = None
    update: Callable[[HookContext, Known], object] | None = None
    described: object = None


def functions_of(module: ModuleType, extras: Sequence[Known]) -> Functions:
    """Find the functions of a module.

    Args:
        module: the file.
        extras: for each model, what its hooks get as `**kwargs`; looked at with each call.

    Raises:
        LoadFailed: naming the function, what it takes and what was expected.
    """
    found = {name: getattr(module, name) for name in NAMES if hasattr(module, name)}
    if not found.keys() & {PRE, POST, PROCESS}:
        raise LoadFailed(f"the file of hooks has none of {PRE}, {POST} and {PROCESS}: define one")
    describe = getattr(module, "metadata", None)
    return Functions(
        pre=_each(PRE, found.get(PRE), extras),
        post=_each(POST, found.get(POST), extras),
        process=Hook(PROCESS, bound(PROCESS, found[PROCESS], extras[0]))
        if PROCESS in found
        else None,
        init=with_params(INIT, found[INIT]) if INIT in found else None,
        update=with_params(UPDATE, found[UPDATE]) if UPDATE in found else None,
        described=describe() if callable(describe) else None,
    )


def _each(name: str, given: object, extras: Sequence[Known]) -> list[Hook | None]:
    """Give the hook of each model."""
    count = len(extras)
    if given is None:
        return [None] * count
    if not isinstance(given, list | tuple):
        if count == 1:
            return [Hook(name, bound(name, given, extras[0]))]
        raise LoadFailed(
            f"{name} is one function, and there are {count} models: write a list of {count}, with"
            " None for a model without a hook"
        )
    if len(given) != count:
        raise LoadFailed(
            f"{name} has {len(given)} entries, and there are {count} models: write one for each,"
            " None for a model without a hook"
        )
    return [
        None if each is None else Hook(f"{name}[{at}]", bound(f"{name}[{at}]", each, extras[at]))
        for at, each in enumerate(given)
    ]


def bound(name: str, function: object, extras: Known) -> Call:
    """Give what calls a hook in whichever of its four forms it is written.

    Raises:
        LoadFailed: it has another form, or a decorator hides which.
    """
    if not callable(function):
        raise LoadFailed(f"{name} is a {type(function).__name__}; expected a function")
    parameters = _parameters(name, function)
    places = [each for each in parameters if each.kind in _BY_PLACE]
    required = [each.name for each in places if each.default is each.empty]
    lone = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    # A second parameter with a default may be a setting of the author's own.
    wrong = len(places) == 2 and len(required) == 1 and places[1].name not in CONTEXT_NAMES
    if lone or wrong or len(places) not in (1, 2) or not required:
        given = ", ".join(str(each) for each in parameters) or "nothing"
        first = _FIRST[name.partition("[")[0]]
        raise LoadFailed(
            f"{name} takes ({given}); expected ({first}), with ctx, **kwargs or both behind it"
        )
    function_: Callable[..., object] = function
    takes_rest = _takes_rest(parameters) and _takes_rest(_own_parameters(function))
    if len(places) == 1:
        if takes_rest:
            return lambda tensors, _: function_(tensors, **extras)
        return lambda tensors, _: function_(tensors)
    if takes_rest:
        return lambda tensors, ctx: function_(tensors, ctx, **extras)
    return function_


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_FIRST = {PRE: "inputs", POST: "outputs", PROCESS: "inputs"}


def _parameters(name: str, function: Callable[..., object]) -> list[inspect.Parameter]:
    """Give the parameters behind all decorators that tell what they wrap."""
    parameters = _own_parameters(inspect.unwrap(function))
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        raise LoadFailed(
            f"{name} takes (*{next(p.name for p in parameters if p.kind is p.VAR_POSITIONAL)}), by"
            " which it cannot be told whether it takes ctx: if that is a decorator, let it use"
            " functools.wraps"
        )
    return parameters


def _own_parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, follow_wrapped=False).parameters.values())


def _takes_rest(parameters: Sequence[inspect.Parameter]) -> bool:
    return any(each.kind is each.VAR_KEYWORD for each in parameters)


def with_params(name: str, function: object) -> Callable[[HookContext, Known], object]:
    """Give what calls `init_hook` or `update_hook`, with ctx or without.

    Raises:
        LoadFailed: it is no function, or a decorator hides what it takes; when it is called: it
            takes what nobody gives.
    """
    if not callable(function):
        raise LoadFailed(f"{name} is a {type(function).__name__}; expected a function")
    parameters = _parameters(name, function)
    names = {each.name for each in parameters if each.kind is not each.VAR_KEYWORD}
    takes_rest = _takes_rest(parameters)

    def call(ctx: HookContext, params: Known) -> object:
        first = parameters[0] if parameters and parameters[0].kind in _BY_PLACE else None
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
        return function(*taken, **{k: v for k, v in params.items() if takes_rest or k in names})

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
