"""`s3://`: Amazon S3 and stores that speak its protocol, by boto3.

Sources: Amazon S3 API Reference (ListObjectsV2, GetObject, HeadObject, "Error responses").
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final, TypeAlias, cast

from ie_serving.core.settings.declaration import BOOLEAN, choice
from ie_serving.core.values.hints import Hint
from ie_serving.storage.backends.bucket import (
    CHUNK_BYTES,
    CONNECT_TIMEOUT_S,
    CONNECTIONS,
    READ_TIMEOUT_S,
    BucketRemote,
    SharedClient,
    proxy_of,
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
    is_https,
    with_scheme,
)
from ie_serving.storage.trouble import Trouble, quiet
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

ENDPOINTS_OF_BOTO3: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""Variables that boto3 reads if no endpoint is given; the first that is set counts."""


@dataclass(frozen=True, kw_only=True)
class S3Options(StoreOptions):
    """How `s3://` is reached."""

    schemes = ("s3",)

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
    """URL of the store."""

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
    # Without the setting a public bucket is read with the credentials that the chain finds, and a
    # store refuses unknown keys even where it requires none.
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

    @classmethod
    def read(
        cls, given: dict[str, Any], environ: Mapping[str, str], own_hosts_are_plain: bool
    ) -> "S3Options":
        """See `StoreOptions`."""
        endpoint = given.get("endpoint", "")
        https = given.pop("https", is_https(endpoint, own_hosts_are_plain))
        endpoint = with_scheme(endpoint, https)
        read_by_boto3 = next((name for name in ENDPOINTS_OF_BOTO3 if environ.get(name)), None)
        named = {"endpoint_variable": read_by_boto3} if read_by_boto3 and not endpoint else {}
        return cls(**{**given, "endpoint": endpoint, **named})

    def files(self) -> Mapping[str, str]:
        """See `StoreOptions`."""
        return {"AWS_CA_BUNDLE": self.ca_bundle}

    def open(self, location: Location) -> Remote:
        """See `StoreOptions`."""
        return S3Remote(location, self)


def advice(endpoint: str) -> Mapping[Trouble, str | Hint]:
    """Give the advice for each trouble: which setting to change.

    Args:
        endpoint: name of the variable that set the store's address.
    """
    return {
        Trouble.DNS: f"check {endpoint}, AWS_REGION and the resolver; a bucket's own host name"
        " needs S3_ADDRESSING_STYLE=path where it does not resolve",
        Trouble.REFUSED: f"check host and port of {endpoint}, and that the store runs",
        Trouble.TIMEOUT: f"check {endpoint}, firewall and proxy",
        Trouble.NO_TLS: f"write http:// in {endpoint}",
        Trouble.BUCKET: f"correct the bucket's name, or {endpoint} when it lies in another store",
        **_ADVICE,
    }


_ADVICE: Mapping[Trouble, str | Hint] = {
    Trouble.BROKEN: "check the network and the store's log",
    Trouble.CERTIFICATE: "set AWS_CA_BUNDLE to the authority's certificate, "
    "or S3_VERIFY_SSL=0 to trust any",
    Trouble.REGION: "set AWS_REGION to the bucket's region",
    Trouble.NO_CREDENTIALS: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or a "
    "role; S3_ANONYMOUS=1 for a public bucket",
    Trouble.CREDENTIALS: "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN "
    "or the role, and S3_SIGNATURE",
    Trouble.CLOCK: "set this machine's clock",
    Trouble.ANONYMOUS: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or a role",
    Trouble.DENIED: "the identity needs s3:ListBucket on the bucket and s3:GetObject on its "
    "objects (and kms:Decrypt when they are encrypted)",
    Trouble.THROTTLED: Hint("poll less often ({server.poll_wait_s})"),
    Trouble.SERVER: "see the store's log",
    Trouble.OTHER: "see the code in the store's documentation",
}
"""Advice that does not depend on the endpoint variable."""

Boto: TypeAlias = Any
"""boto3 makes its clients at run time; they have no types."""

_TROUBLES: Mapping[Trouble, tuple[str, ...]] = {
    Trouble.NO_CREDENTIALS: (
        "CredentialRetrievalError",
        "NoAuthTokenError",
        "NoCredentialsError",
        "PartialCredentialsError",
        "ProfileNotFound",
        "SSOTokenLoadError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
    ),
    Trouble.REGION: ("InvalidConfigError", "InvalidRegionError", "NoRegionError"),
}
"""Exceptions of botocore, by name: see `StoreOptions`."""


