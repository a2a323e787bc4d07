"""Options of the layers around a model: batching, caching, sequences, recording, declared tensors.

A field has the name of the server that had the option first:

    batching            BatchingParameters of TensorFlow Serving
    sequences           OpenVINO Model Server
    recording           logging_config.proto and log_collector_config.proto of TensorFlow Serving;
                        `max_file_bytes` and `drop_inputs` are additions
    declared tensors    `config.pbtxt` of Triton

Numpy is not imported at run time: the arbiter process holds settings with these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from ie_serving.core.settings import numbers, structures
from ie_serving.core.settings.declaration import BOOLEAN, BYTES, COUNT, SettingKind, whole
from ie_serving.core.settings.faults import Faults, fault
from ie_serving.core.settings.numbers import whole as whole_number
from ie_serving.core.values.integers import INT32_MAX

if TYPE_CHECKING:
    from ie_serving.core.values.tensors import DataType


TFRECORD: Final = "tfrecord"
MOST_FILE_BYTES: Final = 1 << 40
"""Largest accepted size of a file of records, 1 TiB; the configuration is refused beyond it."""
FORM: Final = "JSON"
EXAMPLE: Final = (
    '{"log_collector_config": {"type": "tfrecord", "filename_prefix": "/var/log/resnet"},'
    ' "sampling_config": {"sampling_rate": 0.01}}'
)


def batch_sizes(value: object, place: str) -> tuple[int, ...]:
    """Read increasing sizes: a list of JSON, or numbers between commas, in brackets or not."""
    given = _split_list(value) if isinstance(value, str) else value
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise fault(place, value, "a list of sizes such as [8, 16, 32]")
    sizes = [whole_number(each) for each in given]
    known = [size for size in sizes if size is not None and 1 <= size <= INT32_MAX]
    if len(known) < len(sizes) or any(low >= high for low, high in pairwise(known)):
        raise fault(place, value, "whole numbers from 1, each larger than the one before")
    return tuple(known)


def _split_list(value: str) -> Sequence[str]:
    text = value.strip()
    inner = text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text
    return inner.split(",") if inner.strip() else []


@dataclass(frozen=True, kw_only=True)
class Batching:
    """Rules of one model, for each of its signatures. Rows are counted, not requests."""

    max_batch_size: int = whole(0, INT32_MAX, "ROWS").setting(
        0,
        "gather requests into batches of at most so many rows; longer requests are split; 0"
        " gathers none",
        "32",
        is_common=True,
    )
    """Most rows of a batch, a longer request is split; 0 takes the last of the allowed sizes, and
    gathers nothing where there are none."""

    batch_timeout_micros: int = whole(0, INT32_MAX, "MICROSECONDS").setting(
        0,
        "longest time that a batch is gathered for a free lane while another lane works; a"
        " request that finds the model idle goes at once",
        "1000",
    )
    allowed_batch_sizes: tuple[int, ...] = SettingKind(batch_sizes, "[ROWS,..]").setting(
        (),
        "sizes that batches are filled up to, increasing; the largest is max_batch_size",
        "[8,16,32]",
        shown="any",
    )
    # A client that waits longer for its turn than a hundred batches take has mostly given up.
    max_enqueued_batches: int = COUNT.setting(
        100,
        "full batches whose rows may wait for each signature; beyond, requests get"
        " RESOURCE_EXHAUSTED or 429",
        "10",
    )
    num_batch_threads: int = whole(0, 1000).setting(
        0, "batches of a signature that are inferred at a time (lanes)", "2", shown="nireq"
    )
    """Batches inferred at a time; 0 takes as many as the engine has infer requests."""

    most_request_rows: int = 0
    """Rows from which a request is refused instead of split; 0 splits every one."""

    in_version: bool = False
    """Take `batching_params.pbtxt` of the version directory instead, and gather nothing where there
    is none; lanes are these."""

    @property
    def rows(self) -> int:
        """Most rows of a batch; 0 where nothing is gathered."""
        return self.max_batch_size or max(self.allowed_batch_sizes, default=0)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes that batches are filled up to, the largest batch among them; empty for any."""
        if not self.allowed_batch_sizes:
            return ()
        return (*(size for size in self.allowed_batch_sizes if size < self.rows), self.rows)


@dataclass(frozen=True, kw_only=True)
class Caching:
    """How much one version keeps of its outputs."""

    # Off: outputs may depend on more than the inputs, such as a random number or a hook's clock.
    response_cache_bytes: int = BYTES.setting(
        0,
        "bytes of answers that a version keeps, to give the same answer to the same inputs, and of"
        " equal requests at a time computes one; 0 keeps none",
        "104857600",
    )


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """How one model's state (`ReadValue`, `Assign`) is kept beyond an inference."""

    stateful: bool = BOOLEAN.setting(
        False,
        "keep the model's state between the requests of a sequence, which name it by"
        " sequence_id; without it each request begins with the initial state",
        ovms="stateful",
    )
    idle_sequence_cleanup: bool = BOOLEAN.setting(
        True,
        "drop sequences without a request between two scans of the server; needs stateful",
        ovms="idle_sequence_cleanup",
    )
    max_sequence_number: int = whole(0, 2**32 - 1).setting(
        500,
        "sequences that a version keeps at a time; a further one gets UNAVAILABLE or 503; needs"
        " stateful",
        "10000",
        ovms="max_sequence_number",
    )
    low_latency_transformation: bool = BOOLEAN.setting(
        False,
        "make state of what loops and recurrent operations carry from round to round; needs"
        " stateful",
        ovms="low_latency_transformation",
    )


@dataclass(frozen=True, kw_only=True)
class RequestLog:
    """Which requests of a model are recorded, and where.

    Attributes:
        prefix: prefix of the files' paths.
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


@dataclass(frozen=True)
class DeclaredTensor:
    """One input or output.

    Attributes:
        dtype: None where the declaration leaves it to the model.
        dims: sizes without the batch; None where the declaration leaves them to the model.
    """

    name: str
    dtype: DataType | None
    dims: tuple[int, ...] | None


@dataclass(frozen=True)
class DeclaredTensors:
    """The tensors that a file declares; without any, and without a batch, it declares nothing.

    Attributes:
        file: file which declares them.
        max_batch_size: 0 where no dimension is the batch.
    """

    file: str
    max_batch_size: int
    inputs: tuple[DeclaredTensor, ...]
    outputs: tuple[DeclaredTensor, ...]
