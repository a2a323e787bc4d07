"""An error says what to do or what was expected, wherever the package makes one of a text."""

import ast
import builtins
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Final, TypeAlias

import pytest

from tests.unit.test_docstrings import tree
from tests.unit.test_imports import MODULES, place

ROOTS: Final = frozenset({"ServingError", "CommandFailure", "ClientError"})
"""Errors of the server, of the commands that ask one, and of the client; and their subclasses."""
CAUSES: Final = frozenset(
    {"LibraryFailure", "PatternRefused", "SessionFailure"}
    | {"RequestRefused", "_GraphFault", "_MediaPipeFault"}
)
"""Exceptions of another tree whose text a user reads behind the place where it is caught."""
FORMS: Final = re.compile(
    r"; |: [a-z]|: <>|expected |ask again|pip install|must |has to be |needs |^give "
)
"""A cause, then what to do; or what was expected. `<>` is a value."""
ADVICE_AROUND: Final = re.compile(r"expected <>|<>.*(; |: [a-z])|must |has to be |needs ")
"""What a function has around the text that it is given, if it says itself what to do."""
BEGINNING: Final = re.compile(r'^((?:\w+ )?"?<>"?(?:, \w+ "?<>"?)?: )+')
"""The place of an error, such as a file or an input, which is neither cause nor advice."""
TEXTS_OF_TENSORFLOW: Final = re.compile(
    r"engines/savedmodel/host/(kernels_\w+|allowance|index_checks|tables|tensor_list)$"
    r"|wire/(examples/|json/|tfs/)"
)
"""Modules that answer in the words of TensorFlow or TensorFlow Serving, which clients compare."""
ADVICE: Final = "the value at the end has the advice"
CAUSE: Final = "the value at the end is another error's text, which has the advice"
CALLER: Final = "the caller adds whether onnxruntime may run it"
SETTING: Final = "names the setting that ended the wait"
TENSORFLOW: Final = "TensorFlow Serving's own text"
OVMS: Final = "OpenVINO Model Server's own text"
NONE: Final = "of a load or download that is given up: nothing is to be done"
OTHERS: Final[Mapping[str, str]] = {
    "the hooks did not answer within <> ms (timeout_ms of the model)": SETTING,
    "the kernel did not answer within <> ms (timeout_ms of the model)": SETTING,
    "kernel <> hung for <> ms (timeout_ms of the model), and was ended": SETTING,
    "it took longer than its timeout_ms, <>": SETTING,
    'input "<>" <>': CAUSE,
    "image <> <>": CAUSE,
    "kernel <> <>": CAUSE,
    'example <>: feature "<>" <>': CAUSE,
    'it uses model "<>", which does not serve<>': CAUSE,
    'it uses version <> of model "<>", which does not serve<>': CAUSE,
    "<>, or leave out --<>": ADVICE,
    "hooks <> ask to run Python code<>": ADVICE,
    '<> "<>": OpenVINO does not <>': CALLER,
    '<>.<> "<>": OpenVINO does not <>': CALLER,
    '<> "<>": OpenVINO does not compute <>': CALLER,
    "output_shape in groups or in open sizes": CALLER,
    "auto_pad with a kernel of open size": CALLER,
    "align_corners by scales that leave a part of a pixel": CALLER,
    "the rewrite <>": "the caller names the pattern that RE2 refuses",
    "<> clamps infinity": "why two engines are not compared; no request fails",
    "1 servable(s) did not become available: {<>, }": TENSORFLOW,
    "Could not find version <> of model <>": TENSORFLOW,
    "Number of warmup records exceeds the maximum (<>) at <>": TENSORFLOW,
    "ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is"
    " currently supported": TENSORFLOW,
    "Both server_options.model_base_path and server_options.model_config_file are"
    " empty!": TENSORFLOW,
    "Config file not found or cannot open. <>": OVMS,
    "Reloading config file failed. Check server logs for more info.": OVMS,
    "Reloading models versions failed. Check server logs for more info.": OVMS,
    "Reloading models versions failed. Check server logs for more info. <>": OVMS,
    "<>, which ends programs": "SystemExit of a user's code, whose author knows why",
    "the Open Inference Protocol has no path <>: GET /v2 answers": "names a path that answers",
    "the server is being stopped": NONE,
    "the version is no longer wanted": NONE,
    "the download was broken off": NONE,
    "<>: broken off, the server stops": NONE,
}
"""Texts without advice, and why."""
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Named: TypeAlias = Mapping[str, Sequence[ast.expr]]
"""The values that a function, or a module, gives to its names."""


