"""`az://` and other forms: Azure Blob Storage, by its REST API over urllib3.

Not by the client of Azure: it gives the bytes of a range only once it has all of them, so a
download that trickles would be seen too late, and eight of them would hold 128 MB.

Source: Azure Storage REST API (List Blobs, Get Blob, Get Blob Properties, "Authorize with Shared
Key", "Blob service error codes").
"""

import base64
import binascii
import hashlib
import hmac
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from email.utils import formatdate, mktime_tz, parsedate_to_datetime, parsedate_tz
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlencode, urlsplit

from ie_serving.core.settings.kinds import BOOLEAN
from ie_serving.core.values.errors import ConfigError
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.hosts import host_of
from ie_serving.storage.backends.bucket import (
    CHUNK_BYTES,
    CONNECT_TIMEOUT_S,
    CONNECTIONS,
    READ_TIMEOUT_S,
    BucketRemote,
    Kept,
)
from ie_serving.storage.base import Entry
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
from ie_serving.storage.plain_http import proxy_of, warn_of_plain_http
from ie_serving.storage.remote import Location, Remote, Sink, shown
from ie_serving.storage.trouble import Trouble, http_trouble, quiet
from ie_serving.telemetry.log.logs import Event

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from urllib3 import BaseHTTPResponse, PoolManager

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
    """As a URL."""

    # As the clients of Azure and of Google read it.
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
        place = self.place(location)
        if not place.endpoint or (self.key and not place.account):
            return "set AZURE_STORAGE_ACCOUNT, or AZURE_STORAGE_CONNECTION_STRING with AccountName"
        if self.account not in ("", place.account) and (self.key or self.sas_token):
            return f"the key or signature is of the account {self.account}: correct either"
        return ""

    def place(self, location: Location) -> "AzurePlace":
        """Tell where the container of a location is reached."""
        host, _, container = location.bucket.rpartition("/")
        named = _HOST.fullmatch(host)
        account = (named[1] if named else host) or self.account
        if self.endpoint and account == self.account:
            return AzurePlace(account, self.endpoint, container)
        if account and not named:
            host = f"{account}.blob.core.windows.net"
        return AzurePlace(account, f"https://{host}" if host else self.endpoint, container)

    def open(self, location: Location) -> Remote:
        """See `StoreOptions`."""
        return AzureRemote(location, self)


class AzurePlace(NamedTuple):
    """A container: its account, the URL of that, and its name."""

    account: str
    endpoint: str
    container: str


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
        # With a signature, which is for one account, it stands in the endpoint alone.
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
    "AZURE_STORAGE_SAS_TOKEN; or give the process an identity and install ie_serving[azure]; "
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

_CODES: Mapping[str, Trouble] = {
    **dict.fromkeys(
        ("ContainerNotFound", "ContainerBeingDeleted", "ContainerDisabled"), Trouble.BUCKET
    ),
    **dict.fromkeys(
        ("AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation"),
        Trouble.CREDENTIALS,
    ),
    # As Azure answers an anonymous request for a container that is private, or is none.
    **dict.fromkeys(("PublicAccessNotPermitted", "ResourceNotFound"), Trouble.DENIED),
    **dict.fromkeys(("BlobNotFound", "ConditionNotMet", "InvalidRange"), Trouble.CHANGED),
}
"""By `x-ms-error-code`; others are sorted by the status."""

_SCOPE: Final = "https://storage.azure.com/.default"
_VERSION: Final = "2021-12-02"
"""Of the REST API: the oldest that writes any name of a blob into a listing."""
_CLOCKS_DIFFER_S: Final = 900
"""Seconds beyond which Azure refuses the date of a request, by the code of a wrong key."""

Authorize = Callable[[str, str, dict[str, str], dict[str, str]], str]
"""Adds credentials to a request of a method, a path, a query and headers; gives more query."""


