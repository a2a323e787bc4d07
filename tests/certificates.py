"""Certificates of servers and clients, right and wrong, made anew for each test module."""

import datetime
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key

PAST = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path

    def write(self, leaf: trustme.LeafCert) -> "Pair":
        """Replace both files by what `leaf` has."""
        self.certificate.write_bytes(b"".join(each.bytes() for each in leaf.cert_chain_pems))
        self.key.write_bytes(leaf.private_key_pem.bytes())
        return self

    @property
    def paths(self) -> tuple[str, str]:
        """Certificate and key."""
        return str(self.certificate), str(self.key)


class Authority:
    """Signs certificates, and revokes them. Its files lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.signer = trustme.CA()
        self.path = folder / "authority.pem"
        self.path.write_bytes(self.signer.cert_pem.bytes())

    def server(self, name: str = "server", until: datetime.datetime | None = None) -> Pair:
        """Issue one for this machine; `until` when it is valid."""
        return self._pair(name, self.signer.issue_cert("127.0.0.1", "localhost", not_after=until))

    def client(self, name: str, until: datetime.datetime | None = None) -> Pair:
        """Issue one for a client; `until` when it is valid."""
        return self._pair(name, self.signer.issue_cert(f"{name}.test", not_after=until))

    def revoke(self, *pairs: Pair) -> Path:
        """Write a list of all that is revoked: these."""
        signed = x509.load_pem_x509_certificate(self.path.read_bytes())
        today = datetime.datetime.now(datetime.timezone.utc)
        revoked = x509.CertificateRevocationListBuilder(
            issuer_name=signed.subject,
            last_update=today - datetime.timedelta(days=1),
            next_update=today + datetime.timedelta(days=1),
        )
        for pair in pairs:
            serial = x509.load_pem_x509_certificate(pair.certificate.read_bytes()).serial_number
            entry = x509.RevokedCertificateBuilder(serial, today - datetime.timedelta(hours=1))
            revoked = revoked.add_revoked_certificate(entry.build())
        key = load_pem_private_key(self.signer.private_key_pem.bytes(), None)
        path = self._folder / "revoked.pem"
        signed_list = revoked.sign(key, hashes.SHA256())  # type: ignore[arg-type]
        path.write_bytes(signed_list.public_bytes(serialization.Encoding.PEM))
        return path

    def _pair(self, name: str, leaf: trustme.LeafCert) -> Pair:
        return Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key").write(leaf)
