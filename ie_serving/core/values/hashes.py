"""Hashes of keys and passwords."""

import hashlib
from typing import Final

PASSES: Final = 128
"""Bytes that scrypt takes for each unit of N times r; RFC 7914, section 2."""


def of_key(key: bytes) -> bytes:
    """Hash an API key."""
    # One round of SHA-256 suffices for a key of 256 random bits, which cannot be guessed.
    return hashlib.sha256(key).digest()


def of_password(password: bytes, salt: bytes, n: int, r: int, p: int) -> bytes:
    """Hash a password by scrypt; n, r and p are its cost. Blocking, without the interpreter."""
    # scrypt needs a little more than its blocks; OpenSSL's default maximum is half of ours.
    room = PASSES * r * (n + p + 2) + (1 << 20)
    return hashlib.scrypt(password, salt=salt, n=n, r=r, p=p, dklen=32, maxmem=room)
