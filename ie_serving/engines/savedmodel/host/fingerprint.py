"""Hashes by which TensorFlow puts strings into buckets: Fingerprint64, and SipHash with a key.

Fingerprint64 is Hash64 of FarmHash (farmhashna), fixed for all time so that stored fingerprints
stay valid. Words are little-endian and arithmetic is modulo 2**64. Source: farmhash.cc of
google/farmhash.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ie_serving.core.values.tensors import Array

_MASK = (1 << 64) - 1  # takes a number modulo 2**64
# The algorithm's constants: primes between 2**63 and 2**64, and the seed of its loop.
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_SEED = 81
_CAT: Final = 0xC6A4A7935BD1E995
"""Factor by which two fingerprints become one."""

TOGETHER: Final = 32
"""Strings from which those of like length are hashed together: numpy's calls take 30 us."""

Word = Any
"""64 bits: a number of Python, or numpy's for each of some strings. What is computed with the one
is right for the other."""


def fingerprints(texts: Sequence[bytes]) -> Array:
    """Give the 64-bit fingerprint of each string."""
    made = np.empty(len(texts), np.uint64)
    if len(texts) < TOGETHER:
        made[:] = [fingerprint64(text) for text in texts]
        return made
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    # FarmHash has an algorithm of its own for each range of lengths.
    ranges = np.searchsorted([longest for longest, _ in _SHORT], sizes)
    for number in np.unique(ranges):
        at = np.flatnonzero(ranges == number)
        some = [texts[position] for position in at.tolist()]
        if number < len(_SHORT):
            made[at] = _SHORT[number][1](_StringBatch(some, sizes[at]))
        else:
            made[at] = [_long(text) for text in some]
    return made


def fingerprint64(data: bytes) -> int:
    """Give the 64-bit fingerprint of some bytes."""
    length = len(data)
    for longest, hashed in _SHORT:
        if length <= longest:
            found: int = hashed(_SingleString(data))
            return found
    return _long(data)


def joined_fingerprint(first: int, second: int) -> int:
    """Give the fingerprint of two in order. Source: FingerprintCat64 of TensorFlow."""

    def shifted(value: int) -> int:
        return value ^ (value >> 47)

    found = first ^ _CAT
    found ^= shifted(second * _CAT & _MASK) * _CAT & _MASK
    found = shifted(found * _CAT & _MASK) * _CAT & _MASK
    return shifted(found)


def keyed_hash(key: Sequence[int], data: bytes) -> int:
    """Give the 64 bits of SipHash-2-4 for a key of two words."""
    low, high = (each & _MASK for each in key)
    a, b = low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D
    c, d = low ^ 0x6C7967656E657261, high ^ 0x7465646279746573
    rest = len(data) % 8
    end = data[len(data) - rest :].ljust(7, b"\0") + bytes([len(data) & 0xFF])
    for at in range(0, len(data) + 8 - rest, 8):
        word = int.from_bytes(data[at : at + 8] if at + 8 <= len(data) else end, "little")
        a, b, c, d = _sip_rounds(a, b, c, d ^ word, 2)
        a ^= word
    a, b, c, d = _sip_rounds(a, b, c ^ 0xFF, d, 4)
    return a ^ b ^ c ^ d


def _sip_rounds(a: int, b: int, c: int, d: int, count: int) -> tuple[int, int, int, int]:
    def turned(value: int, by: int) -> int:
        return (value << by | value >> (64 - by)) & _MASK

    for _ in range(count):
        a, c = (a + b) & _MASK, (c + d) & _MASK
        b, d = turned(b, 13) ^ a, turned(d, 16) ^ c
        a = turned(a, 32)
        c, a = (c + b) & _MASK, (a + d) & _MASK
        b, d = turned(b, 17) ^ c, turned(d, 21) ^ a
        c = turned(c, 32)
    return a, b, c, d


