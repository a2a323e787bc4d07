"""Fingerprint64: the hash by which TensorFlow puts strings into buckets.

It is Hash64 of FarmHash (farmhashna), fixed for all time so that stored fingerprints stay valid.
Words are little-endian and arithmetic is modulo 2**64. Source: farmhash.cc of google/farmhash.
"""

from collections.abc import Callable

_MASK = (1 << 64) - 1  # takes a number modulo 2**64
# The algorithm's constants: primes between 2**63 and 2**64, and the seed of its loop.
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_SEED = 81


def fingerprint64(data: bytes) -> int:
    """Give the 64-bit fingerprint of some bytes."""
    length = len(data)
    # FarmHash has an algorithm of its own for each range of lengths.
    for longest, hashed in _SHORT:
        if length <= longest:
            return hashed(data)
    return _long(data)


def _word(data: bytes, at: int, size: int = 8) -> int:
    at = at if at >= 0 else len(data) + at
    return int.from_bytes(data[at : at + size], "little")


def _rotate(value: int, by: int) -> int:
    return (value >> by | value << (64 - by)) & _MASK


def _mix(value: int) -> int:
    return value ^ value >> 47


def _join(low: int, high: int, factor: int) -> int:
    """Hash two words to one (HashLen16)."""
    first = _mix((low ^ high) * factor & _MASK)
    return _mix((high ^ first) * factor & _MASK) * factor & _MASK


def _up_to_16(data: bytes) -> int:
    length = len(data)
    if length >= 8:
        factor = _K2 + length * 2
        first = _word(data, 0) + _K2 & _MASK
        last = _word(data, -8)
        low = _rotate(last, 37) * factor + first & _MASK
        high = (_rotate(first, 25) + last) * factor & _MASK
        return _join(low, high, factor)
    if length >= 4:
        factor = _K2 + length * 2
        return _join(length + (_word(data, 0, 4) << 3), _word(data, -4, 4), factor)
    if length:
        low = data[0] + (data[length >> 1] << 8)
        high = length + (data[-1] << 2)
        return _mix(low * _K2 & _MASK ^ high * _K0 & _MASK) * _K2 & _MASK
    return _K2


def _up_to_32(data: bytes) -> int:
    factor = _K2 + len(data) * 2
    first = _word(data, 0) * _K1 & _MASK
    second = _word(data, 8)
    third = _word(data, -8) * factor & _MASK
    fourth = _word(data, -16) * _K2 & _MASK
    low = _rotate(first + second & _MASK, 43) + _rotate(third, 30) + fourth & _MASK
    high = first + _rotate(second + _K2 & _MASK, 18) + third & _MASK
    return _join(low, high, factor)


def _up_to_64(data: bytes) -> int:
    factor = _K2 + len(data) * 2
    first = _word(data, 0) * _K2 & _MASK
    second = _word(data, 8)
    third = _word(data, -8) * factor & _MASK
    fourth = _word(data, -16) * _K2 & _MASK
    low = _rotate(first + second & _MASK, 43) + _rotate(third, 30) + fourth & _MASK
    high = _join(low, first + _rotate(second + _K2 & _MASK, 18) + third & _MASK, factor)
    fifth = _word(data, 16) * factor & _MASK
    sixth = _word(data, 24)
    seventh = (low + _word(data, -32)) * factor & _MASK
    eighth = (high + _word(data, -24)) * factor & _MASK
    last = _rotate(fifth + sixth & _MASK, 43) + _rotate(seventh, 30) + eighth & _MASK
    return _join(last, fifth + _rotate(sixth + first & _MASK, 18) + seventh & _MASK, factor)


_SHORT: tuple[tuple[int, Callable[[bytes], int]], ...] = (
    (16, _up_to_16),
    (32, _up_to_32),
    (64, _up_to_64),
)
"""Longest data of each of the ways for short ones."""

Pair = tuple[int, int]


def _weak(data: bytes, at: int, low: int, high: int) -> Pair:
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
    v: Pair = (0, 0)
    w: Pair = (0, 0)
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
    return _join(low, _join(v[1], w[1], factor) + x & _MASK, factor)
