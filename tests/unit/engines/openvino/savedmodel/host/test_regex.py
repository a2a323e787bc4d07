"""How long a regular expression of a model may take for the strings of a client."""

import time

import numpy as np
import pytest

from ie_serving.core.errors import InvalidRequest, InvalidTensor, LoadFailed
from ie_serving.engines.openvino.savedmodel.host import regex
from ie_serving.engines.openvino.savedmodel.host.attributes import Attributes
from ie_serving.engines.openvino.savedmodel.host.kernels import KERNELS
from ie_serving.engines.openvino.savedmodel.host.regex_cost import Refused
from ie_serving.wire.protobuf import graph


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a*)*b",
        "(?:a?)*b",
        "((a{1,3})b?)+",
        "(a|ab)*c",
        r"(\w|a)+-",
        "(é|ü)*",
        "(a|)*b",
        "(a*){20}b",
        "(^)*a",
        "a?" * 20 + "a" * 20,
        "(a|b|ab)" * 15 + "$",
        "a*" * 6 + "b",
        "a{0,90}" * 5 + "b",
    ],
)
def test_what_repeats_a_repetition_is_refused(pattern: str) -> None:
    """One string of 40 bytes could hold the interpreter for years."""
    with pytest.raises(Refused, match="Python would take"):
        regex.compiled(pattern.encode())


@pytest.mark.parametrize(
    ("pattern", "longest"),
    [
        pytest.param("a", 1 << 24, id="a word"),
        pytest.param(r"\s+", 1 << 24, id="nothing behind the repetition can fail"),
        pytest.param(r"(\w)(\w*)", 1 << 24, id="a group, repeated at the end"),
        pytest.param("(?:ab|cd){2,}", 1 << 22, id="alternatives that begin differently"),
        pytest.param("[0-9]{3}-(ab{2})+", (1 << 24) // 6, id="a number of times"),
        pytest.param("<[^>]*>", 1 << 12, id="a repetition from each character on"),
        pytest.param(r"\s+$", 1 << 12, id="an end that fails"),
        pytest.param(r"^\s*(.*?)\s*$", 256, id="three repetitions from the start on"),
    ],
)
def test_how_long_a_string_may_be_searched(pattern: str, longest: int) -> None:
    assert regex.compiled(pattern.encode()).longest_searched == longest


@pytest.mark.parametrize(
    ("pattern", "length"),
    [("a*$", 1 << 22), ("a*b", 1 << 12), ("a*a*b", 256), ("(a|b)*c", 2896), ("a*a*a*b", 64)],
)
def test_the_worst_string_of_a_pattern_is_answered_at_once_or_refused(
    pattern: str, length: int
) -> None:
    found = regex.compiled(pattern.encode())
    started = time.thread_time()
    assert not found.matches(b"a" * min(length, found.longest_matched - 1) + b"x")
    replace = regex.rewriter(b"-", 0)
    text = b"a" * (min(length, found.longest_searched) - 1) + b"x"
    found.replaced(text, replace, every=True)
    assert time.thread_time() - started < 2
    with pytest.raises(InvalidTensor, match=r"takes at most .*: send shorter strings"):
        found.replaced(b"a" * (found.longest_searched + 1), replace, every=True)
    with pytest.raises(InvalidTensor, match=r"takes at most .*: send shorter strings"):
        found.matches(b"a" * (found.longest_matched + 1))


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
