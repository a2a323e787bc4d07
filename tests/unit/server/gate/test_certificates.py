"""Certificates that cannot be used are refused at the start, and change nothing later."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from ie_serving.config.credentials import TlsMaterial
from ie_serving.core.runtime.handover import Handover
from ie_serving.core.values.errors import ConfigError
from ie_serving.server.gate.certificates import EXPIRES, HTTP1, Certificates, validity
from tests.certificates import Authority

Broken = Callable[[TlsMaterial, TlsMaterial], TlsMaterial]


def material(folder: Path) -> TlsMaterial:
    folder.mkdir()
    pair = Authority(folder).server()
    certificate, key = pair.certificate.read_bytes(), pair.key.read_bytes()
    return TlsMaterial(source="server.crt", certificate=certificate, key=key)


@pytest.mark.parametrize(
    ("days", "fault", "logged"),
    [(-1, "expired on", "expired on"), (3, "", "in 2 days: renew it"), (90, "", "")],
)
def test_a_certificate_that_expires_is_told_beforehand(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, days: int, fault: str, logged: str
) -> None:
    until = datetime.now(timezone.utc) + timedelta(days=days)
    pair = Authority(tmp_path).server(until=until)
    certificate, key = pair.certificate.read_bytes(), pair.key.read_bytes()
    found = TlsMaterial(source="server.crt", certificate=certificate, key=key)
    certificates = Certificates(lambda: found, Handover())
    certificates.warn()
    assert fault in certificates.fault()
    assert bool(certificates.fault()) == bool(fault)
    assert [logged in text for text in caplog.messages] == ([True] if logged else [])
    assert f"{EXPIRES} {int(until.timestamp())}" in [*certificates.lines()]


@pytest.mark.parametrize("year", [2049, 2050])
def test_a_year_is_written_in_two_digits_or_four(tmp_path: Path, year: int) -> None:
    """Certificates write years until 2049 with two digits (RFC 5280, section 4.1.2.5)."""
    until = datetime(year, 12, 31, 23, 59, 59, tzinfo=timezone.utc)
    pair = Authority(tmp_path).server(until=until)
    chain = pair.certificate.read_bytes()
    found = validity(chain[: chain.index(b"END CERTIFICATE-----") + 20])
    assert found
    assert found.end == until


@pytest.mark.parametrize("label", ["X509 CERTIFICATE", "TRUSTED CERTIFICATE"])
def test_a_certificate_by_another_label_is_read(tmp_path: Path, label: str) -> None:
    """As `openssl x509 -trustout` writes it; of trust nothing stands behind it here."""
    until = datetime(2040, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    pair = Authority(tmp_path).server(until=until)
    certificate = pair.certificate.read_bytes().replace(b"CERTIFICATE", label.encode())
    found = TlsMaterial(source="c", certificate=certificate, key=pair.key.read_bytes())
    assert f"{EXPIRES} {int(until.timestamp())}" in [
        *Certificates(lambda: found, Handover()).lines()
    ]


@pytest.mark.parametrize(
    "text", [b"", b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----"]
)
def test_a_text_that_cannot_be_read_has_no_end(text: bytes) -> None:
    assert validity(text) is None


def encrypted(good: TlsMaterial, _: TlsMaterial) -> TlsMaterial:
    key = load_pem_private_key(good.key, None)
    password = BestAvailableEncryption(b"secret")
    return replace(good, key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, password))


BROKEN: dict[str, tuple[Broken, str]] = {
    "no PEM": (lambda good, _: replace(good, certificate=b"-"), r"server\.crt: .*expected PEM"),
    "another's key": (lambda good, other: replace(good, key=other.key), "KEY_VALUES_MISMATCH"),
    "an encrypted key": (encrypted, "its key is encrypted; expected one without a password"),
    "no authority": (
        lambda good, _: replace(good, client_ca=b"-"),
        r"authorities of clients for server\.crt",
    ),
    "no revocations": (
        lambda good, _: replace(good, client_ca=good.certificate, revoked=b"-"),
        r"revoked certificates for server\.crt",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_certificate_that_cannot_be_used_is_refused(tmp_path: Path, name: str) -> None:
    good, other = material(tmp_path / "good"), material(tmp_path / "other")
    breaks, text = BROKEN[name]
    with pytest.raises(ConfigError, match=text):
        Certificates(lambda: breaks(good, other), Handover())


async def test_a_renewal_that_fails_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = material(tmp_path / "good")
    present = [good]
    certificates = Certificates(lambda: present[0], Handover())
    context = certificates.context((HTTP1,))
    present[0] = replace(good, key=b"")
    for _ in range(2):
        await certificates.renew()
    assert certificates.context((HTTP1,)) is context
    assert certificates.material is good
    (line,) = caplog.messages
    assert "the previous one stays" in line
    present[0] = material(tmp_path / "new")
    await certificates.renew()
    assert certificates.context((HTTP1,)) is not context


def test_no_key_is_shown(tmp_path: Path) -> None:
    """What is shown may be logged."""
    good = material(tmp_path / "good")
    assert good.key.decode() not in repr(good)
    assert "PRIVATE" not in repr(good)
