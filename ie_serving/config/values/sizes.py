"""Sizes of batches."""

from collections.abc import Sequence
from itertools import pairwise

from ie_serving.config.values.faults import fault
from ie_serving.config.values.numbers import whole
from ie_serving.core.values.integers import INT32_MAX


def batch_sizes(value: object, place: str) -> tuple[int, ...]:
    """Read increasing sizes: a list of JSON, or numbers between commas, in brackets or not."""
    given = _listed(value) if isinstance(value, str) else value
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise fault(place, value, "a list of sizes such as [8, 16, 32]")
    sizes = [whole(each) for each in given]
    known = [size for size in sizes if size is not None and 1 <= size <= INT32_MAX]
    if len(known) < len(sizes) or any(low >= high for low, high in pairwise(known)):
        raise fault(place, value, "whole numbers from 1, each larger than the one before")
    return tuple(known)


def _listed(value: str) -> Sequence[str]:
    text = value.strip()
    inner = text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text
    return inner.split(",") if inner.strip() else []
