"""Counts failed TLS handshakes by reason, and logs them at a bounded rate.

Any client can cause them, so a log line for each would let it fill the disk; but a client without a
certificate is most often a customer's, whose operator needs the log.
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
"""Reasons by OpenSSL's names of its errors (`openssl/sslerr.h`). A name with ALERT is of an alert
that the client has sent."""


class FailedHandshakes:
    """The failed handshakes of all ports. Belongs to one event loop.

    Args of the constructor:
        now: monotonic clock in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[str] = Counter()
        self._now = now
        self._logged: dict[str, tuple[float, int]] = {}

    def refused(self, error: ssl.SSLError, address: str | None) -> None:
        """Count a handshake that the TLS library has ended."""
        reason = reason_of(error)
        said = getattr(error, "verify_message", "") or (error.reason or str(error))
        self._note(reason, address, said.replace("_", " ").lower())

    def too_slow(self, address: str | None) -> None:
        """Count a handshake that its client has not completed in time."""
        self._note(TIMEOUT, address, "not done in time")

    def left(self) -> None:
        """Count a client that has closed its connection. Not logged: probes do this."""
        self.counts[LEFT] += 1

    def lines(self) -> Iterator[str]:
        """Yield the samples for the metrics page."""
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
    """Return the label of a failure: one of few, whatever the client sends."""
    name = error.reason or ""
    return REFUSED if "ALERT" in name else REASON_OF.get(name, OTHER)
