"""Faults of a file of hooks that show before it is run: its syntax, and the forms of its hooks.

The command refuses to start for them, since no later try would go better.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType

from ie_serving.compat.kibernetika.hooks.functions import NAMES, POST, PRE, bound, entries
from ie_serving.core.values.errors import LoadFailed


def fault(file: Path, models: int) -> str:
    """Give the first fault, with its file and line; empty if there is none to see.

    Args:
        file: path of the file of hooks.
        models: number of models of the chain.
    """
    try:
        tree = ast.parse(file.read_bytes(), str(file))
        for node, name, value in _hooks(tree):
            line = node
            _check(name, value, models)
    except SyntaxError as error:
        return f"{file}, line {error.lineno}: SyntaxError: {error.msg}"
    except (ValueError, RecursionError) as error:  # zero bytes; nested too deeply
        return f"{file}: {error}"
    except LoadFailed as error:
        return f"{file}, line {line}: {error}"
    return ""


def _hooks(tree: ast.Module) -> Iterator[tuple[int, str, object]]:
    """Yield each hook with its line and name: a function of its form, or a list of such."""
    made: Mapping[str, FunctionType] = {
        each.name: _stub(each)
        for each in tree.body
        if isinstance(each, ast.FunctionDef) and not each.decorator_list
    }
    for each in tree.body:
        if isinstance(each, ast.FunctionDef) and each.name in NAMES and each.name in made:
            yield each.lineno, each.name, made[each.name]
        elif isinstance(each, ast.Assign) and isinstance(each.value, ast.List | ast.Tuple):
            values = [made.get(v.id) if isinstance(v, ast.Name) else None for v in each.value.elts]
            for target in each.targets:
                if isinstance(target, ast.Name) and target.id in (PRE, POST):
                    yield each.lineno, target.id, values


def _stub(function: ast.FunctionDef) -> FunctionType:
    """Make a function of the same parameters that does nothing."""
    given = function.args
    for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
        if each is not None:
            each.annotation = None
    nothing: ast.expr = ast.copy_location(ast.Constant(None), function)
    given.defaults = [nothing for _ in given.defaults]
    given.kw_defaults = [each and nothing for each in given.kw_defaults]
    body: list[ast.stmt] = [ast.Pass()]
    stub = ast.copy_location(ast.FunctionDef(function.name, given, body, []), function)
    space: dict[str, FunctionType] = {}
    exec(compile(ast.fix_missing_locations(ast.Module([stub], [])), "<stub>", "exec"), space)
    return space[function.name]


def _check(name: str, value: object, models: int) -> None:
    """Raises: LoadFailed."""
    if name not in (PRE, POST):
        if name == "process":
            bound(name, value, {})
        return
    for each in entries(name, value, models):
        if each is not None:
            bound(name, each, {})
