"""Medians with their spread, as Markdown."""

from collections.abc import Sequence
from statistics import median


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Write the median and, in per cent of it, how far the furthest round lies: `1,234 ±5%`."""
    middle = median(values)
    off = max(abs(value - middle) for value in values) / middle if middle else 0.0
    return f"{middle:,.{digits}f} ±{off:.0%}"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Write the median of the rounds' ratios, with the least and the greatest: `1.20 (1.1-1.3)`."""
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a Markdown table, its columns aligned; all but the first to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    lines = [_line(headings, widths), _rule(widths), *(_line(row, widths) for row in rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    parts = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    return f"| {' | '.join(parts)} |"


def _rule(widths: Sequence[int]) -> str:
    first, *others = widths
    return f"| {'-' * first} | {' | '.join('-' * (width - 1) + ':' for width in others)} |"
