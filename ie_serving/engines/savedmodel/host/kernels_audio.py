"""Kernels of sound: WAV files, their spectrogram and its cepstrum, in 64-bit floats between.

Source: wav_io.cc, spectrogram.cc, mfcc.cc and mfcc_mel_filterbank.cc of TensorFlow.
"""

import math
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.savedmodel.host.allowance import make_room
from ie_serving.engines.savedmodel.host.host_kernel import (
    Attributes,
    Compute,
    HostKernel,
    Output,
    in_thread,
)

_FORMAT = struct.Struct("<HHIIHH")
_BEFORE_FORMAT = frozenset(b"JUNK bext iXML qlty mext levl link axml".split())
"""Chunks of a file that TensorFlow skips in front of its format; others it refuses."""
_MOST_CHUNK = 2**31 - 1
_FRAMES = 256
"""Windows that are transformed at once, which bounds the memory for it."""
_FLOOR = 1e-12
"""The least energy of a band whose logarithm is taken."""


def _decode_wav(attributes: Attributes) -> Compute:
    channels = attributes.integer("desired_channels", -1)
    samples = attributes.integer("desired_samples", -1)

    def compute(contents: Array) -> list[Array]:
        if contents.ndim:
            raise InvalidRequest(f"contents must be scalar, got shape {list(contents.shape)}")
        held, rate = _sound(contents.item())
        shape = (
            len(held) if samples == -1 else samples,
            held.shape[1] if channels == -1 else channels,
        )
        make_room(shape, np.float32)
        made = np.zeros(shape, np.float32)
        of = np.minimum(np.arange(shape[1]), held.shape[1] - 1)
        count = min(len(held), len(made))
        made[:count] = held[:count, of] * np.float32(2**-15)
        return [made, np.array(rate, np.uint32).astype(np.int32)]

    return compute


class _Chunks:
    """The bytes of a WAV file, read from the front."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        start, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise InvalidRequest("Data too short when trying to read string")
        return self.data[start : self.at]

    def number(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def expect(self, name: bytes) -> None:
        found = self.take(4)
        if found != name:
            raise InvalidRequest(f"Header mismatch: Expected {name!r} but found {found!r}")


def _sound(data: bytes) -> tuple[Array, int]:
    """Read a WAV file: 16-bit samples by channel, and how many there are a second."""
    chunks = _Chunks(data)
    chunks.expect(b"RIFF")
    chunks.number()
    chunks.expect(b"WAVE")
    while (name := chunks.take(4)) != b"fmt ":
        if name not in _BEFORE_FORMAT:
            raise InvalidRequest(f"Unexpected field {name!r}")
        chunks.take(chunks.number())
    channels, rate = _format(chunks)
    found: Array | None = None
    while chunks.at < len(data):
        name, size = chunks.take(4), chunks.number()
        if size > _MOST_CHUNK:
            raise InvalidRequest(f"WAV data chunk {name!r} is too large: {size} bytes")
        if name != b"data":
            chunks.at += size
        elif found is not None:
            raise InvalidRequest("More than one data chunk found in WAV")
        else:
            values = chunks.take(size - size % (2 * channels))
            found = np.frombuffer(values, "<i2").reshape(-1, channels)
    if found is None:
        raise InvalidRequest("No data chunk found in WAV")
    return found, rate


def _format(chunks: _Chunks) -> tuple[int, int]:
    """Read the number of channels and of samples a second."""
    size = chunks.number()
    if size not in (16, 18):
        raise InvalidRequest(f"Bad format chunk size for WAV: Expected 16 or 18, but got {size}")
    form, channels, rate, bytes_per_s, frame, bits = _FORMAT.unpack(chunks.take(16))
    # TensorFlow does not ask whether these two bytes are there.
    chunks.at += size - 16
    if form != 1 or channels < 1 or bits != 16:
        raise InvalidRequest(
            f"Can only read 16-bit PCM WAV files, but received format {form} of {bits} bits in"
            f" {channels} channels"
        )
    if frame != 2 * channels or bytes_per_s != frame * rate:
        raise InvalidRequest(
            f"Bad bytes per sample or second in WAV header: {frame}, {bytes_per_s} of {channels}"
            f" channels at {rate} a second"
        )
    return channels, rate


def _spectrogram(attributes: Attributes) -> Compute:
    window, stride = attributes.integer("window_size"), attributes.integer("stride")
    squared = attributes.flag("magnitude_squared")
    if window < 2 or stride < 1:
        raise attributes.refused(f"has window_size={window}, stride={stride}")
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    length = 1 << (window - 1).bit_length()

    def compute(sound: Array) -> Array:
        if sound.ndim != 2:
            raise InvalidRequest(f"input must be 2-dimensional: {list(sound.shape)}")
        _check_finite(sound)
        frames = max(0, 1 + (len(sound) - window) // stride)
        shape = sound.shape[1], frames, length // 2 + 1
        make_room(shape, np.float32)
        made = np.zeros(shape, np.float32)
        for channel in range(shape[0] if frames else 0):
            windows = np.lib.stride_tricks.sliding_window_view(sound[:, channel], window)[::stride]
            for at in range(0, frames, _FRAMES):
                found = np.fft.rfft(windows[at : at + _FRAMES] * hann, length)
                made[channel, at : at + _FRAMES] = found.real**2 + found.imag**2
        return made if squared else np.sqrt(made)

    return compute


def _check_finite(numbers: Array) -> None:
    """Refuse infinite numbers, from which TensorFlow's order of additions makes other NaN."""
    if np.isinf(numbers).any():
        raise InvalidRequest("sound and its spectrogram must be without infinite numbers")


