"""Options of stores and of the local cache: types and defaults.

`config/schema/storage.py` declares the variables and flags that set these values, and their
meaning.
"""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class S3Options:
    """How `s3://` is reached."""

    endpoint: str = ""
    """URL of a store other than AWS; empty for AWS."""

    endpoint_variable: str = "S3_ENDPOINT"
    """Name of the variable that sets the endpoint, for advice; without an endpoint boto3 reads its
    own variables."""

    region: str = ""
    """Empty takes the profile's."""

    access_key: str = field(default="", repr=False)
    """Empty walks the rest of the credential chain."""

    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)

    signature: str = ""
    """botocore's name of the signature version, `s3v4`; empty lets it choose."""

    addressing: str = "auto"
    """`path`, `virtual`, or `auto`: `path` with an endpoint."""

    ca_bundle: str = ""
    """File of the authorities that are trusted; empty for the system's."""

    verify: bool = True
    """Whether the certificate is checked."""

    anonymous: bool = False
    """Whether requests are unsigned."""


@dataclass(frozen=True, kw_only=True)
class GcsOptions:
    """How `gs://` is reached."""

    credentials: str = ""
    """Key or federation file, which google-auth reads; with one, requests are never anonymous as a
    last resort."""

    endpoint: str = ""
    """URL of an emulator, used without credentials; empty for Google."""

    anonymous: bool = False
    """Whether requests carry no credentials."""


@dataclass(frozen=True, kw_only=True)
class MinioOptions:
    """How `minio://` is reached."""

    endpoint: str = ""
    """Host and port."""

    access_key: str = field(default="", repr=False)
    """Empty is anonymous."""

    secret_key: str = field(default="", repr=False)

    secure: bool = True
    """Whether the store speaks TLS."""

    # MinIO's own default, for servers that were given no other.
    region: str = "us-east-1"

    ca_bundle: str = ""
    """File of the authorities that are trusted; empty for the system's."""

    verify: bool = True
    """Whether the certificate is checked."""


@dataclass(frozen=True, kw_only=True)
class StorageOptions:
    """Settings of every backend and of the local cache."""

    cache_dir: Path
    """Directory of local copies and compiled models."""

    cache_size_bytes: int = 0
    """Size at which the least recently used copies are evicted; 0 sets no limit."""

    # 400 kbit/s: below it a model of 100 MB takes more than half an hour, and an error is better
    # than that wait. Slower links exist, so the limit can be lowered.
    min_download_bytes_per_s: int = 50_000
    """A download that is slower over a minute ends, and is tried again; 0 sets no limit."""

    s3: S3Options = S3Options()
    gcs: GcsOptions = GcsOptions()
    minio: MinioOptions = MinioOptions()
