"""`gs://`: Google Cloud Storage, by google-cloud-storage.

Source: Cloud Storage JSON API v1 (objects.list, objects.get, "HTTP status and error codes").
"""

import base64
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from ie_serving.core.settings.declaration import BOOLEAN
from ie_serving.core.values.hints import Hint
from ie_serving.storage.backends.bucket import (
    CONNECT_TIMEOUT_S,
    READ_TIMEOUT_S,
    BucketRemote,
    SharedClient,
    proxy_of,
    warn_of_plain_http,
)
from ie_serving.storage.base import Entry, Location, Remote, Sink
from ie_serving.storage.checksums import Checksum
from ie_serving.storage.options import ANY_FILE, ENDPOINT, StoreOptions, is_https, with_scheme
from ie_serving.storage.trouble import Trouble, http_trouble, quiet
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

ADVICE: Mapping[Trouble, str | Hint] = {
    Trouble.DNS: "check the resolver (storage.googleapis.com) and STORAGE_EMULATOR_HOST",
    Trouble.REFUSED: "check STORAGE_EMULATOR_HOST, firewall and proxy",
    Trouble.TIMEOUT: "check firewall and proxy",
    Trouble.BROKEN: "check the network",
    Trouble.NO_TLS: "write http:// in STORAGE_EMULATOR_HOST",
    Trouble.CERTIFICATE: "set REQUESTS_CA_BUNDLE to the authority's certificate",
    Trouble.NO_CREDENTIALS: "set GOOGLE_APPLICATION_CREDENTIALS to a key file or bind a service "
    "account; GCS_ANONYMOUS=1 for a public bucket",
    Trouble.CREDENTIALS: "check GOOGLE_APPLICATION_CREDENTIALS or the bound service account",
    Trouble.ANONYMOUS: "set GOOGLE_APPLICATION_CREDENTIALS or bind a service account",
    Trouble.DENIED: "the account needs storage.objects.list and storage.objects.get "
    "(roles/storage.objectViewer)",
    Trouble.BUCKET: "correct the bucket's name",
    Trouble.DAMAGED: "look for a faulty proxy, network or disk",
    Trouble.THROTTLED: Hint("poll less often ({server.poll_wait_s})"),
    Trouble.SERVER: "see status.cloud.google.com",
    Trouble.OTHER: "see the code in the Cloud Storage documentation",
}
Untyped: TypeAlias = Any
"""google-cloud-storage carries no types."""
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"
_LIMITS: Mapping[str, Any] = {"timeout": (CONNECT_TIMEOUT_S, READ_TIMEOUT_S), "retry": None}
"""Limits of every call; the retries are ours."""


@dataclass(frozen=True, kw_only=True)
class GcsOptions(StoreOptions):
    """How `gs://` is reached."""

    schemes = ("gs",)

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
    """URL of the store."""

    @classmethod
    def read(
        cls, given: dict[str, Any], environ: Mapping[str, str], own_hosts_are_plain: bool
    ) -> "GcsOptions":
        """See `StoreOptions`."""
        # The variable names an emulator; emulators on private hosts use HTTP.
        endpoint = given.get("endpoint", "")
        return cls(**{**given, "endpoint": with_scheme(endpoint, is_https(endpoint, True))})

    def files(self) -> Mapping[str, str]:
        """See `StoreOptions`."""
        return {"GOOGLE_APPLICATION_CREDENTIALS": self.credentials}

    def open(self, location: Location) -> Remote:
        """See `StoreOptions`."""
        return GcsRemote(location, self)


