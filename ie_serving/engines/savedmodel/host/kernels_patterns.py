"""Kernels of regular expressions. Source: regex_replace_op.cc and regex_full_match_op.cc."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from ie_serving.core.values.tensors import Array
from ie_serving.engines.savedmodel.host import regex
from ie_serving.engines.savedmodel.host.host_kernel import (
    FLAG,
    TEXT,
    Attributes,
    Compute,
    HostKernel,
)
from ie_serving.engines.savedmodel.host.kernels_strings import each
from ie_serving.engines.savedmodel.host.regex import PatternRefused


def _static_replace(attributes: Attributes) -> Compute:
    every = attributes.flag("replace_global", True)
    try:
        function = regex.replacer(attributes.text("pattern"), attributes.text("rewrite"), every)
    except PatternRefused as error:
        raise _refused(attributes, attributes.text("pattern"), error) from error
    return lambda array: each(function, array)


def _replace(attributes: Attributes) -> Compute:
    every = attributes.flag("replace_global", True)

    def compute(array: Array, pattern: Array, rewrite: Array) -> Array:
        try:
            return each(regex.replacer(pattern.item(), rewrite.item(), every), array)
        except PatternRefused as error:
            raise InvalidRequest(f"the pattern {pattern.item()!r}: {error}") from error

    return compute


def _static_match(attributes: Attributes) -> Compute:
    try:
        found = regex.compiled(attributes.text("pattern"))
    except PatternRefused as error:
        raise _refused(attributes, attributes.text("pattern"), error) from error
    return lambda array: _matches(found, array)


def _match(array: Array, pattern: Array) -> Array:
    try:
        return _matches(regex.compiled(pattern.item()), array)
    except PatternRefused as error:
        raise InvalidRequest(f"the pattern {pattern.item()!r}: {error}") from error


def _matches(found: regex.Pattern, array: Array) -> Array:
    return each(found.matches, array, bool)


def _check(attributes: Attributes, inputs: Sequence[Any]) -> None:
    """Refuse a pattern, or a rewrite, that a request brings or that cannot be run.

    A request's pattern could take memory that nothing counts, and its rewrite write without end.
    """
    if any(each is None for each in inputs[1:]):
        raise attributes.refused("takes its pattern or rewrite from the request")
    pattern = inputs[1].item()
    try:
        found = regex.compiled(pattern)
        if len(inputs) > 2:
            regex.rewriter(inputs[2].item(), found.groups)
    except PatternRefused as error:
        raise _refused(attributes, pattern, error) from error


def _refused(attributes: Attributes, pattern: bytes, error: PatternRefused) -> LoadFailed:
    return attributes.refused(f"has the pattern {pattern.decode(errors='replace')!r} ({error})")


KERNELS: Final[Mapping[str, HostKernel]] = {
    "RegexFullMatch": HostKernel(lambda _: _match, (FLAG,), _check),
    "RegexReplace": HostKernel(_replace, (TEXT,), _check),
    "StaticRegexFullMatch": HostKernel(_static_match, (FLAG,)),
    "StaticRegexReplace": HostKernel(_static_replace, (TEXT,)),
}
