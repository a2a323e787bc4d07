"""Kernel that joins neighbouring strings. Source: string_ngrams_op.cc of TensorFlow."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array
from ie_serving.engines.savedmodel.host.allowance import make_room
from ie_serving.engines.savedmodel.host.attributes import Attributes
from ie_serving.engines.savedmodel.host.host_kernel import (
    TEXT,
    Compute,
    HostKernel,
    Output,
    in_thread,
)
from ie_serving.engines.savedmodel.host.kernels_strings import texts


def _ngrams(attributes: Attributes) -> Compute:
    separator, widths = attributes.text("separator"), attributes.integers("ngram_widths")
    left, right = attributes.text("left_pad"), attributes.text("right_pad")
    padding = attributes.integer("pad_width")
    keeps_short = attributes.flag("preserve_short_sequences")

    def of_row(row: list[bytes]) -> Iterator[bytes]:
        found = False
        for width in widths:
            pad = width - 1 if padding < 0 else min(padding, width - 1)
            padded = [left] * pad + row + [right] * pad
            for at in range(len(padded) - width + 1):
                found = True
                yield separator.join(padded[at : at + width])
        # A row too short for every width is one n-gram of all that it has.
        if keeps_short and row and not found:
            pad = max(padding, 0)
            yield separator.join([left] * pad + row + [right] * pad)

    def compute(data: Array, splits: Array) -> list[Array]:
        bounds = _bounds(splits, data.size)
        # Each n-gram repeats its strings: a wide one makes much of few bytes.
        make_room((data.size + 1, sum(widths), max(widths, default=1)), np.dtype(np.int64))
        held: list[bytes] = data.tolist()
        rows = [list(of_row(held[a:b])) for a, b in pairwise(bounds)]
        ends = np.cumsum([0, *map(len, rows)])[: len(bounds)] if bounds else np.empty(0)
        return [texts([gram for row in rows for gram in row]), ends.astype(splits.dtype)]

    return compute


def _bounds(splits: Array, size: int) -> Sequence[int]:
    bounds: list[int] = splits.tolist()
    if bounds and (bounds[0] or bounds[-1] != size or any(np.diff(splits) < 0)):
        raise InvalidRequest(f"Invalid split values {bounds} for {size} strings")
    return bounds


KERNELS: Final[Mapping[str, HostKernel]] = {
    "StringNGrams": in_thread(
        HostKernel(
            _ngrams,
            (Output("", TEXT.dtype, "ngrams"), Output("Tsplits", None, "ngrams_splits")),
        )
    ),
}
