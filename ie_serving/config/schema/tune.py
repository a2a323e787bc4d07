"""The settings of `ie_serving tune`."""

from ie_serving.config.schema.setting import Setting
from ie_serving.config.values import numbers, words

TUNE: tuple[Setting, ...] = (
    Setting(
        place="tune.requests",
        parse=words.existing_file,
        form="FILE",
        default="those of the version, else random numbers",
        meaning="requests that are asked: a golden.json, or a TFRecord file of PredictionLog",
        example="recorded.tfrecord",
        flag="requests",
    ),
    Setting(
        place="tune.latency_ms",
        parse=numbers.milliseconds,
        form="MILLISECONDS",
        default="any",
        meaning="time within which 99 of 100 requests are to be answered",
        example="20",
        flag="latency_ms",
    ),
    Setting(
        place="tune.seconds",
        parse=numbers.timeout,
        form="SECONDS",
        meaning="how long it may take, compiling included; what has begun is ended",
        example="300",
        flag="seconds",
    ),
    Setting(
        place="tune.concurrency",
        parse=numbers.integer(1, 1024),
        form="N",
        meaning="callers that ask at a time, each one request after the other",
        example="32",
        flag="concurrency",
    ),
    Setting(
        place="tune.output",
        parse=words.file_to_write,
        form="FILE",
        meaning="file to write the keys and what was measured to, as JSON",
        example="tuned.json",
        flag="output",
    ),
)
"""Flags of the command, beside those of `check`."""
