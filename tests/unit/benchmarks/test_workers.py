"""What the benchmark of several workers makes of its figures."""

import pytest

from benchmarks.workers import doubled, serial_share


def test_workers_double_up_to_the_processors() -> None:
    assert list(doubled(1)) == ["1"]
    assert list(doubled(6)) == ["1", "2", "4", "6"]
    assert doubled(2)["2"] == ("--workers", "2")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_the_fitted_share_is_that_of_rates_by_amdahls_law(share: float) -> None:
    rates = {n: 1000 / (share + (1 - share) / n) for n in (1, 2, 4, 8)}
    assert serial_share(rates) == pytest.approx(share)
