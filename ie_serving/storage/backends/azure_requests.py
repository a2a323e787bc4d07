"""Requests to Azure Blob Storage, by its REST API over urllib3, and their credentials.

Not by the client of Azure: it gives the bytes of a range only once it has all of them, so a
download that trickles would be seen too late, and eight of them would hold 128 MB.

Source: Azure Storage REST API, "Authorize with Shared Key".
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from email.utils import formatdate
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, unquote, urlencode, urlsplit

from ie_serving.storage.backends.bucket import (
    CONNECT_TIMEOUT_S,
    CONNECTIONS,
    READ_TIMEOUT_S,
    proxy_of,
    warn_of_plain_http,
)
from ie_serving.storage.options import with_scheme

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from urllib3 import BaseHTTPResponse, PoolManager

Authorize = Callable[[str, str, dict[str, str], dict[str, str]], str]
"""Adds credentials to a request of a method, a path, a query and headers; gives more query."""

_SCOPE: Final = "https://storage.azure.com/.default"

_SIGNED: Final = (
    *("Content-Encoding", "Content-Language", "Content-Length", "Content-MD5", "Content-Type"),
    *("Date", "If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range"),
)
"""Headers in the order of the text that is signed."""


def sign(
    account: str, key: bytes, method: str, path: str, query: dict[str, str], headers: dict[str, str]
) -> str:
    """Sign with the account's key. See `Authorize`."""
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


def by_identity() -> Authorize:
    """Use the identity of the process; it is looked for with the first request."""
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


_VERSION: Final = "2021-12-02"
"""Version of the REST API: the oldest that writes any name of a blob into a listing."""


class AzureAddress(NamedTuple):
    """A container: its account, the URL of that, and its name."""

    account: str
    endpoint: str
    container: str


class AzureRefusal(Exception):
    """A reply other than success."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(status)
        self.status = status
        self.code = headers.get("x-ms-error-code", "")
        self.date = headers.get("Date", "")


class ContainerClient(NamedTuple):
    """Sends requests about one container."""

    pool: "PoolManager"
    address: AzureAddress
    authorize: Authorize | None

    def send(
        self, method: str, key: str, query: Mapping[str, str], **more: str
    ) -> "BaseHTTPResponse":
        """Send one request; the caller reads the reply and closes it. Raises: AzureRefusal."""
        path = f"{urlsplit(self.address.endpoint).path}/{self.address.container}{quote(key)}"
        headers = {"x-ms-version": _VERSION, "x-ms-date": formatdate(usegmt=True), **more}
        asked = dict(query)
        extra = self.authorize(method, path, asked, headers) if self.authorize else ""
        parts = urlsplit(self.address.endpoint)
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
            raise AzureRefusal(reply.status, reply.headers)
        return reply

    def pages(self, **query: str) -> Iterator["Element"]:
        """Yield the pages of a listing."""
        from xml.etree import ElementTree

        marker = ""
        while True:
            asked = {"restype": "container", "comp": "list", **query, "marker": marker}
            reply = self.send("GET", "", {name: text for name, text in asked.items() if text})
            with closing(reply):
                page = ElementTree.fromstring(reply.read())
            yield page
            marker = page.findtext("NextMarker") or ""
            if not marker:
                return


def pool_for(address: AzureAddress, ca_bundle: str) -> "PoolManager":
    """Make the connections, through the proxy of the environment."""
    import urllib3

    proxy = proxy_of(address.endpoint, "all")
    warn_of_plain_http(address.container, address.endpoint, proxy)
    make: Callable[..., PoolManager] = urllib3.PoolManager
    if proxy:
        # A proxy without a scheme is one of plain HTTP.
        parts = urlsplit(with_scheme(proxy, https=False))
        password = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        own = urllib3.make_headers(proxy_basic_auth=password) if parts.username else None
        make = partial(urllib3.ProxyManager, parts.geturl(), proxy_headers=own)
    return make(
        timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
        maxsize=CONNECTIONS,
        cert_reqs="CERT_REQUIRED",
        ca_certs=ca_bundle or None,
    )
