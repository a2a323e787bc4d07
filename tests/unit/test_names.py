"""Classes and modules are named by nouns of the field, so that a stack trace tells what failed."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.unit.test_docstrings import tree
from tests.unit.test_imports import MODULES, PACKAGE

NO_NOUN = re.compile(
    "_?(?:Alike|Beside|Direct|Dense|Expect|Gathers|How|Initial|Inside|Keeps|Kept|Later|Left|Lends"
    "|Live|Off|One|Others|Own|Plain|Ran|Ready|Runs|Secure|Seen|Sent|Several|Sparse|Tries|Verify"
    "|Which|Whole|Writes)"
)
"""Adjectives, adverbs, pronouns and verbs that were names of classes. Steps that a policy names, as
`Load` and `Evict`, are commands; `All` is a message of TensorFlow Serving's configuration."""
FORM_OF_A_VERB = re.compile("_?[A-Z][a-z]+(?:ed|ing)")
NOUN = re.compile(
    "(?:Batching|_Binding|Caching|Filling|Listing|Need|Preprocessing|Recording|Setting|Sibling"
    "|Tracing)|(?:Corrupted|Emptied|Missing|Throttled|Unauthenticated|Unauthorized|Untrusted)"
)
"""Nouns of the form of a verb; and errors by whose class a metric counts, or that HTTP names so."""
MODULE = re.compile("(?:alike|eager|later|optional|others)|(?!packed)[a-z]+ed|(?:as|by|of|with)_.*")
"""Names of modules that are no nouns. `packed` is a word of protocol buffers."""
PREPOSITION = re.compile("_?(?:As|At|By|For|From|Of|To|With)(?![a-z])")


def tables(tree: ast.Module) -> Iterator[Sequence[ast.expr]]:
    """Find the rows of each `parametrize` that has no `ids`, written out or as a constant."""
    rows = {}
    calls = []
    for node in of_classes(tree.body):
        match node:
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, value):
                rows[name] = value
                calls.append(value)
        calls += getattr(node, "decorator_list", [])
    for call in calls:
        match call:
            case ast.Call(ast.Attribute(attr="parametrize"), [_, given], []):
                found = rows.get(given.id) if isinstance(given, ast.Name) else given
                if isinstance(found, ast.List | ast.Tuple):
                    yield found.elts


def of_classes(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.ClassDef):
            yield from of_classes(node.body)


def test_no_name_of_a_class_begins_with_a_preposition() -> None:
    for path, name in classes():
        assert not PREPOSITION.match(name), f"{path}: {name}"


def test_no_two_private_classes_have_one_name() -> None:
    """A stack trace may show the name alone."""
    count = Counter(name for _, name in classes() if name.startswith("_"))
    assert not [name for name, times in count.items() if times > 1]


def test_each_row_of_a_long_table_has_an_id() -> None:
    """By `pytest.param(..., id=...)`, by `ids`, or by a column of its own (`tests/tables.py`)."""
    lacking = []
    for path in sorted(TESTS.rglob("*.py")):
        for rows in tables(ast.parse(path.read_text())):
            if len(rows) >= LONG and not all(map(is_named, rows)):
                lacking.append(f"{path}:{rows[0].lineno}")
    assert lacking == []


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Find names of others that begin with one underscore, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Name("self" | "cls") | ast.Call(ast.Name("super"))):
                continue
            case ast.Attribute(attr=name):
                yield node.lineno, name
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("ie_serving"):
                yield from ((node.lineno, each.name) for each in names)
            case ast.Call(ast.Attribute(attr="setattr"), [_, ast.Constant(str(name)), *_]):
                yield node.lineno, name


def test_unit_tests_read_and_replace_no_private_name() -> None:
    """What a test needs is the unit's contract, and has a public name, or is seen from outside."""
    found = []
    for path in sorted((TESTS / "unit").rglob("*.py")):
        for line, name in private_names(ast.parse(path.read_text())):
            if re.match("_[a-zA-Z]", name) and name not in OF_LIBRARIES:
                found.append(f"{path}:{line}: {name}")
    assert found == []
