"""The report of `ie_serving tune`: results, comparison and advice, in lines and as JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ie_serving.commands.tune.bench import TrialOutcome
from ie_serving.commands.tune.search import Keys, Measurement, SearchSpace, middle

AS_IT_IS = "the configuration as it is"
WIDTH = 60
HEAD = f"{'tried':{WIDTH}} {'requests/s':>10} {'p50 ms':>9} {'p99 ms':>9}"


def row(tried: TrialOutcome) -> str:
    """Write the line of one result."""
    found = tried.measured
    if found is None:
        return f"{named(tried.keys):{WIDTH}} not possible: {tried.fault}"
    numbers = f"{found.requests_s:10.1f} {found.p50_ms:9.2f} {found.p99_ms:9.2f}"
    return f"{named(tried.keys):{WIDTH}} {numbers}"


def named(keys: Keys) -> str:
    """Write keys and values; properties of plugin_config by their own names."""
    inner = keys.get("plugin_config", {})
    flat = {name: value for name, value in keys.items() if name != "plugin_config"}
    return ", ".join(f"{name}={value}" for name, value in {**flat, **inner}.items()) or AS_IT_IS


def compared(as_it_is: Sequence[Measurement], changed: Sequence[Measurement]) -> Iterator[str]:
    """Write the rounds of both, and their noise."""
    ratio = middle(changed).requests_s / middle(as_it_is).requests_s
    yield f"{len(as_it_is)} rounds in turn, requests/s (least to most) and p99 in ms (median):"
    yield f"  {AS_IT_IS}: {_spread(as_it_is)}"
    faster = sum(b.requests_s > a.requests_s for a, b in zip(as_it_is, changed, strict=True))
    yield (
        f"  the best of these: {_spread(changed)}; {ratio:.2f} times as many, more in {faster} of"
        f" {len(changed)} rounds"
    )
    # Noise is the spread of one setting; between the two a difference may be the gain.
    least, most = _ends(as_it_is)
    share = (most - least) / middle(as_it_is).requests_s
    yield f"  noise: the same setting differs by {share:.0%} between rounds"


def _spread(rounds: Sequence[Measurement]) -> str:
    least, most = _ends(rounds)
    found = middle(rounds)
    return f"{found.requests_s:.1f} ({least:.1f} to {most:.1f}), p99 {found.p99_ms:.2f}"


def _ends(rounds: Sequence[Measurement]) -> tuple[float, float]:
    found = [each.requests_s for each in rounds]
    return min(found), max(found)


def verdict(
    keys: Keys, space: SearchSpace, as_it_is: Measurement, changed: Measurement
) -> Iterator[str]:
    """Write the advice, and whether the wanted latency is met."""
    kept = changed if keys else as_it_is
    if keys:
        yield "put into the model's entry of the configuration file:"
        yield json.dumps(keys)
    else:
        yield f"keep {AS_IT_IS}: nothing won beyond the noise"
    if not space.meets(kept):
        yield (
            f"its p99 of {kept.p99_ms:.2f} ms is above the {space.latency_ms:g} ms that are wanted,"
            " and nothing that was tried meets them: fewer callers at a time may"
        )


def document(keys: Keys, tried: Sequence[TrialOutcome]) -> Mapping[str, Any]:
    """Give the report as JSON."""
    return {"keys": keys, "tried": [_entry(each) for each in tried]}


def _entry(tried: TrialOutcome) -> Mapping[str, Any]:
    found = tried.measured
    if found is None:
        return {"keys": tried.keys, "fault": tried.fault}
    return {
        "keys": tried.keys,
        "requests_s": round(found.requests_s, 1),
        "p50_ms": round(found.p50_ms, 3),
        "p99_ms": round(found.p99_ms, 3),
    }
