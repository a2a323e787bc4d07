"""Options of the layer that records requests: `logging_config` of TensorFlow Serving.

Source: logging_config.proto and log_collector_config.proto of TensorFlow Serving; `max_file_bytes`
and `drop_inputs` are additions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ie_serving.core.settings import numbers, structures
from ie_serving.core.settings.declaration import SettingKind
from ie_serving.core.settings.faults import Faults, fault

TFRECORD: Final = "tfrecord"
MOST_FILE_BYTES: Final = 1 << 40
FORM: Final = "JSON"
EXAMPLE: Final = (
    '{"log_collector_config": {"type": "tfrecord", "filename_prefix": "/var/log/resnet"},'
    ' "sampling_config": {"sampling_rate": 0.01}}'
)


@dataclass(frozen=True, kw_only=True)
class RequestLog:
    """Which requests of a model are recorded, and where.

    Attributes:
        prefix: of the files' paths.
        sampling_rate: share of the requests that are recorded, 0 to 1.
        max_file_bytes: a file that has as many bytes is followed by another.
        drop_inputs: names of inputs whose values are left out of the records.
    """

    prefix: str
    sampling_rate: float
    max_file_bytes: int = 100_000_000
    drop_inputs: frozenset[str] = frozenset()


def request_log(value: object, place: str) -> RequestLog:
    """Read `logging_config`, in TensorFlow Serving's nesting.

    Raises:
        ConfigError: every fault, each with its place.
    """
    given = structures.mapping(value, place, f"an object such as {EXAMPLE}")
    faults = Faults()
    known = ("log_collector_config", "sampling_config", "max_file_bytes", "drop_inputs")
    _refuse_others(given, known, place, faults)
    collector = _object(given, "log_collector_config", place)
    _refuse_others(collector, ("type", "filename_prefix"), f"{place}.log_collector_config", faults)
    sampling = _object(given, "sampling_config", place)
    _refuse_others(sampling, ("sampling_rate",), f"{place}.sampling_config", faults)
    kind = collector.get("type", "")
    if kind != TFRECORD:
        faults.add(f"{place}.log_collector_config.type", f'"{kind}" given; expected "{TFRECORD}"')
    prefix = collector.get("filename_prefix")
    if not isinstance(prefix, str) or not prefix.startswith("/"):
        where = f"{place}.log_collector_config.filename_prefix"
        faults.add(where, "give an absolute path: the files' paths begin with it")
    if "sampling_rate" not in sampling:
        where = f"{place}.sampling_config.sampling_rate"
        faults.add(where, "give the share of requests to record, such as 0.01")
    faults.check()
    size: Callable[[object, str], int] = numbers.integer(1, MOST_FILE_BYTES)
    return RequestLog(
        prefix=str(prefix),
        sampling_rate=numbers.share(
            sampling["sampling_rate"], f"{place}.sampling_config.sampling_rate"
        ),
        max_file_bytes=size(
            given.get("max_file_bytes", RequestLog.max_file_bytes), f"{place}.max_file_bytes"
        ),
        drop_inputs=_names(given.get("drop_inputs", ()), f"{place}.drop_inputs"),
    )


def _object(given: Mapping[str, Any], key: str, place: str) -> Mapping[str, Any]:
    return structures.mapping(given.get(key, {}), f"{place}.{key}", "an object")


def _refuse_others(
    given: Mapping[str, Any], known: tuple[str, ...], place: str, faults: Faults
) -> None:
    for key in sorted(set(given) - set(known)):
        faults.add(f"{place}.{key}", f"there is no such key; there are {', '.join(known)}")


def _names(value: object, place: str) -> frozenset[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise fault(place, value, 'a list of names of inputs, such as ["image"]')
    return frozenset(value)


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What one model records."""

    logging_config: RequestLog | None = SettingKind(request_log, FORM).setting(
        None,
        "record a share of the requests with their answers, as TFRecord files of PredictionLog",
        EXAMPLE,
        shown="none",
    )
    """None: nothing."""