class S3Remote(BucketRemote[Boto]):
    """One prefix of a bucket."""

    def __init__(self, location: Location, options: S3Options) -> None:
        self.advice = advice(options.endpoint_variable)
        super().__init__(location, options.endpoint, client_of(options, location.bucket))

    def directories(self) -> list[str]:
        """One ListObjectsV2 for each 1000 names under the base."""
        prefixes: list[str] = []
        has_objects = False
        with self._client("list") as client:
            for page in self._pages(client, self._location.prefix, Delimiter="/"):
                prefixes += [item["Prefix"] for item in page.get("CommonPrefixes", ())]
                has_objects = has_objects or bool(page.get("Contents"))
        return self._location.directories(prefixes, has_objects)

    def _objects(self, client: Boto, prefix: str) -> Iterator[Entry]:
        """By ListObjectsV2; the tag is the ETag."""
        for page in self._pages(client, prefix):
            for item in page.get("Contents", ()):
                modified = item["LastModified"].timestamp()
                yield Entry(item["Key"], item["Size"], item["ETag"].strip('"'), modified)

    def read(self, entry: Entry, start: int, stop: int, sink: Sink) -> None:
        """One GetObject with If-Match."""
        with self._client(f"read {entry.path}") as client:
            reply = client.get_object(**self._exactly(entry), Range=f"bytes={start}-{stop - 1}")
            with closing(reply["Body"]) as body:
                for chunk in body.iter_chunks(CHUNK_BYTES):
                    sink(chunk)

    def checksum(self, entry: Entry) -> Checksum | None:
        """One HeadObject, and another one for a multipart upload without a whole checksum."""
        with self._client(f"read {entry.path}") as client:
            # Pinned, so that a checksum is never of a newer upload than the bytes.
            pinned = self._exactly(entry)
            reply = client.head_object(**pinned, ChecksumMode="ENABLED")
            headers = reply["ResponseMetadata"]["HTTPHeaders"]

            def part_bytes() -> int:
                """Request the size of the first part, in bytes."""
                return int(client.head_object(**pinned, PartNumber=1)["ContentLength"])

            return from_s3_headers(entry.tag, entry.size, headers, part_bytes)

    def _pages(self, client: Boto, prefix: str, **more: str) -> Iterator[Mapping[str, Any]]:
        paginator = client.get_paginator("list_objects_v2")
        yield from paginator.paginate(Bucket=self._location.bucket, Prefix=prefix, **more)

    def _exactly(self, entry: Entry) -> dict[str, str]:
        # If-Match makes the store refuse an object uploaded again since the listing, so the files
        # of two uploads never mix.
        key = self._location.prefix + entry.path
        return {"Bucket": self._location.bucket, "Key": key, "IfMatch": f'"{entry.tag}"'}

    def _classify(self, error: Exception, action: str) -> tuple[Trouble, str] | None:
        from botocore import exceptions

        if isinstance(error, exceptions.ClientError):
            return self._of_reply(error)
        for trouble, names in _TROUBLES.items():
            if isinstance(error, tuple(getattr(exceptions, name) for name in names)):
                return trouble, type(error).__name__
        if isinstance(error, (exceptions.IncompleteReadError, exceptions.ResponseStreamingError)):
            return Trouble.BROKEN, ""
        return None

    def _of_reply(self, error: Boto) -> tuple[Trouble, str]:
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        trouble = trouble_of_code(code, status)
        # The role was refused, not the bucket: permissions on the bucket would be the wrong advice.
        if trouble is Trouble.DENIED and error.operation_name.startswith("AssumeRole"):
            return Trouble.CREDENTIALS, code
        return trouble, with_status(trouble, code, status)

    def _is_anonymous(self, client: Boto) -> bool:
        from botocore import UNSIGNED

        return bool(client.meta.config.signature_version is UNSIGNED)


@cache
def client_of(options: S3Options, bucket: str) -> SharedClient[Boto]:
    """One client for each bucket: its connections and region are the bucket's own."""
    quiet("boto3", "botocore", "urllib3")
    return SharedClient(lambda: make_client(options, bucket), lambda client: client.close())


def make_client(options: S3Options, bucket: str) -> Boto:
    """Make a client of one bucket; boto3 reads its credentials now."""
    import boto3
    from botocore.config import Config

    session = boto3.session.Session(
        aws_access_key_id=options.access_key or None,
        aws_secret_access_key=options.secret_key or None,
        aws_session_token=options.session_token or None,
        region_name=options.region or None,
        botocore_session=_botocore_session(),
    )
    # A store other than AWS has no regions, but a signature needs the name of one.
    region = session.region_name or ("us-east-1" if options.endpoint else None)
    client = session.client(
        "s3",
        endpoint_url=options.endpoint or None,
        region_name=region,
        verify=(options.ca_bundle or None) if options.verify else False,
        config=Config(
            signature_version=_signature(session, options, bucket),
            s3={"addressing_style": options.addressing},
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            # The retries are ours: botocore's would hide progress and multiply with ours.
            retries={"total_max_attempts": 1, "mode": "standard"},
            max_pool_connections=CONNECTIONS,
        ),
    )
    # boto3 is asked: variables and profiles of its own may name another endpoint.
    url = client.meta.endpoint_url
    warn_of_plain_http(bucket, url, proxy_of(url))
    return client


def _botocore_session() -> Boto:
    from ie_serving.storage.backends import s3_definitions

    session = s3_definitions.session()
    # botocore's default parser guesses the format, which takes two thirds of a listing's time.
    parsers = session.get_component("response_parser_factory")
    parsers.set_parser_defaults(timestamp_parser=read_time)
    return session


def read_time(text: str) -> datetime:
    """Parse a time in any format that a store of the S3 protocol writes."""
    with suppress(ValueError, AttributeError):
        # Python 3.10 does not know the Z with which S3 writes UTC.
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
        if found.tzinfo:
            return found
    # The format is that of a header, or a store's own.
    from botocore.utils import parse_timestamp

    return cast(datetime, parse_timestamp(text))


def _signature(session: Boto, options: S3Options, bucket: str) -> Boto:
    from botocore import UNSIGNED

    if options.anonymous:
        log.info(Event("requests are anonymous, as configured", bucket=bucket))
        return UNSIGNED
    if session.get_credentials() is None:
        log.warning(Event("no AWS credentials found, requests are anonymous", bucket=bucket))
        return UNSIGNED
    return options.signature or None