@cache
def kinds() -> frozenset[str]:
    """Names of all classes of errors whose text a user reads."""
    found = set(ROOTS | CAUSES)
    bases = [
        (node.name, {ast.unparse(base).rpartition(".")[2] for base in node.bases})
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
    ]
    while new := {name for name, above in bases if above & found} - found:
        found |= new
    return frozenset(found)


def unadvised(module: ast.Module, advising: Collection[str] = ()) -> Iterator[str]:
    """Give the texts of errors that a module makes without a word of what to do.

    Args:
        module: its syntax tree.
        advising: functions of other modules that add to a text what to do.
    """
    raised = {id(node.exc) for node in ast.walk(module) if isinstance(node, ast.Raise)}
    own = makers(module)
    for call, around in calls(module):
        name = called(call)
        is_maker = name in own or (id(call) in raised and name not in vars(builtins))
        advises = own.get(name, name in advising)
        for parts in error_texts(call, is_maker and not advises):
            for text in joined(parts, values(module, *around)):
                if is_sentence(text) and not FORMS.search(BEGINNING.sub("", text)):
                    yield text


@cache
def makers(module: ast.Module) -> Mapping[str, bool]:
    """Give the functions that put a text into an error, and whether they add what to do."""
    found: dict[str, bool] = {}
    for call, around in calls(module):
        for parts in error_texts(call, False):
            names = {name.id for each in parts for name in names_in(each)}
            for function in around:
                if names & {argument.arg for argument in function.args.args} - {"self"}:
                    texts = joined(parts, values(module, *around))
                    found[function.name] = all(map(ADVICE_AROUND.search, texts))
    return found


def names_in(node: ast.expr) -> Iterator[ast.Name]:
    """Give the names that are values of a text, and the text itself if it is a name."""
    shown = [each.value for each in ast.walk(node) if isinstance(each, ast.FormattedValue)]
    yield from (each for each in (node, *shown) if isinstance(each, ast.Name))


@cache
def calls(module: ast.Module) -> Sequence[tuple[ast.Call, Sequence[Function]]]:
    """Give each call of a module with the functions around it, the outermost first."""
    found = []
    ahead: list[tuple[ast.AST, Sequence[Function]]] = [(module, ())]
    while ahead:
        node, around = ahead.pop()
        if isinstance(node, Function):
            around = (*around, node)
        if isinstance(node, ast.Call):
            found.append((node, around))
        ahead += ((child, around) for child in ast.iter_child_nodes(node))
    return found


def values(*scopes: ast.Module | Function) -> Named:
    """Give what a module, and functions in it, assign to names; the innermost has precedence."""
    found: dict[str, Sequence[ast.expr]] = {}
    for scope in scopes:
        found |= assigned(scope)
    return found


@cache
def assigned(scope: ast.Module | Function) -> Named:
    """Give the values of each name that a function, or the top of a module, assigns."""
    found: dict[str, list[ast.expr]] = {}
    within = ast.iter_child_nodes(scope) if isinstance(scope, ast.Module) else ast.walk(scope)
    for each in within:
        if isinstance(each, ast.Assign | ast.AnnAssign) and each.value is not None:
            for target in each.targets if isinstance(each, ast.Assign) else [each.target]:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(each.value)
    return found


