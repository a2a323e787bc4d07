"""`az://` and other forms: Azure Blob Storage.

Source: Azure Storage REST API (List Blobs, Get Blob, Get Blob Properties; "Blob service error
codes").
"""

import base64
import binascii
import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_to_datetime, parsedate_tz
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from ie_serving.core.settings.declaration import BOOLEAN
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.hosts import host_of
from ie_serving.storage.backends.azure_requests import (
    Authorize,
    AzureAddress,
    AzureRefusal,
    ContainerClient,
    by_identity,
    pool_for,
    sign,
)
from ie_serving.storage.backends.bucket import CHUNK_BYTES, BucketRemote, SharedClient
from ie_serving.storage.base import Entry, Location, Remote, Sink, shown
from ie_serving.storage.checksums import Checksum
from ie_serving.storage.options import (
    ANY_FILE,
    ANY_TEXT,
    ENDPOINT,
    SECRET,
    StoreOptions,
    is_https,
    with_scheme,
)
from ie_serving.storage.trouble import Trouble, http_trouble, quiet
from ie_serving.telemetry.log.logs import Event

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

log = logging.getLogger(__name__)

_HOST: Final = re.compile(
    r"([a-z0-9]{3,24})(?:\.z[0-9]+)?\.blob\."
    r"(?:core\.windows\.net|core\.usgovcloudapi\.net|core\.chinacloudapi\.cn|storage\.azure\.net)"
)
"""Hosts of accounts, in Azure's clouds."""


@dataclass(frozen=True, kw_only=True)
class AzureOptions(StoreOptions):
    """How Azure Blob Storage is reached."""

    schemes = ("az", "azure", "as", "azfs", "https")

    connection_string: str = SECRET.setting(
        "",
        "account, key or shared access signature, and endpoint in one",
        "DefaultEndpointsProtocol=https;AccountName=models;AccountKey=KEY",
        shown="none",
        ovms="AZURE_STORAGE_CONNECTION_STRING",
        variables="AZURE_STORAGE_CONNECTION_STRING",
        is_secret=True,
    )
    # Triton and Azure's command line read the first.
    account: str = ANY_TEXT.setting(
        "",
        "storage account, where the URL names none",
        "models",
        shown="the URL's",
        variables="AZURE_STORAGE_ACCOUNT AZURE_STORAGE_ACCOUNT_NAME",
    )
    # Triton and Azure's command line read the first, KServe the second.
    key: str = SECRET.setting(
        "",
        "key of the account",
        "KEY",
        shown="the identity of the process",
        variables="AZURE_STORAGE_KEY AZURE_STORAGE_ACCESS_KEY",
        is_secret=True,
    )
    sas_token: str = SECRET.setting(
        "",
        "shared access signature with the rights Read and List",
        "SECRET",
        shown="the identity of the process",
        variables="AZURE_STORAGE_SAS_TOKEN",
        is_secret=True,
    )
    anonymous: bool = BOOLEAN.setting(
        False, "true: no credentials, for public containers", "1", variables="AZURE_ANONYMOUS"
    )
    endpoint: str = ENDPOINT.setting(
        "",
        "another address of the account: an emulator, a private link",
        "http://127.0.0.1:10000/devstoreaccount1",
        shown="https://ACCOUNT.blob.core.windows.net",
        variables="AZURE_STORAGE_ENDPOINT",
    )
    """URL of the account."""

    # The clients of Azure and of Google read the file the same way.
    ca_bundle: str = ANY_FILE.setting(
        "",
        "file of trusted authorities",
        "/etc/ssl/store/ca.crt",
        shown="the system's",
        variables="REQUESTS_CA_BUNDLE",
    )

    @classmethod
    def read(
        cls, given: dict[str, Any], environ: Mapping[str, str], own_hosts_are_plain: bool
    ) -> "AzureOptions":
        """Take what a connection string says for what no other variable does."""
        said = {**_parts_of(given.get("connection_string", "")), **given}
        endpoint = said.get("endpoint", "")
        endpoint = with_scheme(endpoint, is_https(endpoint, own_hosts_are_plain)).rstrip("/")
        return cls(**{**said, "endpoint": endpoint})

    @classmethod
    def location(cls, url: str, rest: str) -> Location:
        """See `StoreOptions`. The bucket is the container, with the account that the URL names."""
        scheme = url.partition("://")[0].lower()
        if scheme == "azfs":
            raise ConfigError(
                [f"{shown(url)}: a file share: mount it and use its path, or a container, az://"]
            )
        if scheme == "as":
            return Location.parse(url, rest, "an account's and a container's name", 2)
        if scheme != "https":
            return Location.parse(url, rest, "a container's name")
        path, query, _ = rest.partition("?")
        if query:  # a shared access signature: not to be shown
            whole = shown(f"{scheme}://{path}")
            raise ConfigError(
                [f"{whole}: ends at the ?: set AZURE_STORAGE_SAS_TOKEN to what follows"]
            )
        if not _HOST.fullmatch(path.partition("/")[0]):
            form = "https://ACCOUNT.blob.core.windows.net/CONTAINER/PATH"
            raise ConfigError([f"{shown(url)}: unknown store: over https:// there is {form}"])
        return Location.parse(url, unquote(path), "a container's name", 2)

    def files(self) -> Mapping[str, str]:
        """See `StoreOptions`."""
        return {"REQUESTS_CA_BUNDLE": self.ca_bundle}

    def lacks(self, location: Location) -> str:
        """See `StoreOptions`."""
        address = self.address(location)
        if not address.endpoint or (self.key and not address.account):
            return "set AZURE_STORAGE_ACCOUNT, or AZURE_STORAGE_CONNECTION_STRING with AccountName"
        if self.account not in ("", address.account) and (self.key or self.sas_token):
            return f"the key or signature is of the account {self.account}: correct either"
        return ""

    def address(self, location: Location) -> AzureAddress:
        """Tell where the container of a location is reached."""
        host, _, container = location.bucket.rpartition("/")
        named = _HOST.fullmatch(host)
        account = (named[1] if named else host) or self.account
        if self.endpoint and account == self.account:
            return AzureAddress(account, self.endpoint, container)
        if account and not named:
            host = f"{account}.blob.core.windows.net"
        return AzureAddress(account, f"https://{host}" if host else self.endpoint, container)

    def open(self, location: Location) -> Remote:
        """See `StoreOptions`."""
        return AzureRemote(location, self)


