"""Regular expressions of a model, as TensorFlow runs them, and how long they take."""

import re
import time

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from ie_serving.engines.savedmodel.host import regex
from ie_serving.engines.savedmodel.host.host_kernel import Attributes
from ie_serving.engines.savedmodel.host.kernels import KERNELS
from ie_serving.wire.protobuf import graph
from tests.tables import named_by

PATTERNS = [
    rb"a*",
    rb"",
    rb"\b",
    rb"(a|b)*c",
    rb"(?i)AB|\pL",
    rb"\s+$",
    rb"^\s*(.*?)\s*$",
    rb"(?s).(\w)?",
    rb"[[:punct:]]|\d{2,}",
    rb"(?m)^a",
    rb"(?P<first>a)b?",
    "é|[ü-ÿ]|😀".encode(),
    rb"\C",
    rb"x*?",
]
TEXTS = st.one_of(st.text("ab cé😀-1\n\xff", max_size=12).map(str.encode), st.binary(max_size=8))


@given(
    st.sampled_from(PATTERNS), TEXTS, st.sampled_from([rb"<\0>", rb"", rb"\\\0-"]), st.booleans()
)
def test_it_replaces_as_tensorflow_does(
    pattern: bytes, text: bytes, rewrite: bytes, every: bool
) -> None:
    found = regex.compiled(pattern)
    expected = tf.strings.regex_replace(text, pattern, rewrite, replace_global=every).numpy()
    assert found.replaced(text, regex.rewriter(rewrite, found.groups), every) == expected


CLASSES = [
    rb"[!\"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']",
    rb"[^a-z ]",
    rb"[\W\d]",
    rb"[\]\n-]",
    rb"[^\]\x{e9}]",
    r"[\pLé]".encode(),
    rb"[]a]",
    rb"[[:alpha:]]",
    rb"[a][b]",
    rb"[ab]+",
]


@given(
    st.sampled_from(CLASSES),
    st.one_of(TEXTS, st.text("aB c]\\\n-!1", max_size=12).map(str.encode)),
    st.sampled_from([b"", b"-", b"a", rb"<\0>"]),
    st.booleans(),
)
def test_a_class_of_characters_is_replaced_as_tensorflow_does(
    pattern: bytes, text: bytes, rewrite: bytes, every: bool
) -> None:
    expected = tf.strings.regex_replace(text, pattern, rewrite, replace_global=every).numpy()
    assert regex.replacer(pattern, rewrite, every)(text) == expected


@given(st.sampled_from(PATTERNS), TEXTS)
def test_it_matches_as_tensorflow_does(pattern: bytes, text: bytes) -> None:
    expected = tf.strings.regex_full_match(text, pattern).numpy()
    assert regex.compiled(pattern).matches(text) == expected


@pytest.mark.parametrize(
    "pattern", [rb"(a+)+$", rb"(a|ab)*c", rb"a*a*a*a*b", b"a?" * 20 + b"a" * 20]
)
def test_no_pattern_takes_longer_than_its_string_is_long(pattern: bytes) -> None:
    """Python's `re` tried exponentially many ways."""
    found = regex.compiled(pattern)
    started = time.thread_time()
    assert not found.matches(b"a" * 200_000 + b"x")
    assert time.thread_time() - started < 1


@named_by(
    "pattern",
    ("pattern", "words"),
    [
        (rb"(", "missing )"),
        (rb"(?=a)", "invalid perl operator"),
        (rb"\1", "invalid escape sequence"),
        (rb"a**", "bad repetition operator"),
        (rb"[z-a]", "invalid character class range"),
        (rb"(?:a{1000}){1000}", "invalid repetition size"),
    ],
)
def test_a_pattern_that_re2_does_not_take_is_refused_in_its_words(
    pattern: bytes, words: str
) -> None:
    with pytest.raises(regex.PatternRefused, match=re.escape(words)):
        regex.compiled(pattern)


@pytest.mark.parametrize("rewrite", [rb"\2", rb"\n", b"\\"])
def test_a_rewrite_that_replaces_nothing_is_refused(rewrite: bytes) -> None:
    with pytest.raises(regex.PatternRefused, match="the rewrite"):
        regex.rewriter(rewrite, 1)


@pytest.mark.parametrize("operation", ["RegexReplace", "RegexFullMatch"])
@pytest.mark.parametrize("constant", [(), (1,)])
def test_a_pattern_of_the_request_is_refused_at_load(
    operation: str, constant: tuple[int, ...]
) -> None:
    count = 3 if operation == "RegexReplace" else 2
    known = np.array(b"a", np.object_)
    inputs = [known if at in constant and count == 3 else None for at in range(count)]
    node = graph.NodeDef(name="n", op=operation)
    with pytest.raises(LoadFailed, match=f"{operation} 'n' takes its pattern or rewrite from"):
        KERNELS[operation].check(Attributes(node), inputs)


def test_a_number_that_is_none_is_found_in_one_pass() -> None:
    """A pattern of our own that divided 200,000 digits in every way took minutes."""
    compute = KERNELS["StringToNumber"].make(Attributes(graph.NodeDef(op="StringToNumber")))
    started = time.thread_time()
    with pytest.raises(InvalidRequest, match="could not correctly convert string"):
        compute(np.array([b"1" * 200_000 + b"x"], np.object_))
    assert time.thread_time() - started < 1
