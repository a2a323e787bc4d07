"""TLS certificates and trusted authorities of both ports, renewed when their files change.

Each handshake uses the material that is valid when the connection begins. Open connections stay:
TLS cannot renew a certificate within a connection. A context also holds the sessions that clients
may resume, so a renewal ends these, and with them the trust in a revoked client certificate.
"""

import hashlib
import logging
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from typing import Final, TypeAlias

from ie_serving.config.credentials import TlsMaterial
from ie_serving.core.values.errors import ConfigError
from ie_serving.server.gate.renewed import Renewed
from ie_serving.server.gate.validity import validity
from ie_serving.server.transport.tls import ServerContext
from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.metrics.text import family, sample

log = logging.getLogger(__name__)

EXPIRES: Final = "ie_serving_tls_certificate_expires_timestamp_seconds"
HTTP1: Final = "http/1.1"
HTTP2: Final = "h2"
"""Names of the protocols in ALPN. Source: IANA's registry of RFC 7301."""

Protocols: TypeAlias = tuple[str, ...]
"""Protocols of a port in ALPN, by preference: the first that the client offers is used."""


class Certificates(Renewed[TlsMaterial, Mapping[Protocols, ServerContext]]):
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
        return f"{self.material.place}: the certificate {fault}" if fault else ""

    def warn(self) -> None:
        """Log that the certificate has expired, or will soon."""
        found = validity(self.material.certificate)
        text = found.warning(datetime.now(timezone.utc)) if found else ""
        if text:
            log.warning(Event("certificate expires", file=self.material.place, cause=text))

    def prepare(self, material: TlsMaterial) -> Mapping[Protocols, ServerContext]:
        """Make the contexts of both protocols, and of both together."""
        kinds = ((HTTP1,), (HTTP2,), (HTTP1, HTTP2))
        return {protocols: _context(material, protocols) for protocols in kinds}

    def renewed(self) -> None:
        """See `Renewed`."""
        log.info(Event("certificate renewed", sha256=_fingerprint(self.material)))
        self.warn()

    def refused(self, cause: str) -> None:
        """See `Renewed`."""
        log.error(Event("certificate not renewed, the previous one stays", cause=cause))


def _context(material: TlsMaterial, protocols: Protocols) -> ServerContext:
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # RFC 9113, section 9.2, and RFC 8996
    context.set_alpn_protocols(protocols)
    with (
        _naming(material.place),
        _as_file(material.certificate) as certificate,
        _as_file(material.key) as key,
    ):
        # Without this callback the library would ask for the password on a terminal.
        context.load_cert_chain(certificate, key, partial(_no_password, material.place))
    if material.client_ca:
        _require_clients(context, material)
    return context


def _require_clients(context: ssl.SSLContext, material: TlsMaterial) -> None:
    context.verify_mode = ssl.CERT_REQUIRED
    _believe(context, material.client_ca, f"authorities of clients for {material.place}")
    if material.revoked:
        _believe(context, material.revoked, f"revoked certificates for {material.place}")
        # A client whose issuer has no revocation list is refused.
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def _believe(context: ssl.SSLContext, content: bytes, what: str) -> None:
    with _naming(what), _as_file(content) as path:
        context.load_verify_locations(cafile=path)


def _no_password(place: str) -> str:
    raise ConfigError(
        [f"{place}: its key is encrypted; expected one without a password, as openssl pkey writes"]
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
