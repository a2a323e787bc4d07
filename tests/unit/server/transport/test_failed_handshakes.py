"""Failed handshakes are counted by few reasons, and logged once a minute for each."""

import logging
import ssl

import pytest

from ie_serving.server.transport.handshake import QUIET_S, FailedHandshakes, reason_of
from tests.tables import named_by


def failure(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


@named_by(
    "name",
    ("name", "reason"),
    [
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "no_certificate"),
        ("CERTIFICATE_VERIFY_FAILED", "certificate"),
        ("NO_SHARED_CIPHER", "no_overlap"),
        ("TLSV1_ALERT_UNKNOWN_CA", "refused_by_client"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "refused_by_client"),
        ("SOMETHING_NEW", "other"),
        ("", "other"),
    ],
)
def test_an_error_has_one_of_few_reasons(name: str, reason: str) -> None:
    assert reason_of(failure(name)) == reason


def test_each_reason_has_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = 0.0
    failed = FailedHandshakes(lambda: now)
    for _ in range(3):
        failed.refused(failure("NO_SHARED_CIPHER"), "10.0.0.7")
    failed.too_slow("10.0.0.8")
    now = QUIET_S
    failed.refused(failure("NO_SHARED_CIPHER"), "10.0.0.9")
    begin = "TLS handshake failed reason"
    assert caplog.messages == [
        f'{begin}=no_overlap address=10.0.0.7 cause="no shared cipher" failures=1',
        f'{begin}=timeout address=10.0.0.8 cause="not done in time" failures=1',
        f'{begin}=no_overlap address=10.0.0.9 cause="no shared cipher" failures=3',
    ]
    name = "ie_serving_tls_handshake_failures_total"
    assert list(failed.lines())[2:] == [
        f'{name}{{reason="no_overlap"}} 4',
        f'{name}{{reason="timeout"}} 1',
    ]
