"""TLS certificates and trusted authorities of both ports, renewed when their files change.

Each handshake uses the material that is valid when the connection begins. Open connections stay:
TLS cannot renew a certificate within a connection. A context also holds the sessions that clients
may resume, so a renewal ends these, and with them the trust in a revoked client certificate.
"""

import base64
import hashlib
import logging
import os
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache, partial
from typing import Final, TypeAlias

from ie_serving.config.credentials import TlsMaterial
from ie_serving.core.values.errors import ConfigError
from ie_serving.server.gate.current_material import CurrentMaterial
from ie_serving.server.transport.handshake import ServerContext
from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.metrics.text import family, sample

log = logging.getLogger(__name__)

EXPIRES: Final = "ie_serving_tls_certificate_expires_timestamp_seconds"
HTTP1: Final = "http/1.1"
HTTP2: Final = "h2"
"""Names of the protocols in ALPN. Source: IANA's registry of RFC 7301."""

Protocols: TypeAlias = tuple[str, ...]
"""Protocols of a port in ALPN, by preference: the first that the client offers is used."""


class Certificates(CurrentMaterial[TlsMaterial, Mapping[Protocols, ServerContext]]):
    """The present certificate, key and authorities as contexts, ready for handshakes."""

    def context(self, protocols: Protocols) -> ServerContext:
        """Return the context for the next handshake."""
        return self.prepared[protocols]

    def lines(self) -> Iterator[str]:
        """Yield the samples for the metrics page."""
        found = validity(self.material.certificate)
        if found is not None:
            meaning = "When the server's certificate expires, in seconds since 1970."
            end = int(found.end.timestamp())
            yield from family(EXPIRES, "gauge", meaning, [sample(EXPIRES, end)])

    def fault(self) -> str:
        """Say why clients refuse the certificate; empty where they take it."""
        found = validity(self.material.certificate)
        fault = found.fault(datetime.now(timezone.utc)) if found else ""
        return f"{self.material.source}: the certificate {fault}" if fault else ""

    def warn(self) -> None:
        """Log that the certificate has expired, or will soon."""
        found = validity(self.material.certificate)
        text = found.warning(datetime.now(timezone.utc)) if found else ""
        if text:
            log.warning(Event("certificate expires", file=self.material.source, cause=text))

    def prepare(self, material: TlsMaterial) -> Mapping[Protocols, ServerContext]:
        """Make the contexts of both protocols, and of both together."""
        kinds = ((HTTP1,), (HTTP2,), (HTTP1, HTTP2))
        return {protocols: _context(material, protocols) for protocols in kinds}

    def renewed(self) -> None:
        """See `CurrentMaterial`."""
        log.info(Event("certificate renewed", sha256=_fingerprint(self.material)))
        self.warn()

    def refused(self, cause: str) -> None:
        """See `CurrentMaterial`."""
        log.error(Event("certificate not renewed, the previous one stays", cause=cause))


def _context(material: TlsMaterial, protocols: Protocols) -> ServerContext:
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # RFC 9113, section 9.2, and RFC 8996
    context.set_alpn_protocols(protocols)
    with (
        _naming(material.source),
        _as_file(material.certificate) as certificate,
        _as_file(material.key) as key,
    ):
        # The callback keeps the library from asking for the password on a terminal.
        context.load_cert_chain(certificate, key, partial(_no_password, material.source))
    if material.client_ca:
        _require_clients(context, material)
    return context


def _require_clients(context: ssl.SSLContext, material: TlsMaterial) -> None:
    context.verify_mode = ssl.CERT_REQUIRED
    _believe(context, material.client_ca, f"authorities of clients for {material.source}")
    if material.revoked:
        _believe(context, material.revoked, f"revoked certificates for {material.source}")
        # A client whose issuer has no revocation list is refused.
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def _believe(context: ssl.SSLContext, content: bytes, what: str) -> None:
    with _naming(what), _as_file(content) as path:
        context.load_verify_locations(cafile=path)


def _no_password(source: str) -> str:
    raise ConfigError(
        [f"{source}: its key is encrypted; expected one without a password, as openssl pkey writes"]
    )


@contextmanager
def _naming(what: str) -> Iterator[None]:
    try:
        yield
    except ssl.SSLError as error:
        cause = error.reason or error.strerror
        raise ConfigError(
            [f"{what}: {cause}; expected PEM, and a key that belongs to the certificate"]
        ) from error


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Give `content` a path, since the library reads only files; it never reaches a disk."""
    descriptor = os.memfd_create("tls")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _fingerprint(material: TlsMaterial) -> str:
    """Return the SHA-256 of the server's own certificate, as `openssl x509 -fingerprint` does."""
    # The first in the file; intermediate certificates follow it.
    end = b"-----END CERTIFICATE-----"
    first = material.certificate[: material.certificate.index(end) + len(end)]
    start = first.index(b"-----BEGIN CERTIFICATE-----")
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(first[start:].decode())).hexdigest()


_PEM: Final = re.compile(
    rb"-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----(.+?)-----END \1-----", re.DOTALL
)
"""All labels by which OpenSSL reads a certificate. The purposes that a trusted certificate is
trusted for follow its DER."""
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
        return (
            f"is valid from {_day(self.begin)} on: compare the clocks" if now < self.begin else ""
        )

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
