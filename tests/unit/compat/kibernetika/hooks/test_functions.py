"""Which forms of hooks are taken, and how each is called."""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from ie_serving.compat.kibernetika.hooks.context import HookContext
from ie_serving.compat.kibernetika.hooks.functions import bound, functions_of, with_params
from ie_serving.core.values.errors import LoadFailed

CTX = HookContext([], None)
EXTRAS = {"model_path": "m.xml", "threshold": "0.5"}


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    """The decorator that authors of hooks have published: it takes places alone."""

    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def hidden(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def one(x: Any) -> Any:
    return x


def with_ctx(x: Any, ctx: Any) -> Any:
    return x, ctx


def with_rest(x: Any, **kwargs: Any) -> Any:
    return x, kwargs


def with_both(x: Any, ctx: Any, **kwargs: Any) -> Any:
    return x, ctx, kwargs


def places_alone(*args: Any) -> Any:
    return args


def place_and_places(x: Any, *args: Any) -> Any:
    return x, args


@pytest.mark.parametrize(
    ("function", "result"),
    [
        pytest.param(one, {"a": 1}, id="inputs"),
        pytest.param(with_ctx, ({"a": 1}, CTX), id="inputs and ctx"),
        pytest.param(with_rest, ({"a": 1}, EXTRAS), id="inputs and the rest"),
        pytest.param(with_both, ({"a": 1}, CTX, EXTRAS), id="inputs, ctx and the rest"),
        pytest.param(logged(one), {"a": 1}, id="decorated"),
        pytest.param(logged(with_ctx), ({"a": 1}, CTX), id="decorated, with ctx"),
        pytest.param(hidden(one), {"a": 1}, id="hidden"),
        pytest.param(hidden(with_ctx), ({"a": 1}, CTX), id="hidden, with ctx"),
        pytest.param(hidden(hidden(with_ctx)), ({"a": 1}, CTX), id="hidden twice"),
        pytest.param(places_alone, ({"a": 1},), id="any number of places"),
        pytest.param(place_and_places, ({"a": 1}, ()), id="one place and any number more"),
        pytest.param(
            logged(with_both), ({"a": 1}, CTX, {}), id="a decorator without kwargs gets none"
        ),
    ],
)
def test_each_form_gets_what_it_takes(function: Callable[..., Any], result: Any) -> None:
    assert bound("preprocess", function, EXTRAS)({"a": 1}, CTX) == result


def three(x: Any, ctx: Any, more: Any) -> Any: ...


def own_setting(x: Any, threshold: float = 0.5) -> Any: ...


def nothing() -> Any: ...


def keyword(x: Any, *, threshold: float) -> Any: ...


@pytest.mark.parametrize(
    ("function", "text"),
    [
        pytest.param(
            three,
            "preprocess takes (x: Any, ctx: Any, more: Any); expected (inputs), with ctx",
            id="three places",
        ),
        pytest.param(
            own_setting,
            "preprocess takes (x: Any, threshold: float = 0.5); expected (inputs)",
            id="a setting of its own",
        ),
        pytest.param(nothing, "preprocess takes (nothing); expected (inputs)", id="no place"),
        pytest.param(
            keyword,
            "preprocess takes (x: Any, threshold: float); expected (inputs)",
            id="a keyword",
        ),
        pytest.param("text", "preprocess is a str; expected a function", id="no function"),
    ],
)
def test_every_other_form_is_refused_at_load(function: Any, text: str) -> None:
    with pytest.raises(LoadFailed) as raised:
        bound("preprocess", function, EXTRAS)
    assert text in str(raised.value)


def module(**functions: Any) -> ModuleType:
    made = ModuleType("hooks")
    vars(made).update(functions)
    return made


@pytest.mark.parametrize(
    ("functions", "text"),
    [
        pytest.param({}, "has none of preprocess, postprocess and process", id="no function"),
        pytest.param(
            {"preprocess": [one]},
            "preprocess has 1 entries, and there are 2 models",
            id="too few entries",
        ),
        pytest.param(
            {"postprocess": [one, None, one]},
            "postprocess has 3 entries, and there are 2 models",
            id="too many entries",
        ),
        pytest.param(
            {"preprocess": one},
            "preprocess is one function, and there are 2 models",
            id="one function for two models",
        ),
        pytest.param(
            {"preprocess": [None, 7]},
            "preprocess[1] is a int; expected a function",
            id="an entry that is no function",
        ),
    ],
)
def test_lists_have_an_entry_for_each_model(functions: dict[str, Any], text: str) -> None:
    with pytest.raises(LoadFailed, match=r".*") as raised:
        functions_of(module(**functions), [EXTRAS, EXTRAS])
    assert text in str(raised.value)


def test_none_in_a_list_is_no_hook() -> None:
    found = functions_of(module(preprocess=[one, None]), [EXTRAS, EXTRAS])
    assert [each and each.name for each in found.pre] == ["preprocess[0]", None]
    assert list(found.post) == [None, None]


def init_ctx(ctx: Any, **params: Any) -> Any:
    return ctx, params


def init_params(**params: Any) -> Any:
    return params


def init_names(ctx: Any, threshold: str, shape: str = "4") -> Any:
    return ctx, threshold, shape


@pytest.mark.parametrize(
    ("function", "result"),
    [
        (init_ctx, (CTX, EXTRAS)),
        (init_params, EXTRAS),
        (init_names, (CTX, "0.5", "4")),
    ],
)
def test_init_takes_the_context_or_not(function: Callable[..., Any], result: Any) -> None:
    assert with_params("init_hook", function)(CTX, EXTRAS) == result


def test_the_rest_of_the_parameters_can_be_written_as_json() -> None:
    """Authors log them so; an object comes to those that name it."""
    given = {**EXTRAS, "driver": object(), "model_inputs": {"x": [1]}}

    def named(driver: Any, **params: Any) -> Any:
        return driver, params

    def mentioning(**params: Any) -> Any:
        return params["driver"]

    rest = {key: value for key, value in given.items() if key != "driver"}
    assert with_params("init_hook", init_params)(CTX, given) == rest
    assert with_params("init_hook", named)(CTX, given) == (given["driver"], rest)
    assert with_params("init_hook", mentioning)(CTX, given) is given["driver"]


def test_init_may_take_what_is_given_alone() -> None:
    def init(ctx: Any, labels: str) -> None: ...

    with pytest.raises(LoadFailed, match="init_hook takes labels, which is not given; given are"):
        with_params("init_hook", init)(CTX, EXTRAS)
