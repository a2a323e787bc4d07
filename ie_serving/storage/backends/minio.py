"""`minio://`: MinIO by its own client.

Source: the client's reference (Python Client API Reference); codes as for S3.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ie_serving.core.settings.declaration import BOOLEAN
from ie_serving.core.values.hints import Hint
from ie_serving.storage.backends.bucket import (
    CHUNK_BYTES,
    CONNECT_TIMEOUT_S,
    CONNECTIONS,
    READ_TIMEOUT_S,
    BucketRemote,
    SharedClient,
    warn_of_plain_http,
)
from ie_serving.storage.backends.s3_errors import trouble_of_code, with_status
from ie_serving.storage.base import Entry, Location, Remote, Sink
from ie_serving.storage.checksums import Checksum, from_s3_headers
from ie_serving.storage.options import (
    ANY_FILE,
    ANY_TEXT,
    ENDPOINT,
    SECRET,
    StoreOptions,
    with_scheme,
)
from ie_serving.storage.trouble import Trouble, http_trouble, quiet
from ie_serving.telemetry.log.logs import Event

if TYPE_CHECKING:
    from minio import Minio

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class MinioOptions(StoreOptions):
    """How `minio://` is reached."""

    schemes = ("minio",)

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

    # The explicit scheme of an endpoint takes precedence over the switch, since a proxy or another
    # store may be behind it.
    @classmethod
    def read(
        cls, given: dict[str, Any], environ: Mapping[str, str], own_hosts_are_plain: bool
    ) -> "MinioOptions":
        """Split the endpoint: its scheme, if any, decides whether the store uses TLS."""
        secure = given.get("secure", True)
        scheme, _, host = with_scheme(given.get("endpoint", ""), secure).partition("://")
        secure = scheme == "https" if host else secure
        return cls(**{**given, "endpoint": host.rstrip("/"), "secure": secure})

    def files(self) -> Mapping[str, str]:
        """See `StoreOptions`."""
        return {"MINIO_CA_BUNDLE": self.ca_bundle}

    def lacks(self, location: Location) -> str:
        """See `StoreOptions`."""
        return "" if self.endpoint else "set MINIO_ENDPOINT to the store's host:port"

    def open(self, location: Location) -> Remote:
        """See `StoreOptions`."""
        return MinioRemote(location, self)


ADVICE: Mapping[Trouble, str | Hint] = {
    Trouble.DNS: "check MINIO_ENDPOINT and the resolver",
    Trouble.REFUSED: "check host and port of MINIO_ENDPOINT, and that the store runs",
    Trouble.TIMEOUT: "check MINIO_ENDPOINT and the firewall",
    Trouble.BROKEN: "check the network and the store's log; a store with TLS needs MINIO_SECURE=1",
    Trouble.NO_TLS: "set MINIO_SECURE=0",
    Trouble.CERTIFICATE: "set MINIO_CA_BUNDLE to the authority's certificate, "
    "or MINIO_VERIFY_SSL=0 to trust any",
    Trouble.REGION: "set MINIO_REGION to the store's region",
    Trouble.CREDENTIALS: "check MINIO_ACCESS_KEY and MINIO_SECRET_KEY",
    Trouble.CLOCK: "set this machine's clock",
    Trouble.ANONYMOUS: "set MINIO_ACCESS_KEY and MINIO_SECRET_KEY",
    Trouble.DENIED: "the user's policy needs s3:ListBucket on the bucket and s3:GetObject on its "
    "objects",
    Trouble.BUCKET: "correct the bucket's name, or MINIO_ENDPOINT",
    Trouble.THROTTLED: Hint("poll less often ({server.poll_wait_s})"),
    Trouble.SERVER: "see the store's log",
    Trouble.OTHER: "see the code in the store's documentation",
}


class MinioRemote(BucketRemote["Minio"]):
    """One prefix of a bucket."""

    advice = ADVICE

    def __init__(self, location: Location, options: MinioOptions) -> None:
        super().__init__(location, options.endpoint, client_of(options, location.bucket))
        self._has_key = bool(options.access_key)

    def directories(self) -> list[str]:
        """One ListObjectsV2 for each 1000 names under the base."""
        location = self._location
        with self._client("list") as client:
            found = client.list_objects(location.bucket, location.prefix or None)
            names = [str(item.object_name) for item in found]
        # The prefix itself is listed where a console made a marker object for the "directory".
        prefixes = [name for name in names if name.endswith("/") and name != location.prefix]
        return location.directories(prefixes, bool(names))

    def _objects(self, client: "Minio", prefix: str) -> Iterator[Entry]:
        """By ListObjectsV2; the tag is the ETag."""
        found = client.list_objects(self._location.bucket, prefix or None, recursive=True)
        for item in found:
            modified = item.last_modified.timestamp() if item.last_modified else 0.0
            tag = (item.etag or "").strip('"')
            yield Entry(str(item.object_name), item.size or 0, tag, modified)

    def read(self, entry: Entry, start: int, stop: int, sink: Sink) -> None:
        """One GetObject with If-Match."""
        with self._client(f"read {entry.path}") as client:
            reply = client.get_object(
                self._location.bucket,
                self._location.prefix + entry.path,
                offset=start,
                length=stop - start,
                request_headers={"If-Match": f'"{entry.tag}"'},
            )
            try:
                for chunk in reply.stream(CHUNK_BYTES, decode_content=False):
                    sink(chunk)
            # Required by the client's reference: for a streamed body the client does neither.
            finally:
                reply.close()
                reply.release_conn()

    def checksum(self, entry: Entry) -> Checksum | None:
        """One HeadObject, and another one for a multipart upload without a whole checksum."""
        key = self._location.prefix + entry.path
        pinned: dict[str, str | list[str] | tuple[str]] = {"If-Match": f'"{entry.tag}"'}
        with self._client(f"read {entry.path}") as client:
            found = client.stat_object(
                self._location.bucket, key, extra_headers={**pinned, **_WITH_CHECKSUM}
            )

            def part_bytes() -> int:
                """Request the size of the first part, in bytes."""
                part = client.stat_object(
                    self._location.bucket,
                    key,
                    extra_headers=pinned,
                    extra_query_params={"partNumber": "1"},
                )
                return part.size or 0

            headers = {name.lower(): value for name, value in (found.metadata or {}).items()}
            return from_s3_headers(entry.tag, entry.size, headers, part_bytes)

    def _classify(self, error: Exception, action: str) -> tuple[Trouble, str] | None:
        from minio.error import InvalidResponseError, S3Error, ServerError

        if isinstance(error, S3Error):
            code = error.code or ""
            trouble = trouble_of_code(code, error.response.status)
            code = with_status(trouble, code, error.response.status)
        elif isinstance(error, ServerError):
            code, trouble = str(error.status_code), http_trouble(error.status_code)
        elif isinstance(error, InvalidResponseError):
            code, trouble = "", http_trouble(error._code)
        else:
            return None
        return trouble, code

    def _is_anonymous(self, client: "Minio") -> bool:
        return not self._has_key


_WITH_CHECKSUM: dict[str, str | list[str] | tuple[str]] = {"x-amz-checksum-mode": "ENABLED"}


@cache
def client_of(options: MinioOptions, bucket: str) -> "SharedClient[Minio]":
    """One client for each bucket."""
    quiet("urllib3")
    return SharedClient(lambda: make_client(options, bucket))


def make_client(options: MinioOptions, bucket: str) -> "Minio":
    """Make a client; nothing is sent yet."""
    import urllib3
    from minio import Minio

    if not options.access_key:
        log.warning(Event("MINIO_ACCESS_KEY is not set, requests are anonymous", bucket=bucket))
    # No proxy: the pool below uses none.
    warn_of_plain_http(bucket, f"{'https' if options.secure else 'http'}://{options.endpoint}")
    return Minio(
        options.endpoint,
        access_key=options.access_key or None,
        secret_key=options.secret_key or None,
        secure=options.secure,
        region=options.region,
        http_client=urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
            retries=False,  # ours count progress; the client's would multiply with them
            maxsize=CONNECTIONS,
            cert_reqs="CERT_REQUIRED" if options.verify else "CERT_NONE",
            ca_certs=options.ca_bundle or None,
        ),
    )
