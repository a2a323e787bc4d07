"""Medians, spreads and ratios as the benchmark prints them."""

from benchmarks.report import ratio, spread, table


def test_a_spread_is_the_furthest_distance_from_the_median() -> None:
    assert spread([900, 1000, 1200]) == "1,000 ±20%"


def test_a_ratio_compares_round_by_round() -> None:
    """A slow round of the machine hits both sides and leaves the ratio alone."""
    assert ratio([200, 100, 210], [100, 50, 100]) == "2.00 (2.00-2.10)"


def test_columns_are_aligned() -> None:
    assert table(["case", "rps"], [["a", "1"], ["bb", "1,000"]]).splitlines() == [
        "| case |   rps |",
        "| ---- | ----: |",
        "| a    |     1 |",
        "| bb   | 1,000 |",
    ]
