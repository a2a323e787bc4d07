"""The settings of stores and of the local cache: flags for the cache, variables for each store.

A store's client reads more variables by itself (boto3 its credential chain, google-auth its default
credentials, all of them the proxies); `docs/guide/stores.md` names them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ie_serving.core.settings import words
from ie_serving.core.settings.declaration import REQUIRED, SettingKind
from ie_serving.core.settings.kinds import BOOLEAN, BYTES, choice

ANY_TEXT: Final = SettingKind(words.unchecked, "TEXT")
ANY_FILE: Final = SettingKind(words.unchecked, "FILE")
# A URL has too many right forms to check here; the client's error names the variable.
ENDPOINT: Final = SettingKind(words.unchecked, "HOST:PORT|URL")
# A fault would show the value.
SECRET: Final = SettingKind(words.unchecked, "SECRET")


@dataclass(frozen=True, kw_only=True)
class S3Options:
    """How `s3://` is reached."""

    endpoint: str = ENDPOINT.setting(
        "",
        "another store, host:port or with http:// or https://",
        "https://minio.storage.svc:9000",
        shown="AWS",
        ovms="S3_ENDPOINT",
        variables="S3_ENDPOINT",
        merges={
            "https": BOOLEAN.setting(
                True,
                "false: no TLS for an endpoint without a scheme",
                "0",
                variables="S3_USE_HTTPS",
            )
        },
    )
    """As a URL."""

    # Most SDKs of AWS read the first, its command line and boto3 the second, TensorFlow the third.
    region: str = ANY_TEXT.setting(
        "",
        "region; a store other than AWS needs none",
        "eu-west-1",
        shown="the profile's",
        ovms="AWS_REGION",
        variables="AWS_REGION AWS_DEFAULT_REGION S3_REGION",
    )
    access_key: str = ANY_TEXT.setting(
        "",
        "access key",
        "AKIAIOSFODNN7EXAMPLE",
        shown="the credential chain",
        ovms="AWS_ACCESS_KEY_ID",
        variables="AWS_ACCESS_KEY_ID",
        is_secret=True,
    )
    """Empty walks the rest of the credential chain."""

    secret_key: str = SECRET.setting(
        "",
        "its secret",
        "SECRET",
        shown="the credential chain",
        ovms="AWS_SECRET_ACCESS_KEY",
        variables="AWS_SECRET_ACCESS_KEY",
        is_secret=True,
    )
    session_token: str = SECRET.setting(
        "",
        "token of keys that expire",
        "SECRET",
        shown="the credential chain",
        ovms="AWS_SESSION_TOKEN",
        variables="AWS_SESSION_TOKEN",
        is_secret=True,
    )
    # Without it a public bucket is read with the credentials that the chain finds, and a store
    # refuses unknown keys even where it requires none.
    anonymous: bool = BOOLEAN.setting(
        False, "true: unsigned requests, for public buckets", "1", variables="S3_ANONYMOUS"
    )
    # botocore's own names, which grow with its versions.
    signature: str = ANY_TEXT.setting(
        "",
        "signature version, s3v4 or s3",
        "s3v4",
        shown="boto3's choice",
        variables="S3_SIGNATURE",
    )
    addressing: str = choice("auto", "path", "virtual").setting(
        "auto",
        "where the bucket stands; auto: in the path with an endpoint, in the host at AWS",
        "path",
        variables="S3_ADDRESSING_STYLE",
    )
    ca_bundle: str = ANY_FILE.setting(
        "",
        "file of trusted authorities",
        "/etc/ssl/store/ca.crt",
        shown="the system's",
        variables="AWS_CA_BUNDLE",
    )
    verify: bool = BOOLEAN.setting(
        True, "false: accept any certificate", "0", variables="S3_VERIFY_SSL"
    )
    endpoint_variable: str = "S3_ENDPOINT"
    """Name of the variable that sets the endpoint, for advice; without an endpoint boto3 reads its
    own variables."""


@dataclass(frozen=True, kw_only=True)
class GcsOptions:
    """How `gs://` is reached."""

    credentials: str = ANY_FILE.setting(
        "",
        "key or federation file",
        "/etc/gcs/key.json",
        shown="the default credentials",
        ovms="GOOGLE_APPLICATION_CREDENTIALS",
        variables="GOOGLE_APPLICATION_CREDENTIALS",
    )
    """Key or federation file, which google-auth reads; with one, requests are never anonymous as a
    last resort."""

    anonymous: bool = BOOLEAN.setting(
        False, "true: no credentials, for public buckets", "1", variables="GCS_ANONYMOUS"
    )
    # The variable that Google's client itself reads.
    endpoint: str = ENDPOINT.setting(
        "",
        "an emulator, asked without credentials",
        "http://localhost:4443",
        shown="Google",
        variables="STORAGE_EMULATOR_HOST",
    )
    """As a URL."""


@dataclass(frozen=True, kw_only=True)
class MinioOptions:
    """How `minio://` is reached."""

    endpoint: str = ENDPOINT.setting(
        "",
        "the store; http:// or https:// before it says whether it has TLS",
        "minio.storage.svc:9000",
        shown="required",
        variables="MINIO_ENDPOINT",
    )
    """Host and port, without the scheme."""

    access_key: str = ANY_TEXT.setting(
        "", "access key", "reader", shown="anonymous", variables="MINIO_ACCESS_KEY", is_secret=True
    )
    secret_key: str = SECRET.setting(
        "", "its secret", "SECRET", shown="anonymous", variables="MINIO_SECRET_KEY", is_secret=True
    )
    secure: bool = BOOLEAN.setting(
        True, "false: no TLS for an endpoint without a scheme", "0", variables="MINIO_SECURE"
    )
    # MinIO's own default, for servers that were given no other.
    region: str = ANY_TEXT.setting(
        "us-east-1", "region of the server", "us-east-1", variables="MINIO_REGION"
    )
    # MinIO's own client reads the second.
    ca_bundle: str = ANY_FILE.setting(
        "",
        "file of trusted authorities",
        "/etc/ssl/minio/ca.crt",
        shown="the system's",
        variables="MINIO_CA_BUNDLE SSL_CERT_FILE",
    )
    verify: bool = BOOLEAN.setting(
        True, "false: accept any certificate", "0", variables="MINIO_VERIFY_SSL"
    )


@dataclass(frozen=True, kw_only=True)
class StorageOptions:
    """Settings of every backend and of the local cache."""

    cache_dir: Path = SettingKind(words.directory, "PATH").setting(
        REQUIRED,
        "directory for copies of remote repositories; when given, for compiled models too",
        "/var/cache/ie_serving",
        shown="ie_serving in the user's cache, copies only",
        ovms="cache_dir",
    )
    # No limit by default: evicting copies needed after the next restart is a worse surprise than a
    # full disk, which is reported.
    cache_size_bytes: int = BYTES.setting(
        0,
        "bytes at which the least recently used copies are evicted; 0 sets no limit",
        "10737418240",
    )
    # 400 kbit/s: below it a model of 100 MB takes more than half an hour, and an error is better
    # than that wait. Slower links exist, so the limit can be lowered.
    min_download_bytes_per_s: int = BYTES.setting(
        50_000,
        "bytes a second below which a download ends, to be tried again; 0 sets no limit",
        "5000",
        word="min_download_bytes_per_second",
    )
    """Over a minute."""

    s3: S3Options = S3Options()
    gcs: GcsOptions = GcsOptions()
    minio: MinioOptions = MinioOptions()
