"""The settings of models that keep state, by the words of OpenVINO Model Server."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ie_serving.config.schema.setting import BOOLEAN, Setting
from ie_serving.config.values import numbers, words

_UINT32_MAX: Final = 2**32 - 1

STATEFUL = Setting(
    place="sequences.stateful",
    parse=words.boolean,
    form=BOOLEAN,
    meaning="keep the model's state between the requests of a sequence, which name it by"
    " sequence_id; without it each request begins with the initial state",
    example="true",
    flag="stateful",
    key="stateful",
    ovms=("stateful",),
)
_OTHERS: tuple[Setting, ...] = (
    Setting(
        place="sequences.idle_sequence_cleanup",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="drop sequences without a request between two scans of the server; needs stateful",
        example="false",
        flag="idle_sequence_cleanup",
        key="idle_sequence_cleanup",
        ovms=("idle_sequence_cleanup",),
    ),
    Setting(
        place="sequences.max_sequence_number",
        parse=numbers.integer(0, _UINT32_MAX),
        form="N",
        meaning="sequences that a version keeps at a time; a further one gets UNAVAILABLE or 503;"
        " needs stateful",
        example="10000",
        flag="max_sequence_number",
        key="max_sequence_number",
        ovms=("max_sequence_number",),
    ),
    Setting(
        place="sequences.low_latency_transformation",
        parse=words.boolean,
        form=BOOLEAN,
        meaning="make state of what loops and recurrent operations carry from round to round;"
        " needs stateful",
        example="true",
        flag="low_latency_transformation",
        key="low_latency_transformation",
        ovms=("low_latency_transformation",),
    ),
)

SEQUENCES: tuple[Setting, ...] = (STATEFUL, *_OTHERS)
"""Keys of a model and flags."""


def conflicts(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the place of each setting that contradicts the model's other settings, and why."""
    if found.get(STATEFUL.place):
        yield from _beside_state(found)
        return
    for setting in _OTHERS:
        if found.get(setting.place):
            yield setting.place, "it has a meaning for a stateful model alone: set stateful too"


def _beside_state(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if found.get("batching.max_batch_size") or found.get("batching.allowed_batch_sizes"):
        place = "batching.max_batch_size"
        if place not in found:
            place = "batching.allowed_batch_sizes"
        yield place, "requests of a stateful model share no batches, each has a state: remove it"
    shape = found.get("openvino.shape")
    shapes = shape.values() if isinstance(shape, Mapping) else (shape,)
    # Each with its size: OpenVINO Model Server, too, takes no `auto` here, but sizes that are open.
    if any(each == "auto" for each in shapes):
        yield "openvino.shape", f"{_NOT_AUTO}: give sizes, -1 for one that is open"
    if shape is None and found.get("openvino.batch_size") == numbers.ANY:
        yield "openvino.batch_size", f"{_NOT_AUTO}: give a number"


_NOT_AUTO: Final = "auto is not taken for a stateful model, whose state has sizes of its own"