def _parts_of(connection_string: str) -> dict[str, str]:
    """Read a connection string: `Name=value` with semicolons in between."""
    parts = (part.partition("=") for part in connection_string.split(";"))
    found = {name.strip().lower(): value.strip() for name, _, value in parts}
    account, endpoint = found.get("accountname", ""), found.get("blobendpoint", "")
    if account and not endpoint:
        scheme = found.get("defaultendpointsprotocol", "https")
        endpoint = f"{scheme}://{account}.blob.{found.get('endpointsuffix') or 'core.windows.net'}"
    named = _HOST.fullmatch(host_of(endpoint))
    said = {
        # A signature is for one account: with one, the account stands in the endpoint alone.
        "account": account or (named[1] if named else ""),
        "key": found.get("accountkey", ""),
        "sas_token": found.get("sharedaccesssignature", ""),
        "endpoint": endpoint,
    }
    return {name: value for name, value in said.items() if value}


ADVICE: Mapping[Trouble, str | Hint] = {
    Trouble.DNS: "check the account's name, AZURE_STORAGE_ENDPOINT and the resolver",
    Trouble.REFUSED: "check AZURE_STORAGE_ENDPOINT, firewall and proxy",
    Trouble.TIMEOUT: "check AZURE_STORAGE_ENDPOINT, firewall and proxy",
    Trouble.BROKEN: "check the network",
    Trouble.NO_TLS: "write http:// in AZURE_STORAGE_ENDPOINT",
    Trouble.CERTIFICATE: "set REQUESTS_CA_BUNDLE to the authority's certificate",
    Trouble.NO_CREDENTIALS: "set AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY or "
    "AZURE_STORAGE_SAS_TOKEN; or give the process an identity and install the extra azure; "
    "AZURE_ANONYMOUS=1 for a public container",
    Trouble.CREDENTIALS: "check the account, and its key, shared access signature or identity; a "
    "signature expires",
    Trouble.CLOCK: "set this machine's clock",
    Trouble.ANONYMOUS: "set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or correct the "
    "container's name",
    Trouble.DENIED: "an identity needs the role Storage Blob Data Reader, a shared access "
    "signature the rights Read and List; see the account's firewall as well",
    Trouble.BUCKET: "correct the container's name, or the account's",
    Trouble.THROTTLED: Hint("poll less often ({server.poll_wait_s})"),
    Trouble.SERVER: "see azure.status.microsoft",
    Trouble.OTHER: "see the code in the documentation of Blob Storage",
}


