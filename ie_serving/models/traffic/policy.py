"""The traffic policy: which version a request goes to, and when one loses its share. Pure."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

MOST_KEPT: Final = 10_000
"""Most requests of a window; beyond it the oldest leaves early. Enough for 1 % of errors."""
MOST_DIGITS: Final = 19
"""Most digits of a version number: those of the largest int64."""
WHOLE: Final = 100
"""Sum of all shares, in percent."""
SLOW_SHARE: Final = 0.05
"""Share of requests that may take longer than `latency_ms`: the limit is one of the 95th
percentile."""


@dataclass(frozen=True, kw_only=True)
class Rollback:
    """When a version with a smaller share loses it; see `judge`.

    Attributes:
        error_rate: largest share of failed requests, 0 to 1; None: errors do not count.
        latency_ms: largest 95th percentile of latency; None: latency does not count.
        min_requests: requests in the window before which nothing is decided.
        window_s: seconds for which a request counts.
    """

    error_rate: float | None = None
    latency_ms: float | None = None
    min_requests: int = 20
    window_s: float = 60.0

    def is_slow(self, took_s: float) -> bool:
        """Tell whether a request that took so long counts as slow."""
        return self.latency_ms is not None and took_s * 1000 > self.latency_ms


@dataclass(frozen=True, kw_only=True)
class TrafficRule:
    """How the requests of a model that name neither version nor label are divided.

    Attributes:
        shares: percent by label, or by version number as text.
        sticky: header, or key of metadata, whose equal values go to the same version.
        rollback: None: no version loses its share.
    """

    shares: Mapping[str, int]
    sticky: str = ""
    rollback: Rollback | None = None

    def weights(self, labels: Mapping[str, int]) -> list[tuple[int | None, int]]:
        """Give version and percent of each share; None for a label that is not assigned."""
        named = [(as_version(name), name, share) for name, share in self.shares.items()]
        return [(labels.get(name) if n is None else n, share) for n, name, share in named]

    @property
    def numbered(self) -> Mapping[int, int]:
        """Percent of the versions that are named by number, ascending."""
        weights = [(n, share) for n, share in self.weights({}) if n is not None]
        return dict(sorted(weights))

    def of_missing(self, labels: Mapping[str, int], found: Collection[int]) -> Mapping[int, int]:
        """Give the percent of each version, by number or label, that is not among those `found`."""
        missing: Counter[int] = Counter()
        for number, share in self.weights(labels):
            if number is not None and share and number not in found:
                missing[number] += share
        return dict(sorted(missing.items()))

    def of_unassigned(self, labels: Mapping[str, int]) -> Mapping[str, int]:
        """Give the percent of each label that names no version, such as one that was removed."""
        named = ((name, share) for name, share in self.shares.items() if as_version(name) is None)
        return {name: share for name, share in named if share and name not in labels}


def as_version(name: str) -> int | None:
    """Give the version that a share names by number; None for a label."""
    return int(name) if name.isascii() and name.isdigit() and len(name) <= MOST_DIGITS else None


@dataclass(frozen=True)
class VersionRanges:
    """Which version answers which hundredths of the requests.

    Attributes:
        ends: version by the end of its hundredths, ascending. They are those of the
            configuration, so that a version that comes or goes moves no request of another one.
        main: the usable version with the largest share; it also gets the shares of versions
            that are not usable.
    """

    ends: Sequence[tuple[int, int]]
    main: int

    def version_at(self, point: float) -> int:
        """Give the version of a point from 0 to below 100."""
        return next(version for end, version in self.ends if point < end)

    @property
    def shares(self) -> Mapping[int, int]:
        """Percent by version, of those that answer requests."""
        found: dict[int, int] = {}
        begin = 0
        for end, version in self.ends:
            found[version] = found.get(version, 0) + end - begin
            begin = end
        return {version: share for version, share in found.items() if share}


def ranges_of(
    weights: Sequence[tuple[int | None, int]], usable: Collection[int]
) -> VersionRanges | None:
    """Divide the requests among the usable versions; None where none has a share.

    The largest share comes last: one that grows at its cost keeps the points that it has.
    """
    sums: dict[int, int] = {}
    for version, weight in weights:
        if version in usable and version is not None and weight:
            sums[version] = sums.get(version, 0) + weight
    if not sums:
        return None
    main = max(sums, key=lambda version: sums[version])
    last = max(weights, key=lambda each: each[1])
    rest = list(weights)
    rest.remove(last)
    ends, end = [], 0
    for version, weight in (*rest, last):
        end += weight
        ends.append((end, version if version in sums and version is not None else main))
    return VersionRanges(tuple(ends), main)


def point_of(model: str, value: str) -> float:
    """Give the point of a sticky value: from the text alone, the same on every server."""
    digest = blake2b(f"{model}\0{value}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 10_000 / WHOLE


@dataclass(frozen=True, slots=True)
class SeenVersion:
    """What a version did with its requests of the window.

    Attributes:
        requests: requests that ended or are slow, without those whose client left before.
        failed: requests without an answer.
        slow: requests that took longer than `latency_ms`.
    """

    requests: int
    failed: int
    slow: int


@dataclass(frozen=True, slots=True)
class TakeShare:
    """Give the version's share to the main one."""

    cause: str


def judge(rule: Rollback, seen: SeenVersion) -> TakeShare | None:
    """Decide whether a version loses its share; None: it goes on."""
    count, window = seen.requests, f"of {seen.requests} requests within {rule.window_s:g} s"
    if count < rule.min_requests:
        return None
    if rule.error_rate is not None and seen.failed > rule.error_rate * count:
        return TakeShare(f"{seen.failed} {window} failed, more than error_rate {rule.error_rate:g}")
    if rule.latency_ms is not None and seen.slow > SLOW_SHARE * count:
        return TakeShare(
            f"{seen.slow} {window} took longer than latency_ms {rule.latency_ms:g},"
            f" more than {SLOW_SHARE:.0%}"
        )
    return None