class _Band(NamedTuple):
    """The frequencies of one channel: the positions from `start`, and the weight of each."""

    start: int
    weights: Array


def _mfcc(attributes: Attributes) -> Compute:
    upper = attributes.number("upper_frequency_limit", 4000)
    lower = attributes.number("lower_frequency_limit", 20)
    channels = attributes.integer("filterbank_channel_count", 40)
    count = attributes.integer("dct_coefficient_count", 13)
    if not (0 < count <= channels and 0 <= lower < upper):
        raise attributes.refused("has frequencies or channels that TensorFlow refuses")
    angles = np.pi / channels * np.outer(np.arange(channels) + 0.5, np.arange(count))
    cosines = math.sqrt(2 / channels) * np.cos(angles)
    bands_of = lru_cache(maxsize=8)(lambda size, rate: _bands(size, rate, channels, lower, upper))

    def compute(spectrogram: Array, rate: Array) -> Array:
        size = spectrogram.shape[-1] if spectrogram.ndim == 3 else 0
        if size < 2 or rate.ndim or rate <= 0:
            raise InvalidRequest(
                f"Mfcc initialization failed for a spectrogram of {list(spectrogram.shape)} and"
                f" sample rate {rate.tolist()}"
            )
        bands = bands_of(size, int(rate))
        shape = *spectrogram.shape[:2], count
        make_room(spectrogram.shape, np.float64)
        if bands is None:
            return np.zeros(shape, np.float32)
        _check_finite(spectrogram)
        with np.errstate(invalid="ignore"):
            found = np.sqrt(spectrogram.astype(np.float64))
        energies = [found[..., at : at + len(weights)] @ weights for at, weights in bands]
        logarithms = np.log(np.maximum(np.stack(energies, -1), _FLOOR))
        cepstrum: Array = (logarithms @ cosines).astype(np.float32)
        return cepstrum

    return compute


def _bands(size: int, rate: int, channels: int, lower: float, upper: float) -> list[_Band] | None:
    """Give the triangles over frequencies whose energies the channels are.

    None where `upper` lies beyond the spectrogram: TensorFlow then answers zeros.
    """
    step = 0.5 * rate / (size - 1)
    first, last = int(1.5 + lower / step), int(upper / step)
    if last >= size:
        return None
    low, span = _mel(lower), _mel(upper) - _mel(lower)
    centres = [low + span / (channels + 1) * at for at in range(channels + 2)]
    mels = np.array([_mel(at * step) for at in range(first, last + 1)])
    bands = []
    for below, centre, above in zip(centres, centres[1:], centres[2:], strict=False):
        rising = (below < mels) & (mels <= centre)
        falling = (centre < mels) & (mels <= above)
        weights = rising * (1 - (centre - mels) / (centre - below))
        weights += falling * ((above - mels) / (above - centre))
        held = np.flatnonzero(rising | falling)
        start, end = (int(held[0]), int(held[-1]) + 1) if held.size else (0, 0)
        bands.append(_Band(first + start, weights[start:end]))
    return bands


def _mel(frequency: float) -> float:
    return 1127.0 * math.log1p(frequency / 700.0)


_SOUND = Output("", DataType.FP32, "audio")

KERNELS: Final[Mapping[str, HostKernel]] = {
    "AudioSpectrogram": in_thread(HostKernel(_spectrogram, (Output("", DataType.FP32),))),
    "DecodeWav": in_thread(
        HostKernel(_decode_wav, (_SOUND, Output("", DataType.INT32, "sample_rate")))
    ),
    "Mfcc": in_thread(HostKernel(_mfcc, (Output("", DataType.FP32),))),
}
