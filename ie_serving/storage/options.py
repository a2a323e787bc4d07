"""How stores are reached and where copies are kept: all that storage takes from the environment.

The clients read more by themselves: boto3 its credential chain (`AWS_PROFILE`, web identity,
container and instance roles), google-auth its default credentials, all of them the proxies.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ie_serving.errors import ConfigError

_YES = {"1", "true", "yes", "on"}
_NO = {"0", "false", "no", "off", ""}
_STYLES = ("auto", "path", "virtual")


@dataclass(frozen=True, kw_only=True)
class S3Options:
    """How `s3://` is reached."""

    endpoint: str = ""
    """URL of a store other than AWS (`S3_ENDPOINT`); empty for AWS."""

    region: str = ""
    """`AWS_REGION` or `AWS_DEFAULT_REGION`; empty takes the profile's."""

    access_key: str = field(default="", repr=False)
    """`AWS_ACCESS_KEY_ID`; empty walks the rest of the credential chain."""

    secret_key: str = field(default="", repr=False)
    """`AWS_SECRET_ACCESS_KEY`."""

    session_token: str = field(default="", repr=False)
    """`AWS_SESSION_TOKEN`."""

    signature: str = ""
    """`S3_SIGNATURE`: botocore's name of the signature version, `s3v4`; empty lets it choose."""

    addressing: str = "auto"
    """`S3_ADDRESSING_STYLE`: `path`, `virtual`, or `auto`: `path` with an endpoint."""

    ca_bundle: str = ""
    """`AWS_CA_BUNDLE`: file of the authorities that are trusted."""

    verify: bool = True
    """`S3_VERIFY_SSL`: check the certificate."""

    anonymous: bool = False
    """`S3_ANONYMOUS`: send unsigned requests."""


@dataclass(frozen=True, kw_only=True)
class GcsOptions:
    """How `gs://` is reached."""

    credentials: str = ""
    """`GOOGLE_APPLICATION_CREDENTIALS`: key or federation file, which google-auth reads; with one,
    requests are never anonymous as a last resort."""

    endpoint: str = ""
    """`STORAGE_EMULATOR_HOST`: URL of an emulator, asked without credentials."""

    anonymous: bool = False
    """`GCS_ANONYMOUS`: send no credentials."""


@dataclass(frozen=True, kw_only=True)
class MinioOptions:
    """How `minio://` is reached."""

    endpoint: str = ""
    """`MINIO_ENDPOINT`: host and port; a scheme before them sets `secure`."""

    access_key: str = field(default="", repr=False)
    """`MINIO_ACCESS_KEY`; empty is anonymous."""

    secret_key: str = field(default="", repr=False)
    """`MINIO_SECRET_KEY`."""

    secure: bool = True
    """`MINIO_SECURE`: speak TLS."""

    region: str = "us-east-1"
    """`MINIO_REGION`."""

    ca_bundle: str = ""
    """`MINIO_CA_BUNDLE`, else `SSL_CERT_FILE`: file of the authorities that are trusted."""

    verify: bool = True
    """`MINIO_VERIFY_SSL`: check the certificate."""


@dataclass(frozen=True, kw_only=True)
class StorageOptions:
    """Settings of every backend and of the local cache."""

    cache_dir: Path
    """Directory of local copies and compiled models."""

    cache_size_bytes: int = 0
    """Size at which the least recently used copies are evicted; 0 sets no limit."""

    s3: S3Options = S3Options()
    gcs: GcsOptions = GcsOptions()
    minio: MinioOptions = MinioOptions()

    @classmethod
    def from_environment(
        cls,
        environ: Mapping[str, str],
        *,
        cache_dir: Path | None = None,
        cache_size_bytes: int = 0,
    ) -> "StorageOptions":
        """Read the options that `environ` sets.

        Args:
            environ: the process's environment.
            cache_dir: None takes `ie_serving` in the user's cache directory.
            cache_size_bytes: 0 sets no limit.

        Raises:
            ConfigError: naming every variable with a wrong value.
        """
        faults: list[str] = []
        options = cls(
            cache_dir=cache_dir or _user_cache(environ),
            cache_size_bytes=cache_size_bytes,
            s3=_s3(environ, faults),
            gcs=_gcs(environ, faults),
            minio=_minio(environ, faults),
        )
        if faults:
            raise ConfigError(faults)
        return options


def _s3(environ: Mapping[str, str], faults: list[str]) -> S3Options:
    style = environ.get("S3_ADDRESSING_STYLE", "").lower() or "auto"
    if style not in _STYLES:
        faults.append(f"S3_ADDRESSING_STYLE: {style!r}: expected one of {', '.join(_STYLES)}")
    secure = _flag(environ, "S3_USE_HTTPS", False, faults)
    return S3Options(
        endpoint=_with_scheme(environ.get("S3_ENDPOINT", ""), secure),
        region=environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION", ""),
        access_key=environ.get("AWS_ACCESS_KEY_ID", ""),
        secret_key=environ.get("AWS_SECRET_ACCESS_KEY", ""),
        session_token=environ.get("AWS_SESSION_TOKEN", ""),
        signature=environ.get("S3_SIGNATURE", ""),
        addressing=style,
        ca_bundle=environ.get("AWS_CA_BUNDLE", ""),
        verify=_flag(environ, "S3_VERIFY_SSL", True, faults),
        anonymous=_flag(environ, "S3_ANONYMOUS", False, faults),
    )


def _gcs(environ: Mapping[str, str], faults: list[str]) -> GcsOptions:
    return GcsOptions(
        credentials=environ.get("GOOGLE_APPLICATION_CREDENTIALS", ""),
        endpoint=_with_scheme(environ.get("STORAGE_EMULATOR_HOST", ""), False),
        anonymous=_flag(environ, "GCS_ANONYMOUS", False, faults),
    )


def _minio(environ: Mapping[str, str], faults: list[str]) -> MinioOptions:
    secure = _flag(environ, "MINIO_SECURE", True, faults)
    scheme, _, host = _with_scheme(environ.get("MINIO_ENDPOINT", ""), secure).partition("://")
    return MinioOptions(
        endpoint=host.rstrip("/"),
        access_key=environ.get("MINIO_ACCESS_KEY", ""),
        secret_key=environ.get("MINIO_SECRET_KEY", ""),
        secure=scheme == "https" if host else secure,
        region=environ.get("MINIO_REGION") or "us-east-1",
        ca_bundle=environ.get("MINIO_CA_BUNDLE") or environ.get("SSL_CERT_FILE", ""),
        verify=_flag(environ, "MINIO_VERIFY_SSL", True, faults),
    )


def _with_scheme(endpoint: str, secure: bool) -> str:
    """Put `http` or `https` before an endpoint that has no scheme of its own."""
    if not endpoint or "://" in endpoint:
        return endpoint
    return f"{'https' if secure else 'http'}://{endpoint}"


def _flag(environ: Mapping[str, str], name: str, default: bool, faults: list[str]) -> bool:
    value = environ.get(name)
    if value is None:
        return default
    if value.lower() not in _YES | _NO:
        faults.append(f"{name}: {value!r}: expected 1 or 0")
    return value.lower() in _YES


def _user_cache(environ: Mapping[str, str]) -> Path:
    """Source: XDG Base Directory Specification."""
    base = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or "/tmp") / ".cache")
    return Path(base) / "ie_serving"
