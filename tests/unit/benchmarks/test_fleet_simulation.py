"""What is predicted of a fleet, beside caches that are given every request."""

import numpy as np
import pytest

from benchmarks.fleet_simulation import (
    SPREAD,
    in_memory,
    least_recently_used,
    p99_ms,
    predict,
    zipf,
)

FIGURES = {"requests_per_second": 1000.0, "load_ms": 100.0, "service_ms": 2.0}


@pytest.mark.thinned
@pytest.mark.parametrize("exponent", [0.6, 1.0, 1.3])
@pytest.mark.parametrize("held", [20, 200, 1000])
def test_hits_are_those_of_an_exact_lru(exponent: float, held: int) -> None:
    shares = zipf(2000, exponent)
    asked = np.random.default_rng(3).choice(2000, 200_000, p=shares)
    found = predict(shares, replicas=1, held=held, by_hash=True, **FIGURES)
    assert found.hits == pytest.approx(least_recently_used(asked, held), abs=0.01)
    assert found.loads_per_second == pytest.approx(1000 * (1 - found.hits))


@pytest.mark.parametrize("by_hash", [True, False])
def test_hits_of_several_servers_are_those_of_as_many_lrus(by_hash: bool) -> None:
    generator = np.random.default_rng(3)
    shares, replicas = zipf(2000, 1.0), 4
    asked = generator.choice(2000, 200_000, p=shares)
    owner = np.random.default_rng(7).integers(replicas, size=2000)
    server = owner[asked] if by_hash else generator.integers(replicas, size=len(asked))
    parts = [asked[server == number] for number in range(replicas)]
    exact = sum(least_recently_used(part, 100) * len(part) for part in parts) / len(asked)
    found = predict(shares, replicas=replicas, held=100, by_hash=by_hash, **FIGURES)
    assert found.hits == pytest.approx(exact, abs=0.01)


def test_the_models_in_memory_are_as_many_as_are_held() -> None:
    assert in_memory(zipf(1000, 1.0), 100).sum() == pytest.approx(100)
    assert in_memory(zipf(1000, 1.0), 1000).tolist() == [1.0] * 1000


@pytest.mark.parametrize("misses", [0.0, 0.001, 0.05, 0.5, 1.0])
def test_p99_is_that_of_times_that_are_drawn(misses: float) -> None:
    generator = np.random.default_rng(3)
    took = generator.exponential(2.0, 1_000_000)
    waits = generator.random(len(took)) < misses
    took[waits] = 2.0 + 100.0 * np.exp(generator.normal(-(SPREAD**2) / 2, SPREAD, int(waits.sum())))
    assert p99_ms(misses, 100.0, 2.0) == pytest.approx(np.percentile(took, 99), rel=0.05)