def called(call: ast.Call) -> str:
    """Give the last name of what is called."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def error_texts(call: ast.Call, is_maker: bool) -> Iterator[Sequence[ast.expr]]:
    """Give the parts of each text that a call makes an error of; none if it makes no error."""
    name = called(call)
    if name == "ConfigError":
        for given in call.args:
            yield from ([each] for each in elements(given))
    elif name in kinds():
        yield call.args
    elif name == "add" and len(call.args) == 2:
        yield call.args[1:]
    elif name == "append" and ast.unparse(call.func).split(".")[0].endswith("faults"):
        yield call.args
    elif is_maker and name.lstrip("_")[:1].islower():
        yield from ([each] for each in call.args)


def elements(node: ast.expr) -> Sequence[ast.expr]:
    """Give the expressions of a list, a tuple or a comprehension."""
    if isinstance(node, ast.List | ast.Tuple):
        return node.elts
    return [node.elt] if isinstance(node, ast.ListComp | ast.GeneratorExp) else [node]


def written(node: ast.expr, named: Named) -> Sequence[str]:
    """Give the texts that an expression may stand for, with `<>` for each value in them."""
    if isinstance(node, ast.FormattedValue):
        return written(node.value, named)
    if isinstance(node, ast.Name) and node.id in named:
        rest = {name: values for name, values in named.items() if name != node.id}
        return [text for value in named[node.id] for text in written(value, rest)]
    if isinstance(node, ast.IfExp):
        return [*written(node.body, named), *written(node.orelse, named)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return joined((node.left, node.right), named)
    if isinstance(node, ast.JoinedStr):
        return joined(node.values, named)
    if isinstance(node, ast.Call) and called(node) == "Hint" and len(node.args) == 1:
        return [re.sub(r"{.*?}", "<>", text) for text in written(node.args[0], named)]
    return [node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "<>"]


def joined(parts: Sequence[ast.expr], named: Named) -> Sequence[str]:
    """Give the texts that parts side by side may stand for."""
    return ["".join(each) for each in product(*(written(part, named) for part in parts))]


def is_sentence(text: str) -> bool:
    """Tell a text that a module writes from a name, a key, and values alone."""
    return " " in BEGINNING.sub("", text).strip() and bool(re.search("[a-z]{2} |[a-z]{2}$", text))


def test_an_error_says_what_to_do_or_what_was_expected() -> None:
    modules = {place(path): tree(path) for path in MODULES}
    every = [made for module in modules.values() for made in makers(module).items()]
    advising = {name for name, advises in every if advises and not name.startswith("_")}
    found = {
        text: name
        for name, module in modules.items()
        if not TEXTS_OF_TENSORFLOW.match(name)
        for text in unadvised(module, advising)
    }
    assert {text: name for text, name in found.items() if text not in OTHERS} == {}
    assert OTHERS.keys() - found.keys() == set()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        pytest.param('raise LoadFailed("it is cut")', ["it is cut"], id="raised"),
        pytest.param('error = LoadFailed(f"{x} is cut")', ["<> is cut"], id="made"),
        pytest.param('raise CommandMisused("it is cut")', ["it is cut"], id="of a command"),
        pytest.param('raise wrong("it is cut")', ["it is cut"], id="by a function elsewhere"),
        pytest.param('raise ConfigError([f"{x}: it is cut"])', ["<>: it is cut"], id="in a list"),
        pytest.param('faults.add(x, "it is cut")', ["it is cut"], id="among faults"),
        pytest.param('x = "it is cut"\nraise LoadFailed(x)', ["it is cut"], id="by a name"),
        pytest.param(
            'raise LoadFailed("it is " + ("cut" if x else "cut; send it again"))',
            ["it is cut"],
            id="in one of two cases",
        ),
        pytest.param(
            'def bad(text):\n    return LoadFailed(f"bad: {text}")\nbad("it is cut")',
            ["it is cut"],
            id="by a function",
        ),
        pytest.param(
            'def bad(text):\n    return LoadFailed(f"{text}; send it again")\nbad("it is cut")',
            [],
            id="by a function that adds what to do",
        ),
        pytest.param('raise LoadFailed(f"{x}: it is cut: send it again")', [], id="with advice"),
        pytest.param(
            'raise LoadFailed("it is cut", Hint(": raise {server.x}"))', [], id="with a hint"
        ),
    ],
)
def test_the_rule_sees_each_way_to_make_an_error(source: str, found: list[str]) -> None:
    assert list(unadvised(ast.parse(source))) == found
