"""When a certificate is valid, which the `ssl` module does not say of a server's own one."""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from typing import Final

_PEM: Final = re.compile(
    rb"-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----(.+?)-----END \1-----", re.DOTALL
)
"""All labels by which OpenSSL reads a certificate; behind a trusted one stands whom it trusts."""
_UTC_TIME, _VERSION, _LONG = 0x17, 0xA0, 0x80
"""Tags of DER, and the bit of a length whose own length comes first. Source: ITU-T X.690."""
SOON_DAYS: Final = 14
"""Days before the end from which on a certificate expires soon: issuers renew earlier."""


@dataclass(frozen=True)
class Validity:
    """The time in which a certificate is valid."""

    begin: datetime
    end: datetime

    def fault(self, now: datetime) -> str:
        """Say why clients refuse the certificate now; empty where they take it."""
        if now > self.end:
            return f"expired on {_day(self.end)}: clients refuse it; renew it"
        return f"is valid from {_day(self.begin)} on" if now < self.begin else ""

    def warning(self, now: datetime) -> str:
        """Say the fault, or that the certificate expires soon; otherwise empty."""
        days = (self.end - now).days
        soon = f"expires on {_day(self.end)}, in {days} days: renew it"
        return self.fault(now) or (soon if days < SOON_DAYS else "")


@lru_cache(maxsize=2)
def validity(certificates: bytes) -> Validity | None:
    """Return the time in which all certificates of a PEM file are valid; None if it is unknown.

    OpenSSL has read them; what it takes in another form than here does not hinder a server.
    """
    try:
        each = [_validity(base64.b64decode(text)) for _, text in _PEM.findall(certificates)]
    except (ValueError, IndexError):
        return None
    if not each:
        return None
    return Validity(max(one.begin for one in each), min(one.end for one in each))


def _validity(certificate: bytes) -> Validity:
    """Read it of a certificate. Source: RFC 5280, section 4.1."""
    (_, whole), *_ = _parts(certificate)
    (_, signed), *_ = _parts(whole)
    fields = [content for tag, content in _parts(signed) if tag != _VERSION]
    begin, end = _parts(fields[3])  # after the serial number, the algorithm and the issuer
    return Validity(_time(*begin), _time(*end))


def _parts(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each value."""
    at = 0
    while at < len(content):
        tag, size, at = content[at], content[at + 1], at + 2
        if size & _LONG:
            digits = size ^ _LONG
            size, at = int.from_bytes(content[at : at + digits], "big"), at + digits
        yield tag, content[at : at + size]
        at += size


def _time(tag: int, text: bytes) -> datetime:
    written = text.decode()
    if tag == _UTC_TIME:  # two digits of a year between 1950 and 2049
        written = ("19" if written >= "5" else "20") + written
    return datetime.strptime(written, "%Y%m%d%H%M%SZ").replace(tzinfo=timezone.utc)


def _day(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d")