class AzureRemote(BucketRemote[ContainerClient]):
    """One prefix of a container."""

    advice = ADVICE

    def __init__(self, location: Location, options: AzureOptions) -> None:
        address = options.address(location)
        super().__init__(location, address.endpoint, client_of(options, address))

    def directories(self) -> list[str]:
        """One List Blobs for each 5000 names under the base."""
        prefixes: list[str] = []
        has_objects = False
        with self._client("list") as client:
            for page in client.pages(prefix=self._location.prefix, delimiter="/"):
                prefixes += (_name(found) for found in page.iter("BlobPrefix"))
                has_objects = has_objects or page.find("Blobs/Blob") is not None
        return self._location.directories(prefixes, has_objects)

    def _objects(self, client: ContainerClient, prefix: str) -> Iterator[Entry]:
        """By List Blobs; the tag is the ETag."""
        # An account with a hierarchical namespace lists directories as empty blobs, which their
        # metadata tells apart.
        for page in client.pages(prefix=prefix, include="metadata"):
            for blob in page.iter("Blob"):
                if (blob.findtext("Metadata/hdi_isfolder") or "").lower() != "true":
                    yield _entry(blob)

    def read(self, entry: Entry, start: int, stop: int, sink: Sink) -> None:
        """One Get Blob with If-Match."""
        with self._client(f"read {entry.path}") as client:
            span = f"bytes={start}-{stop - 1}"
            reply = client.send("GET", self._key(entry), {}, **_exactly(entry), Range=span)
            with closing(reply):
                for chunk in reply.stream(CHUNK_BYTES, decode_content=False):
                    sink(chunk)

    def checksum(self, entry: Entry) -> Checksum | None:
        """One Get Blob Properties: MD5, where its uploader or the store has computed it."""
        with self._client(f"read {entry.path}") as client:
            reply = client.send("HEAD", self._key(entry), {}, **_exactly(entry))
            with closing(reply):
                md5 = reply.headers.get("Content-MD5")
            return Checksum("md5", base64.b64decode(md5)) if md5 else None

    def _key(self, entry: Entry) -> str:
        return f"/{self._location.prefix}{entry.path}"

    def _classify(self, error: Exception, action: str) -> tuple[Trouble, str] | None:
        if isinstance(error, AzureRefusal):
            return trouble_of_answer(error.code, error.status, error.date), error.code or str(
                error.status
            )
        if isinstance(error, ModuleNotFoundError):
            return Trouble.NO_CREDENTIALS, "azure-identity"
        # Errors are compared by name: azure-core, which has the class, may not be installed.
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if "ClientAuthenticationError" in kinds:
            return Trouble.NO_CREDENTIALS, type(error).__name__
        if isinstance(error, binascii.Error):
            return Trouble.CREDENTIALS, "the key is no base64"
        return None

    def _is_anonymous(self, client: ContainerClient) -> bool:
        return client.authorize is None


def _exactly(entry: Entry) -> dict[str, str]:
    # The store refuses an object uploaded again since the listing, so the files of two uploads
    # never mix.
    return {"If-Match": f'"{entry.tag}"'}


def _entry(blob: "Element") -> Entry:
    properties = {each.tag: each.text or "" for each in blob.iterfind("Properties/*")}
    modified = parsedate_to_datetime(properties["Last-Modified"]).timestamp()
    tag = properties["Etag"].strip('"')
    return Entry(_name(blob), int(properties["Content-Length"]), tag, modified)


def _name(found: "Element") -> str:
    name = found.find("Name")
    if name is None or not name.text:
        return ""
    # A name with characters that XML cannot have.
    return unquote(name.text) if name.get("Encoded") == "true" else name.text


@cache
def client_of(options: AzureOptions, address: AzureAddress) -> SharedClient[ContainerClient]:
    """One client for each container."""
    quiet("azure", "msal", "requests", "urllib3")
    return SharedClient(partial(make_client, options, address), lambda client: client.pool.clear())


def make_client(options: AzureOptions, address: AzureAddress) -> ContainerClient:
    """Make a client; credentials are looked for with the first request."""
    return ContainerClient(
        pool_for(address, options.ca_bundle), address, _authorization(options, address)
    )


def _authorization(options: AzureOptions, address: AzureAddress) -> Authorize | None:
    if options.anonymous:
        log.info(Event("requests are anonymous, as configured", bucket=address.container))
        return None
    if options.key:
        return partial(sign, address.account, base64.b64decode(options.key, validate=True))
    if options.sas_token:
        token = options.sas_token.removeprefix("?")
        return lambda method, path, query, headers: token
    return by_identity()


_CODES: Mapping[str, Trouble] = {
    **dict.fromkeys(
        ("ContainerNotFound", "ContainerBeingDeleted", "ContainerDisabled"), Trouble.BUCKET
    ),
    **dict.fromkeys(
        ("AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation"),
        Trouble.CREDENTIALS,
    ),
    # Azure answers so to an anonymous request for a container that is private, or does not exist.
    **dict.fromkeys(("PublicAccessNotPermitted", "ResourceNotFound"), Trouble.DENIED),
    **dict.fromkeys(("BlobNotFound", "ConditionNotMet", "InvalidRange"), Trouble.CHANGED),
}
"""Troubles by `x-ms-error-code`; others are sorted by the status."""

_CLOCKS_DIFFER_S: Final = 900
"""Seconds beyond which Azure refuses the date of a request, by the code of a wrong key."""


def trouble_of_answer(code: str, status: int, date: str) -> Trouble:
    """Sort an error by its code, then by its HTTP status and the store's date."""
    trouble = _CODES.get(code)
    if trouble is Trouble.CREDENTIALS and _is_far(date):
        return Trouble.CLOCK
    if trouble is None and status in (404, 416):
        return Trouble.CHANGED
    return trouble or http_trouble(status)


def _is_far(date: str) -> bool:
    """Tell whether the store's clock is too far from this machine's."""
    at = parsedate_tz(date)
    return at is not None and abs(time.time() - mktime_tz(at)) > _CLOCKS_DIFFER_S