class GcsRemote(BucketRemote[Untyped]):
    """One prefix of a bucket."""

    advice = ADVICE

    def __init__(self, location: Location, options: GcsOptions) -> None:
        super().__init__(location, options.endpoint, client_of(options, location.bucket))

    def directories(self) -> list[str]:
        """One objects.list for each 1000 names under the base."""
        prefixes: list[str] = []
        has_objects = False
        with self._client("list") as client:
            fields = "prefixes,items(name),nextPageToken"
            for page in self._listing(client, self._location.prefix, fields, delimiter="/").pages:
                prefixes += page.prefixes
                has_objects = has_objects or page.num_items > 0
        return self._location.directories(prefixes, has_objects)

    def _objects(self, client: Untyped, prefix: str) -> Iterator[Entry]:
        """By objects.list; the tag is the generation."""
        fields = "items(name,size,generation,updated),nextPageToken"
        for blob in self._listing(client, prefix, fields):
            modified = blob.updated.timestamp() if blob.updated else 0.0
            yield Entry(blob.name, blob.size, str(blob.generation), modified)

    def read(self, entry: Entry, start: int, stop: int, sink: Sink) -> None:
        """One media download of exactly the generation, as it is stored."""
        with self._client(f"read {entry.path}") as client:
            self._blob(client, entry).download_to_file(
                _Stream(sink),
                start=start,
                end=stop - 1,
                raw_download=True,  # as it is stored: the checksum is of those bytes
                checksum=None,  # ours is of the whole file, this would be of a range
                **_LIMITS,
            )

    def checksum(self, entry: Entry) -> Checksum | None:
        """One objects.get: CRC32C, which every object has; MD5 where there is none."""
        with self._client(f"read {entry.path}") as client:
            blob = self._blob(client, entry)
            blob.reload(**_LIMITS)
            if blob.crc32c:
                return Checksum("crc32c", base64.b64decode(blob.crc32c))
            return Checksum("md5", base64.b64decode(blob.md5_hash)) if blob.md5_hash else None

    def _listing(self, client: Untyped, prefix: str, fields: str, **more: str) -> Untyped:
        return client.list_blobs(
            self._location.bucket, prefix=prefix or None, fields=fields, **more, **_LIMITS
        )

    def _blob(self, client: Untyped, entry: Entry) -> Untyped:
        key = self._location.prefix + entry.path
        return client.bucket(self._location.bucket).blob(key, generation=int(entry.tag))

    def _classify(self, error: Exception, action: str) -> tuple[Trouble, str] | None:
        from google.api_core.exceptions import GoogleAPICallError
        from google.auth.exceptions import DefaultCredentialsError, InvalidOperation, RefreshError
        from google.resumable_media import DataCorruption

        if isinstance(error, InvalidOperation):  # an anonymous client gives no token after a 401
            return Trouble.ANONYMOUS, "401"
        if isinstance(error, RefreshError):
            return Trouble.CREDENTIALS, ""
        if isinstance(error, DefaultCredentialsError):
            return Trouble.NO_CREDENTIALS, ""
        if isinstance(error, DataCorruption):
            return Trouble.DAMAGED, ""
        if not isinstance(error, GoogleAPICallError) or error.code is None:
            return None
        status = int(error.code)
        # 404 is the bucket when it is listed, else the generation: it was replaced or removed.
        if status in (404, 416):
            trouble = Trouble.BUCKET if action == "list" else Trouble.CHANGED
        else:
            trouble = http_trouble(status)
        return trouble, str(status)

    def _is_anonymous(self, client: Untyped) -> bool:
        from google.auth.credentials import AnonymousCredentials

        return isinstance(client._credentials, AnonymousCredentials)


class _Stream:
    """The file that google-cloud-storage writes a download to."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, data: bytes) -> int:
        """Hand bytes on; give how many, which is all of them."""
        self._sink(data)
        return len(data)


@cache
def client_of(options: GcsOptions, bucket: str) -> SharedClient[Untyped]:
    """One client for each bucket."""
    quiet("google", "urllib3", "requests")
    return SharedClient(lambda: make_client(options, bucket), lambda client: client.close())


def make_client(options: GcsOptions, bucket: str) -> Untyped:
    """Make a client; google-auth looks for credentials now."""
    from google.cloud import storage

    client = storage.Client(
        project="none",  # unused by listing and reading, but required by the client
        credentials=_credentials(options, bucket),
        client_options={"api_endpoint": options.endpoint} if options.endpoint else None,
    )
    # The client requests the bucket's location from 3.12 on, only to label traces: one more
    # request, which needs one more permission and is repeated while the store is down.
    client._bucket_metadata_cache = None
    # The client is asked: a variable of its own may name another endpoint.
    url = client._connection.API_BASE_URL
    warn_of_plain_http(bucket, url, proxy_of(url, "all"))
    return client


def _credentials(options: GcsOptions, bucket: str) -> Untyped:
    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.auth.exceptions import DefaultCredentialsError

    if options.endpoint or options.anonymous:
        log.info(Event("requests are anonymous, as configured", bucket=bucket))
        return AnonymousCredentials()  # type: ignore[no-untyped-call]
    try:
        return google.auth.default(scopes=[_SCOPE])[0]
    except DefaultCredentialsError:
        if options.credentials:
            raise
        log.warning(Event("no Google credentials found, requests are anonymous", bucket=bucket))
        return AnonymousCredentials()  # type: ignore[no-untyped-call]
