"""Parses the settings of a model's split traffic and of its shadow; says when a shadow may answer.

Pure: `inference/shadows.py` compares at the times that this module gives.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ie_serving.core.settings import words
from ie_serving.core.settings.declaration import SettingKind
from ie_serving.core.settings.faults import Faults, Parser, fault
from ie_serving.core.settings.numbers import (
    integer,
    milliseconds,
    share,
    timeout,
    version,
)
from ie_serving.core.settings.structures import mapping
from ie_serving.core.values.errors import ConfigError
from ie_serving.models.traffic.policy import MOST_KEPT, WHOLE, Rollback

SHARE: Final = 0.001
"""Most of the time that comparisons take: a tenth of the hundredth that a 99th percentile leaves
out. With a half of it, that percentile was 14 % longer: it became the 99.5th of all else."""
SETTLE_S: Final = 0.1
"""Least age of a copy that is compared: its answer has been sent then, also a large one."""
LONGEST_REST_S: Final = 600.0
"""Longest pause, so that one slow answer does not end the comparisons; an older copy is dropped."""
LOOK_S: Final = 0.02
"""Seconds between two looks at versions that are in use."""
MOST_COPIES: Final = 16
MOST_COPIED_BYTES: Final = 1 << 26
"""Copies of a model, of requests under way too, and their tensors: those beyond are not made."""


@dataclass(frozen=True, kw_only=True)
class Shadow:
    """Which requests of a model a second version answers too, and what becomes of differences.

    Attributes:
        model: the model of that version; empty for the same model.
        version: its number; None for the one that requests get, or the labelled one.
        label: its label; None for none.
        sampling_rate: share of the requests, 0 to 1.
        tolerance: by which numbers may differ, see `core.values.difference.drifts`.
        path: how the paths of the files with different answers begin; empty: no files.
        max_samples: requests in these files.
    """

    model: str = ""
    version: int | None = None
    label: str | None = None
    sampling_rate: float
    tolerance: float = 1e-3  # that of `difference`, which imports numpy
    path: str = ""
    max_samples: int = 100


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known when a copy may be compared; times are those of one clock.

    Attributes:
        now: the time.
        taken: when the copy was taken.
        rested: when the pause behind the last comparison ends.
        is_spare: whether each version of the two models takes one request more without a wait.
        is_alone: whether nothing is compared for another model.
    """

    now: float
    taken: float
    rested: float
    is_spare: bool
    is_alone: bool


def wait_s(moment: Moment) -> float:
    """Give the seconds until the next look; 0: compare now."""
    wait = max(moment.taken + SETTLE_S, moment.rested) - moment.now
    if wait > 0:
        return wait
    return 0.0 if moment.is_spare and moment.is_alone else LOOK_S


def rest_s(took_s: float, models: int) -> float:
    """Give the pause behind a comparison that took so long, of each of `models` with a shadow."""
    return min(took_s * (models / SHARE - 1), LONGEST_REST_S)


def has_room(copies: int, copied_bytes: int, nbytes: int) -> bool:
    """Tell whether there may be one more copy, of `nbytes`."""
    fits = not copies or copied_bytes + nbytes <= MOST_COPIED_BYTES
    return fits and copies < MOST_COPIES


MOST_SAMPLES: Final = 100_000
"""Most requests that the files of one shadow may be set to hold."""
_PERCENT: Parser[int] = integer(0, WHOLE)


def _error_rate(value: object, place: str) -> float:
    """Read a share below 1: more than all requests never fail, so 1 would decide nothing."""
    found = share(value, place)
    if found == 1:
        raise fault(place, value, "a number from 0 to below 1, such as 0.05")
    return found


_RULES: Final[Mapping[str, tuple[str, Parser[Any]]]] = {
    "error_rate": ("error_rate", _error_rate),
    "latency_ms": ("latency_ms", milliseconds),
    "min_requests": ("min_requests", integer(1, MOST_KEPT)),
    "window_seconds": ("window_s", timeout),
}
"""Field and parser of each key of `rollback`."""


def traffic(value: object, place: str) -> Mapping[str, int]:
    """Read percent by label or version."""
    expected = 'an object such as {"stable": 95, "canary": 5}'
    faults = Faults()
    given = mapping(value, place, expected)
    found = {name: faults.take(_PERCENT, item, f"{place}.{name}") for name, item in given.items()}
    faults.check()
    shares = {name: percent for name, percent in found.items() if percent is not None}
    if shares and sum(shares.values()) != WHOLE:
        raise ConfigError(
            [f"{place}: the shares sum to {sum(shares.values())}; expected {WHOLE} in all"]
        )
    return shares


def rollback(value: object, place: str) -> Rollback:
    """Read when a version loses its share."""
    expected = f"an object with error_rate or latency_ms, and no keys but {', '.join(_RULES)}"
    given = mapping(value, place, expected)
    if given.keys() - _RULES.keys() or not given.keys() & {"error_rate", "latency_ms"}:
        raise fault(place, dict(given), expected)
    faults = Faults()
    found: dict[str, Any] = {
        _RULES[key][0]: faults.take(_RULES[key][1], item, f"{place}.{key}")
        for key, item in given.items()
    }
    faults.check()
    return Rollback(**found)


def _path(value: object, place: str) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise fault(place, value, "an absolute path: the files' paths begin with it")
    return value


def _sampling_rate(value: object, place: str) -> float:
    """Read a share above 0: a shadow without copies would answer nothing."""
    found = share(value, place)
    if found == 0:
        raise fault(place, value, "a number above 0, such as 0.01; for no shadow, leave it out")
    return found


_OF_SHADOW: Final[Mapping[str, Parser[Any]]] = {
    "model": words.name,
    "label": words.name,
    "version": version,
    "sampling_rate": _sampling_rate,
    "tolerance": share,
    "path": _path,
    "max_samples": integer(1, MOST_SAMPLES),
}


def shadow(value: object, place: str) -> Shadow:
    """Read which version answers copies of requests."""
    expected = (
        "an object with sampling_rate, with label, version or model (label and version exclude each"
        f" other), and no keys but {', '.join(_OF_SHADOW)}"
    )
    given = mapping(value, place, expected)
    keys = given.keys()
    is_named = keys & {"label", "version", "model"} and not keys >= {"label", "version"}
    if keys - _OF_SHADOW.keys() or not is_named or "sampling_rate" not in keys:
        raise fault(place, dict(given), expected)
    if "max_samples" in keys and "path" not in keys:
        raise fault(f"{place}.max_samples", given["max_samples"], "path beside it: give one")
    faults = Faults()
    found: dict[str, Any] = {
        key: faults.take(_OF_SHADOW[key], item, f"{place}.{key}") for key, item in given.items()
    }
    faults.check()
    return Shadow(**found)


def header(value: object, place: str) -> str:
    """Read the name of a header, in lower case, which gRPC's metadata can have as a key, too."""
    # gRPC's metadata has bytes under keys that end in "-bin", which REST cannot send alike.
    if not isinstance(value, str) or not re.fullmatch("(?i)(?!.*-bin$)[0-9a-z_.-]*", value):
        expected = (
            'the name of a header or key of metadata, such as x-user, without "-bin" at its end'
        )
        raise fault(place, value, expected)
    return value.lower()


TRAFFIC: Final = SettingKind(traffic, "JSON")
STICKY: Final = SettingKind(header, "HEADER")
ROLLBACK: Final = SettingKind(rollback, "JSON")
SHADOW: Final = SettingKind(shadow, "JSON")
