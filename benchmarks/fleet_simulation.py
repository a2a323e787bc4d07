"""Predict how a fleet of models on demand behaves: `make fleet-simulation`.

    python benchmarks/fleet_simulation.py --models 1000000 --replicas 20 --held 2000 \
        --requests_per_second 5000 --load_ms 80 --service_ms 2

Models are asked by Zipf's law, independently of each other. A replica that holds C models, the
last ones used, has a model in memory that is asked at the rate q with the probability
1 - exp(-q T), where T is such that these sum up to C (Che's approximation). By hash each replica
is asked for its own part of the models, at random each for all of them. Needs numpy alone.
"""

import argparse
import math
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np

SEED = 7
SPREAD = 0.3
"""Of the logarithm of a load's time: that of models of one size, by `make bench-fleet`."""
HALVINGS = 60
"""Of the interval that T lies in: beyond the precision of its figures."""


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """What is expected of a fleet.

    Attributes:
        hits: share of requests that find their model in memory.
        loads_per_second: of all replicas together.
        p99_ms: of the time that a request takes, without a wait for other requests.
        busiest: requests to the replica that is asked most, by those of an average one.
        distinct: models that are in the memory of any replica.
    """

    hits: float
    loads_per_second: float
    p99_ms: float
    busiest: float
    distinct: float


def zipf(models: int, exponent: float) -> Any:
    """Give the share of the requests that ask for each model, the first most often."""
    shares = np.arange(1, models + 1, dtype=np.float64) ** -exponent
    return shares / shares.sum()


def in_memory(shares: Any, held: int) -> Any:
    """Give the probability that each model is among the `held` last ones used."""
    if held >= len(shares):
        return np.ones(len(shares))
    low, high = 0.0, held / float(np.partition(shares, -held)[-held])
    while -np.expm1(-shares * high).sum() < held:
        high *= 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if -np.expm1(-shares * middle).sum() < held:
            low = middle
        else:
            high = middle
    return -np.expm1(-shares * high)


def predict(
    shares: Any,
    *,
    replicas: int,
    held: int,
    by_hash: bool,
    requests_per_second: float,
    load_ms: float,
    service_ms: float,
) -> Predicted:
    """Predict.

    Args:
        shares: the share of the requests that ask for each model.
        replicas: servers.
        held: models that the budget of each holds.
        by_hash: whether each model is sent to one replica; else to any.
        requests_per_second: of all replicas together.
        load_ms: a load.
        service_ms: an inference.
    """
    if by_hash:
        owner = np.random.default_rng(SEED).integers(replicas, size=len(shares))
        hits = distinct = 0.0
        for replica in range(replicas):
            own = shares[owner == replica]
            present = in_memory(own, held)
            hits, distinct = hits + float(own @ present), distinct + float(present.sum())
        busiest = float(np.bincount(owner, shares, replicas).max()) * replicas
    else:
        present = in_memory(shares, held)
        hits, busiest = float(shares @ present), 1.0
        distinct = float((1 - (1 - present) ** replicas).sum())
    return Predicted(
        hits=hits,
        loads_per_second=requests_per_second * (1 - hits),
        p99_ms=p99_ms(1 - hits, load_ms, service_ms),
        busiest=busiest,
        distinct=distinct,
    )


def p99_ms(misses: float, load_ms: float, service_ms: float) -> float:
    """Give the 99th percentile: hits spread exponentially, loads log-normally by `SPREAD`."""
    median = load_ms * math.exp(-(SPREAD**2) / 2)
    low, high = 0.0, 100 * (load_ms + service_ms)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        longer = (1 - misses) * math.exp(-middle / service_ms)
        over = math.log(max(middle - service_ms, 1e-9) / median)
        longer += misses * math.erfc(over / SPREAD / math.sqrt(2)) / 2
        low, high = (middle, high) if longer > 0.01 else (low, middle)
    return high


def least_recently_used(
    asked: Iterable[int], held: int, counts: Iterable[bool] = repeat(True)
) -> float:
    """Give the share of hits of a cache of `held` models, exactly.

    Args:
        asked: models in the order of their requests.
        held: models.
        counts: whether each request counts; the others only use their models.
    """
    cache: OrderedDict[int, None] = OrderedDict()
    hits = requests = 0
    for model, is_counted in zip(asked, counts, strict=False):
        requests += is_counted
        hits += is_counted and model in cache
        cache[model] = None
        cache.move_to_end(model)
        if len(cache) > held:
            cache.popitem(last=False)
    return hits / requests


def main() -> None:
    """Print the prediction for both ways to send requests."""
    parser = argparse.ArgumentParser(prog="make fleet-simulation", description=__doc__)
    parser.add_argument("--models", type=int, default=1_000_000)
    parser.add_argument("--replicas", type=int, default=20)
    parser.add_argument("--held", type=int, default=2000, help="models that each replica holds")
    parser.add_argument("--exponent", type=float, default=1.0, help="of Zipf's law")
    parser.add_argument("--requests_per_second", type=float, default=5000.0)
    parser.add_argument("--load_ms", type=float, default=80.0, help="mean time of a load")
    parser.add_argument("--service_ms", type=float, default=2.0, help="mean time of a hit")
    given = vars(parser.parse_args())
    shares = zipf(given.pop("models"), given.pop("exponent"))
    found = {
        name: predict(shares, by_hash=by_hash, **given)
        for name, by_hash in (("by hash of the model", True), ("round robin", False))
    }
    print(f"{'':28}" + "".join(f"{name:>22}" for name in found))
    for name, meaning in (
        ("hits", "hits"),
        ("loads_per_second", "loads a second"),
        ("p99_ms", "p99, ms"),
        ("busiest", "busiest replica, of average"),
        ("distinct", "different models in memory"),
    ):
        print(f"{meaning:28}" + "".join(f"{getattr(p, name):22,.4g}" for p in found.values()))


if __name__ == "__main__":
    main()
