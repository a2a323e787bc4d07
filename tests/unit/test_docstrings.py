"""A docstring names exceptions that exist, and a string that documents stands where it can."""

import ast
import builtins
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ie_serving.core.values import errors
from tests.unit.test_imports import MODULES, PACKAGE, ROOT, edges, place

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
NAME = r"_?[A-Za-z][\w.]*\w"
NAMED_MODULE = re.compile(r"`([a-z_0-9/]+\.py)`|^([a-z_]+\.py) +\S", re.MULTILINE)
"""In backquotes, or at the start of a line of a table."""
ANYWHERE = {*vars(builtins), *vars(errors), *sys.stdlib_module_names}
"""Names that a docstring may use in every module: protocols name errors that they do not import."""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def names(path: Path) -> frozenset[str]:
    """The classes that a module defines, and what it imports, also inside of functions."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return frozenset(found)


def raised(docstring: str) -> Iterator[str]:
    """The exceptions after `Raises:`, in its line or in the lines below it."""
    for line in re.findall(rf"\bRaises:? ((?:{NAME}, )*[A-Z]\w+)", docstring):
        yield from line.split(", ")
    for below in re.findall(r"^Raises:\n((?: {4}.*\n?|\n)+)", docstring, re.MULTILINE):
        for line in re.findall(rf"^ {{4}}({NAME}(?:, {NAME})*)(?::|$)", below, re.MULTILINE):
            yield from line.split(", ")


def implementers(here: str) -> Iterator[str]:
    """The modules that import a module with protocols: theirs are the errors of its methods."""
    if "Protocol" in names(PACKAGE / f"{here}.py"):
        yield from (user for user, others in edges().items() if here in others)


def test_an_exception_after_raises_is_known_to_the_module_or_to_one_that_it_imports() -> None:
    """So a class cannot be renamed without the docstrings that name it."""
    paths = {place(path): path for path in MODULES}
    count = 0
    for here, path in paths.items():
        near = {each for each in edges()[here] if each in paths}
        near |= {user for user in implementers(here) if user in paths}
        known = ANYWHERE.union(names(path), *(names(paths[each]) for each in near))
        for node in ast.walk(tree(path)):
            if isinstance(node, DOCUMENTED):
                for name in raised(ast.get_docstring(node) or ""):
                    count += 1
                    where = f"{path}, {getattr(node, 'name', '')}: {name} is not known here"
                    assert name.partition(".")[0] in known, where
    assert count > 900


def strings(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt | None, ast.stmt]]:
    """Each statement that is a mere string, after the one before it."""
    for before, each in zip([None, *body], body, strict=False):
        value = each.value if isinstance(each, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield before, each


def test_a_string_statement_follows_what_it_documents() -> None:
    for path in MODULES:
        for node in ast.walk(tree(path)):
            body = getattr(node, "body", None)
            for before, each in strings(body if isinstance(body, list) else []):
                documents = before is None or isinstance(before, ast.Assign | ast.AnnAssign)
                assert documents, f"{path}:{each.lineno} documents nothing"


def test_no_docstring_adds_a_second_subject_by_also() -> None:
    """A part of a module is named there: "Also reads ..." leaves open which function does it."""
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, DOCUMENTED):
                docstring = ast.get_docstring(node) or ""
                added = re.search(r"(?:^|\.\s+)Also [`a-z]\S*", docstring)
                assert not added, f"{path}, {getattr(node, 'name', '')}: {added}"


def test_a_module_that_a_docstring_names_is_there() -> None:
    """A module beside it or in a folder above has a bare name; others have a path, tests either."""
    others = [*ROOT.glob("*.py"), *(ROOT / "tests").rglob("*.py"), *PACKAGE.rglob("*.py")]
    lost = []
    for path in MODULES:
        above = [each for each in path.parents if each.is_relative_to(PACKAGE)]
        for name in (name for text in constants(path) for name in NAMED_MODULE.findall(text)):
            wanted = "".join(name)
            of_tests = "/" in wanted or wanted.startswith("test_") or wanted == "setup.py"
            is_there = of_tests and any(f"{each}".endswith(f"/{wanted}") for each in others)
            if not is_there and not any((folder / wanted).is_file() for folder in above):
                lost.append(f"{place(path)}: {wanted}")
    assert lost == []


def constants(path: Path) -> Iterator[str]:
    """Every docstring of a module, and the strings below its constants."""
    bodies = (getattr(node, "body", None) for node in ast.walk(tree(path)))
    for body in bodies:
        for _, each in strings(body) if isinstance(body, list) else ():
            yield ast.literal_eval(ast.unparse(each))
