"""TLS handshakes that fail: counted by why, and logged at a bounded rate.

They are strangers' doing, so that a line for each would let anybody fill the disk; but the one who
lacks a certificate is more often a customer.
"""

import logging
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ie_serving.server.transport.address_limit import client_of
from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.metrics.text import family, sample

log = logging.getLogger(__name__)

FAILURES: Final = "ie_serving_tls_handshake_failures_total"
QUIET_S: Final = 60.0
"""Seconds between two log lines about one reason."""

NO_CERTIFICATE: Final = "no_certificate"
CERTIFICATE: Final = "certificate"
NOT_TLS: Final = "not_tls"
NO_OVERLAP: Final = "no_overlap"
REFUSED: Final = "refused_by_client"
TIMEOUT: Final = "timeout"
LEFT: Final = "left"
OTHER: Final = "other"

REASON_OF: Final[Mapping[str, str]] = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": NO_CERTIFICATE,
    "CERTIFICATE_VERIFY_FAILED": CERTIFICATE,
    "HTTP_REQUEST": NOT_TLS,
    "HTTPS_PROXY_REQUEST": NOT_TLS,
    "WRONG_VERSION_NUMBER": NOT_TLS,
    "BAD_RECORD_TYPE": NOT_TLS,
    "PACKET_LENGTH_TOO_LONG": NOT_TLS,
    "RECORD_LAYER_FAILURE": NOT_TLS,
    "UNSUPPORTED_PROTOCOL": NO_OVERLAP,
    "VERSION_TOO_LOW": NO_OVERLAP,
    "NO_SHARED_CIPHER": NO_OVERLAP,
    "NO_SUITABLE_KEY_SHARE": NO_OVERLAP,
    "NO_SUITABLE_GROUPS": NO_OVERLAP,
    "NO_SUITABLE_SIGNATURE_ALGORITHM": NO_OVERLAP,
    "NO_SHARED_SIGNATURE_ALGORITHMS": NO_OVERLAP,
}
"""Reasons by OpenSSL's names of its errors (`openssl/sslerr.h`). An alert that the client has sent
has ALERT in its name."""


class FailedHandshakes:
    """Those of all ports. Belongs to one event loop.

    Args of the constructor:
        now: gives the time in seconds, only growing.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[str] = Counter()
        self._now = now
        self._logged: dict[str, tuple[float, int]] = {}

    def refused(self, error: ssl.SSLError, address: str | None) -> None:
        """Take note of a handshake that the library has ended."""
        reason = reason_of(error)
        said = getattr(error, "verify_message", "") or (error.reason or str(error))
        self._note(reason, address, said.replace("_", " ").lower())

    def too_slow(self, address: str | None) -> None:
        """Take note of one that its client has not ended in time."""
        self._note(TIMEOUT, address, "not done in time")

    def left(self) -> None:
        """Take note of a client that has closed its connection. Not logged: probes do it."""
        self.counts[LEFT] += 1

    def lines(self) -> Iterator[str]:
        """Yield the samples for the page that Prometheus reads."""
        meaning = "TLS handshakes that have failed."
        found = (sample(FAILURES, number, reason=why) for why, number in self.counts.items())
        yield from family(FAILURES, "counter", meaning, found)

    def _note(self, reason: str, address: str | None, cause: str) -> None:
        self.counts[reason] += 1
        now, number = self._now(), self.counts[reason]
        logged_at, logged = self._logged.get(reason, (now - QUIET_S, 0))
        if now - logged_at < QUIET_S:
            return
        self._logged[reason] = now, number
        failures = number - logged
        log.info(
            Event(
                "TLS handshake failed",
                reason=reason,
                address=client_of(address) if address else "unix",
                cause=cause,
                failures=failures,
            )
        )


def reason_of(error: ssl.SSLError) -> str:
    """Give the label of a failure: one of few, whatever the client sends."""
    name = error.reason or ""
    return REFUSED if "ALERT" in name else REASON_OF.get(name, OTHER)
