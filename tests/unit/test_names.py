"""Classes and modules are named by nouns of the field, so that a stack trace tells what failed."""

import ast
import re
from collections import Counter

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


def classes() -> list[tuple[str, str]]:
    """The module and the name of each class."""
    return [
        (path.relative_to(PACKAGE).as_posix(), node.name)
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
    ]


def test_a_class_of_one_word_has_a_noun_for_its_name() -> None:
    for path, name in classes():
        assert not NO_NOUN.fullmatch(name), f"{path}: {name} is no noun"
        assert NOUN.fullmatch(name) or not FORM_OF_A_VERB.fullmatch(name), f"{path}: {name} what?"


def test_no_name_of_a_class_begins_with_a_preposition() -> None:
    for path, name in classes():
        assert not PREPOSITION.match(name), f"{path}: {name}"


def test_no_two_private_classes_have_one_name() -> None:
    """A stack trace may show the name alone."""
    count = Counter(name for _, name in classes() if name.startswith("_"))
    assert not [name for name, times in count.items() if times > 1]


def test_a_module_has_a_noun_for_its_name() -> None:
    for path in MODULES:
        assert not MODULE.fullmatch(path.stem), f"{path.relative_to(PACKAGE)} is no noun"