class Refusal(Exception):
    """An answer other than success."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(status)
        self.status = status
        self.code = headers.get("x-ms-error-code", "")
        self.date = headers.get("Date", "")


class Client(NamedTuple):
    """Sends requests about one container."""

    pool: "PoolManager"
    place: AzurePlace
    authorize: Authorize | None

    def send(
        self, method: str, key: str, query: Mapping[str, str], **more: str
    ) -> "BaseHTTPResponse":
        """Send one request; the caller reads the answer and closes it. Raises: Refusal."""
        path = f"{urlsplit(self.place.endpoint).path}/{self.place.container}{quote(key)}"
        headers = {"x-ms-version": _VERSION, "x-ms-date": formatdate(usegmt=True), **more}
        asked = dict(query)
        extra = self.authorize(method, path, asked, headers) if self.authorize else ""
        parts = urlsplit(self.place.endpoint)
        text = "&".join(filter(None, (urlencode(asked, quote_via=quote), extra)))
        reply = self.pool.request(
            method,
            f"{parts.scheme}://{parts.netloc}{path}?{text}",
            headers=headers,
            preload_content=False,
            decode_content=False,  # as it is stored: the checksum is of those bytes
            retries=False,  # ours count progress
        )
        if reply.status >= 300:
            with closing(reply):
                reply.read()
            raise Refusal(reply.status, reply.headers)
        return reply


class AzureRemote(BucketRemote[Client]):
    """One prefix of a container."""

    advice = ADVICE

    def __init__(self, location: Location, options: AzureOptions) -> None:
        place = options.place(location)
        super().__init__(location, place.endpoint, client_of(options, place))

    def directories(self) -> list[str]:
        """One List Blobs for each 5000 names under the base."""
        prefixes: list[str] = []
        has_objects = False
        with self._client("list") as client:
            for page in _pages(client, prefix=self._location.prefix, delimiter="/"):
                prefixes += (_name(found) for found in page.iter("BlobPrefix"))
                has_objects = has_objects or page.find("Blobs/Blob") is not None
        return self._location.directories(prefixes, has_objects)

    def _objects(self, client: Client, prefix: str) -> Iterator[Entry]:
        """By List Blobs; the tag is the ETag."""
        # Where an account has a hierarchical namespace, its directories are empty blobs, which
        # their metadata tells apart.
        for page in _pages(client, prefix=prefix, include="metadata"):
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
        if isinstance(error, Refusal):
            return _trouble_of(error), error.code or str(error.status)
        if isinstance(error, ModuleNotFoundError):
            return Trouble.NO_CREDENTIALS, "azure-identity"
        # By name: azure-core, which has the class, may not be installed.
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if "ClientAuthenticationError" in kinds:
            return Trouble.NO_CREDENTIALS, type(error).__name__
        if isinstance(error, binascii.Error):
            return Trouble.CREDENTIALS, "the key is no base64"
        return None

    def _is_anonymous(self, client: Client) -> bool:
        return client.authorize is None


def _trouble_of(refusal: Refusal) -> Trouble:
    trouble = _CODES.get(refusal.code)
    if trouble is Trouble.CREDENTIALS and _is_far(refusal.date):
        return Trouble.CLOCK
    if trouble is None and refusal.status in (404, 416):
        return Trouble.CHANGED
    return trouble or http_trouble(refusal.status)


def _is_far(date: str) -> bool:
    """Tell whether the store's clock is too far from this machine's."""
    at = parsedate_tz(date)
    return at is not None and abs(time.time() - mktime_tz(at)) > _CLOCKS_DIFFER_S


def _exactly(entry: Entry) -> dict[str, str]:
    # The store refuses an object uploaded again since the listing, so the files of two uploads
    # never mix.
    return {"If-Match": f'"{entry.tag}"'}


def _pages(client: Client, **query: str) -> Iterator["Element"]:
    """Yield the pages of a listing."""
    from xml.etree import ElementTree

    marker = ""
    while True:
        asked = {"restype": "container", "comp": "list", **query, "marker": marker}
        reply = client.send("GET", "", {name: text for name, text in asked.items() if text})
        with closing(reply):
            page = ElementTree.fromstring(reply.read())
        yield page
        marker = page.findtext("NextMarker") or ""
        if not marker:
            return


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
def client_of(options: AzureOptions, place: AzurePlace) -> Kept[Client]:
    """One client for each container."""
    quiet("azure", "msal", "requests", "urllib3")
    return Kept(lambda: make_client(options, place), lambda client: client.pool.clear())


def make_client(options: AzureOptions, place: AzurePlace) -> Client:
    """Make a client; credentials are looked for with the first request."""
    import urllib3

    proxy = proxy_of(place.endpoint, "all")
    warn_of_plain_http(place.container, place.endpoint, proxy)
    make: Callable[..., PoolManager] = urllib3.PoolManager
    if proxy:
        # A proxy without a scheme is one of plain HTTP.
        parts = urlsplit(with_scheme(proxy, https=False))
        password = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        own = urllib3.make_headers(proxy_basic_auth=password) if parts.username else None
        make = partial(urllib3.ProxyManager, parts.geturl(), proxy_headers=own)
    pool = make(
        timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
        maxsize=CONNECTIONS,
        cert_reqs="CERT_REQUIRED",
        ca_certs=options.ca_bundle or None,
    )
    return Client(pool, place, _authorization(options, place))


def _authorization(options: AzureOptions, place: AzurePlace) -> Authorize | None:
    if options.anonymous:
        log.info(Event("requests are anonymous, as configured", bucket=place.container))
        return None
    if options.key:
        return partial(_sign, place.account, base64.b64decode(options.key, validate=True))
    if options.sas_token:
        token = options.sas_token.removeprefix("?")
        return lambda method, path, query, headers: token
    return _by_identity()


def _by_identity() -> Authorize:
    from azure.identity import DefaultAzureCredential

    # Those of programs for developers start processes.
    credential = DefaultAzureCredential(
        exclude_cli_credential=True,
        exclude_developer_cli_credential=True,
        exclude_powershell_credential=True,
        exclude_shared_token_cache_credential=True,
        exclude_visual_studio_code_credential=True,
    )

    def authorize(method: str, path: str, query: dict[str, str], headers: dict[str, str]) -> str:
        headers["Authorization"] = f"Bearer {credential.get_token(_SCOPE).token}"
        return ""

    return authorize


_SIGNED: Final = (
    *("Content-Encoding", "Content-Language", "Content-Length", "Content-MD5", "Content-Type"),
    *("Date", "If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range"),
)
"""Headers in the order of the text that is signed."""


def _sign(
    account: str,
    key: bytes,
    method: str,
    path: str,
    query: dict[str, str],
    headers: dict[str, str],
) -> str:
    own = sorted((name, text) for name, text in headers.items() if name.startswith("x-ms-"))
    lines = [
        method,
        *(headers.get(name, "") for name in _SIGNED),
        *(f"{name}:{text}" for name, text in own),
        f"/{account}{path}",
        *(f"{name}:{text}" for name, text in sorted(query.items())),
    ]
    digest = hmac.digest(key, "\n".join(lines).encode(), hashlib.sha256)
    signature = base64.b64encode(digest).decode()
    headers["Authorization"] = f"SharedKey {account}:{signature}"
    return ""
