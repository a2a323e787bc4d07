"""The settings of dynamic batching, by the words of TensorFlow Serving's BatchingParameters."""

from ie_serving.config.schema.setting import Setting
from ie_serving.config.values import numbers
from ie_serving.config.values.sizes import batch_sizes
from ie_serving.core.values.integers import INT32_MAX

ROWS = "batching.max_batch_size"
"""Place of the setting without which no batches are gathered, unless their sizes are listed."""

BATCHING: tuple[Setting, ...] = (
    Setting(
        place=ROWS,
        parse=numbers.integer(0, INT32_MAX),
        form="ROWS",
        meaning="gather requests into batches of at most so many rows; longer requests are split;"
        " 0 gathers none",
        example="32",
        flag="max_batch_size",
        key="max_batch_size",
    ),
    Setting(
        place="batching.batch_timeout_micros",
        parse=numbers.integer(0, INT32_MAX),
        form="MICROSECONDS",
        meaning="longest time that a batch is gathered for a free lane while another lane works; a"
        " request that finds the model idle goes at once",
        example="1000",
        flag="batch_timeout_micros",
        key="batch_timeout_micros",
    ),
    Setting(
        place="batching.allowed_batch_sizes",
        parse=batch_sizes,
        form="[ROWS,..]",
        default="any",
        meaning="sizes that batches are filled up to, increasing; the largest is max_batch_size",
        example="[8,16,32]",
        flag="allowed_batch_sizes",
        key="allowed_batch_sizes",
    ),
    Setting(
        place="batching.max_enqueued_batches",
        parse=numbers.positive,
        form="N",
        meaning="full batches whose rows may wait for each signature; beyond, requests get"
        " RESOURCE_EXHAUSTED or 429",
        example="10",
        flag="max_enqueued_batches",
        key="max_enqueued_batches",
    ),
    Setting(
        place="batching.num_batch_threads",
        parse=numbers.integer(0, 1000),
        form="N",
        default="nireq",
        meaning="batches of a signature that are inferred at a time (lanes)",
        example="2",
        flag="num_batch_threads",
        key="num_batch_threads",
    ),
)
"""Keys of a model and flags."""