class _SingleString:
    """A string, read in words."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.length = len(data)

    def word(self, at: Word, size: int = 8) -> Word:
        """Read `size` bytes; a negative position counts from the end."""
        return _word(self._data, at, size)


class _StringBatch:
    """Strings that are read together, each at the same position."""

    def __init__(self, texts: Sequence[bytes], sizes: Array) -> None:
        joined = b"".join([*texts, bytes(8)])
        self._words = np.ndarray((len(joined) - 7,), "<u8", joined, strides=(1,))
        self._ends = np.cumsum(sizes)
        self._starts = self._ends - sizes
        self.length = sizes.astype(np.uint64)

    def word(self, at: Word, size: int = 8) -> Word:
        """See `_SingleString.word`."""
        if isinstance(at, np.ndarray):
            positions = self._starts + at.astype(np.int64)
        else:
            positions = (self._starts if at >= 0 else self._ends) + at
        return self._words[positions] & _MASK >> (64 - 8 * size)


_Data = _SingleString | _StringBatch


def _word(data: bytes, at: int, size: int = 8) -> int:
    at = at if at >= 0 else len(data) + at
    return int.from_bytes(data[at : at + size], "little")


def _rotate(value: Word, by: int) -> Word:
    return (value >> by | value << (64 - by)) & _MASK


def _mix(value: Word) -> Word:
    return value ^ value >> 47


def _join(low: Word, high: Word, factor: Word) -> Word:
    """Hash two words to one (HashLen16)."""
    first = _mix((low ^ high) * factor & _MASK)
    return _mix((high ^ first) * factor & _MASK) * factor & _MASK


def _of_nothing(data: _Data) -> Word:
    return data.length + _K2


def _up_to_3(data: _Data) -> Word:
    low = data.word(0, 1) + (data.word(data.length >> 1, 1) << 8)
    high = data.length + (data.word(-1, 1) << 2)
    return _mix(low * _K2 & _MASK ^ high * _K0 & _MASK) * _K2 & _MASK


def _up_to_7(data: _Data) -> Word:
    factor = _K2 + data.length * 2
    return _join(data.length + (data.word(0, 4) << 3), data.word(-4, 4), factor)


def _up_to_16(data: _Data) -> Word:
    factor = _K2 + data.length * 2
    first = data.word(0) + _K2 & _MASK
    last = data.word(-8)
    low = _rotate(last, 37) * factor + first & _MASK
    high = (_rotate(first, 25) + last) * factor & _MASK
    return _join(low, high, factor)


def _up_to_32(data: _Data) -> Word:
    factor = _K2 + data.length * 2
    first = data.word(0) * _K1 & _MASK
    second = data.word(8)
    third = data.word(-8) * factor & _MASK
    fourth = data.word(-16) * _K2 & _MASK
    low = _rotate(first + second & _MASK, 43) + _rotate(third, 30) + fourth & _MASK
    high = first + _rotate(second + _K2 & _MASK, 18) + third & _MASK
    return _join(low, high, factor)


def _up_to_64(data: _Data) -> Word:
    factor = _K2 + data.length * 2
    first = data.word(0) * _K2 & _MASK
    second = data.word(8)
    third = data.word(-8) * factor & _MASK
    fourth = data.word(-16) * _K2 & _MASK
    low = _rotate(first + second & _MASK, 43) + _rotate(third, 30) + fourth & _MASK
    high = _join(low, first + _rotate(second + _K2 & _MASK, 18) + third & _MASK, factor)
    fifth = data.word(16) * factor & _MASK
    sixth = data.word(24)
    seventh = (low + data.word(-32)) * factor & _MASK
    eighth = (high + data.word(-24)) * factor & _MASK
    last = _rotate(fifth + sixth & _MASK, 43) + _rotate(seventh, 30) + eighth & _MASK
    return _join(last, fifth + _rotate(sixth + first & _MASK, 18) + seventh & _MASK, factor)


_SHORT: tuple[tuple[int, Callable[[_Data], Word]], ...] = (
    (0, _of_nothing),
    (3, _up_to_3),
    (7, _up_to_7),
    (16, _up_to_16),
    (32, _up_to_32),
    (64, _up_to_64),
)
"""Longest data of each of the ways for short ones."""

HashPair = tuple[int, int]


def _weak(data: bytes, at: int, low: int, high: int) -> HashPair:
    """Hash 32 bytes and two seeds (WeakHashLen32WithSeeds)."""
    first, second, third, fourth = (_word(data, at + 8 * i) for i in range(4))
    low = low + first & _MASK
    high = _rotate(high + low + fourth & _MASK, 21)
    kept = low
    low = low + second + third & _MASK
    return low + fourth & _MASK, high + _rotate(low, 44) + kept & _MASK


def _long(data: bytes) -> int:
    x = _SEED
    y = _SEED * _K1 + 113 & _MASK
    z = _mix(y * _K2 + 113 & _MASK) * _K2 & _MASK
    v: HashPair = (0, 0)
    w: HashPair = (0, 0)
    x = x * _K2 + _word(data, 0) & _MASK
    last_whole = (len(data) - 1) // 64 * 64
    for at in range(0, last_whole, 64):
        x = _rotate(x + y + v[0] + _word(data, at + 8) & _MASK, 37) * _K1 & _MASK
        y = _rotate(y + v[1] + _word(data, at + 48) & _MASK, 42) * _K1 & _MASK
        x ^= w[1]
        y = y + v[0] + _word(data, at + 40) & _MASK
        z = _rotate(z + w[0] & _MASK, 33) * _K1 & _MASK
        v = _weak(data, at, v[1] * _K1 & _MASK, x + w[0] & _MASK)
        w = _weak(data, at + 32, z + w[1] & _MASK, y + _word(data, at + 16) & _MASK)
        z, x = x, z
    factor = _K1 + ((z & 0xFF) << 1) & _MASK
    at = len(data) - 64
    w = (w[0] + (len(data) - 1 & 63) & _MASK, w[1])
    v = (v[0] + w[0] & _MASK, v[1])
    w = (w[0] + v[0] & _MASK, w[1])
    x = _rotate(x + y + v[0] + _word(data, at + 8) & _MASK, 37) * factor & _MASK
    y = _rotate(y + v[1] + _word(data, at + 48) & _MASK, 42) * factor & _MASK
    x ^= w[1] * 9 & _MASK
    y = y + v[0] * 9 + _word(data, at + 40) & _MASK
    z = _rotate(z + w[0] & _MASK, 33) * factor & _MASK
    v = _weak(data, at, v[1] * factor & _MASK, x + w[0] & _MASK)
    w = _weak(data, at + 32, z + w[1] & _MASK, y + _word(data, at + 16) & _MASK)
    z, x = x, z
    low = _join(v[0], w[0], factor) + _mix(y) * _K0 + z & _MASK
    hashed: int = _join(low, _join(v[1], w[1], factor) + x & _MASK, factor)
    return hashed
