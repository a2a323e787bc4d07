"""Kernels of sound and of overlapping boxes: what TensorFlow gives, or refused as by it."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.engines.savedmodel.host.host_kernel import Attributes
from ie_serving.engines.savedmodel.host.kernels import KERNELS
from ie_serving.wire.protobuf import graph
from tests.unit.engines.savedmodel.host.sounds import wav

FIELDS = {bool: "b", int: "i", float: "f"}


def ours(operation: str, *inputs: Any, **attributes: Any) -> list[Any]:
    node = graph.NodeDef(name="n", op=operation)
    for name, value in attributes.items():
        setattr(node.attr[name], FIELDS[type(value)], value)
    made = KERNELS[operation].make(Attributes(node))(*inputs)
    return made if isinstance(made, list) else [made]


def assert_same(got: list[Any], want: list[Any]) -> None:
    for mine, right in zip(got, want, strict=True):
        assert mine.dtype == right.numpy().dtype
        np.testing.assert_array_equal(mine, right)


def boxes_of(seed: int, count: int, held: int, own: int, classes: int, levels: int) -> Any:
    """Make boxes on a grid with few different scores, so that many are equal."""
    random = np.random.default_rng(seed)
    boxes = random.integers(-2, 12, (count, held, own, 4)) / random.choice([4, 10])
    scores = random.integers(0, levels + 1, (count, held, classes)) / levels
    return boxes.astype(np.float32), scores.astype(np.float32)


@given(
    seed=st.integers(0, 2**32),
    sizes=st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(1, 6)),
    has_own=st.booleans(),
    levels=st.sampled_from([2, 5, 1000]),
    most=st.tuples(st.integers(1, 40), st.integers(1, 80)),
    thresholds=st.tuples(st.sampled_from([0, 0.3, 1]), st.sampled_from([-np.inf, 0, 0.4])),
    pad_per_class=st.booleans(),
    clip_boxes=st.booleans(),
)
@example(
    seed=1,
    sizes=(2, 900, 3),
    has_own=True,
    levels=3,
    most=(300, 500),
    thresholds=(0.3, -np.inf),
    pad_per_class=False,
    clip_boxes=True,
)
def test_boxes_are_kept_in_the_order_of_tensorflow(
    seed: int,
    sizes: tuple[int, int, int],
    has_own: bool,
    levels: int,
    most: tuple[int, int],
    thresholds: tuple[float, float],
    pad_per_class: bool,
    clip_boxes: bool,
) -> None:
    attributes = {"pad_per_class": pad_per_class, "clip_boxes": clip_boxes}
    count, held, classes = sizes
    boxes, scores = boxes_of(seed, count, held, classes if has_own else 1, classes, levels)
    limits = [*np.array(most, np.int32), *np.array(thresholds, np.float32)]
    names = ("max_output_size_per_class", "max_total_size", "iou_threshold", "score_threshold")
    want = tf.raw_ops.CombinedNonMaxSuppression(
        boxes=boxes, scores=scores, **dict(zip(names, limits, strict=True)), **attributes
    )
    assert_same(ours("CombinedNonMaxSuppression", boxes, scores, *limits, **attributes), want)


@pytest.mark.parametrize(
    ("shape", "each", "total", "overlap"),
    [
        pytest.param((1, 3, 2, 4), 1, 1, 0.5, id="boxes of two classes"),
        pytest.param((1, 2, 1, 4), 1, 1, 0.5, id="fewer boxes than scores"),
        pytest.param((1, 3, 1, 4), 0, 1, 0.5, id="none of each class"),
        pytest.param((1, 3, 1, 4), 1, 0, 0.5, id="none in all"),
        pytest.param((1, 3, 1, 4), 1, 1, 1.5, id="an overlap above 1"),
    ],
)
def test_boxes_that_tensorflow_refuses_are_refused(
    shape: tuple[int, ...], each: int, total: int, overlap: float
) -> None:
    boxes, scores = np.zeros(shape, np.float32), np.zeros((1, 3, 3), np.float32)
    limits = np.int32(each), np.int32(total), np.float32(overlap), np.float32(0)
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.image.combined_non_max_suppression(boxes, scores, *limits)
    with pytest.raises(InvalidRequest):
        ours("CombinedNonMaxSuppression", boxes, scores, *limits)


WAV = wav(5, 2, 8000)
EXTRA = b"\3\0\0\0abc"
FILES = st.one_of(
    st.builds(wav, st.integers(0, 9), st.integers(1, 3), st.integers(1, 2**31 - 1)),
    # One byte of the header, or of what lies behind it, is another; the end is missing or more.
    st.builds(
        lambda at, byte, end: (WAV[:at] + bytes([byte]) + WAV[at + 1 :])[:end],
        st.integers(0, 45),
        st.sampled_from([0, 1, 2, 8, 16, 18, 24, 255]),
        st.integers(30, 70),
    ),
    st.sampled_from(
        [
            wav(1, 2, 2**30),  # whose bytes a second do not fit the header
            *(WAV[:12] + name + EXTRA + WAV[12:] for name in (b"JUNK", b"bext", b"LIST", b"iXML")),
            *(WAV[:36] + name + EXTRA + WAV[36:] for name in (b"LIST", b"fact", b"data")),
            *(
                WAV + more
                for more in (b"LIST" + EXTRA, b"LIST\xff\xff\xff\x7f", b"x", b"data" + EXTRA)
            ),
            WAV[:16] + b"\x12" + WAV[17:36] + b"\0\0" + WAV[36:],
            b"",
        ]
    ),
)


@given(FILES, st.integers(-1, 4), st.integers(-1, 12))
def test_wav_files_are_read_as_by_tensorflow(data: bytes, channels: int, samples: int) -> None:
    attributes = {"desired_channels": channels, "desired_samples": samples}
    contents = np.array(data, np.object_)
    try:
        want = tf.raw_ops.DecodeWav(contents=data, **attributes)
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError):  # the latter of its message
        with pytest.raises(InvalidRequest):
            ours("DecodeWav", contents, **attributes)
    else:
        assert_same(ours("DecodeWav", contents, **attributes), list(want))


@given(st.integers(0, 700), st.integers(0, 2), st.integers(2, 300), st.integers(1, 90))
def test_spectrograms_are_those_of_tensorflow(
    samples: int, channels: int, window: int, stride: int
) -> None:
    sound = np.random.default_rng(samples).uniform(-1, 1, (samples, channels)).astype(np.float32)
    for squared in (True, False):
        attributes = {"window_size": window, "stride": stride, "magnitude_squared": squared}
        want = tf.raw_ops.AudioSpectrogram(input=sound, **attributes).numpy()
        (got,) = ours("AudioSpectrogram", sound, **attributes)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, 1e-6, 1e-9)


@given(
    size=st.integers(2, 130),
    rate=st.integers(-1, 48_000),
    counts=st.tuples(st.integers(1, 20), st.integers(1, 45)),
    limits=st.tuples(st.floats(0, 300, width=32), st.floats(300, 9000, width=32)),
)
@example(129, 16_000, (13, 40), (20.0, 4000.0))
@example(129, 4_000, (13, 40), (20.0, 4000.0))
def test_the_cepstrum_is_that_of_tensorflow(
    size: int, rate: int, counts: tuple[int, int], limits: tuple[float, float]
) -> None:
    assume(counts[0] <= counts[1] and limits[0] < limits[1])
    spectrogram = np.random.default_rng(size).uniform(0, 9, (2, 3, size)).astype(np.float32)
    attributes = {
        "dct_coefficient_count": counts[0],
        "filterbank_channel_count": counts[1],
        "lower_frequency_limit": limits[0],
        "upper_frequency_limit": limits[1],
    }
    inputs = spectrogram, np.array(rate, np.int32)
    try:
        want = tf.raw_ops.Mfcc(spectrogram=inputs[0], sample_rate=inputs[1], **attributes).numpy()
    except tf.errors.InvalidArgumentError:
        with pytest.raises(InvalidRequest):
            ours("Mfcc", *inputs, **attributes)
    else:
        (got,) = ours("Mfcc", *inputs, **attributes)
        np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def test_infinite_sound_is_refused() -> None:
    """TensorFlow adds in another order, and so gets NaN in other places."""
    sound = np.array([[1], [np.inf], [2], [3]], np.float32)
    with pytest.raises(InvalidRequest, match="without infinite numbers"):
        ours("AudioSpectrogram", sound, window_size=2, stride=1, magnitude_squared=True)
    with pytest.raises(InvalidRequest, match="without infinite numbers"):
        ours("Mfcc", np.full((1, 2, 129), np.inf, np.float32), np.array(8000, np.int32))
