"""Warns when requests to a store travel unencrypted over a public network."""

import logging
from collections.abc import Iterator
from urllib.parse import urlsplit

from ie_serving.core.values.hosts import host_of, is_public
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)


def warn_of_plain_http(bucket: str, url: str, proxy: str = "") -> None:
    """Warn where requests to a bucket are not encrypted on their way to a public address.

    Args:
        bucket: its name.
        url: of the store.
        proxy: the address of the proxy in between; empty for none.
    """
    for what, host in exposed(url, proxy):
        log.warning(Event("plain HTTP to a public address", bucket=bucket, host=host, what=what))


def exposed(url: str, proxy: str = "") -> Iterator[tuple[str, str]]:
    """Give the data that third parties can read, and the public host that receives it."""
    is_plain = urlsplit(url).scheme == "http"
    if is_plain and is_public(host_of(url)):
        yield "requests", host_of(url)
    # Without a scheme it is one of plain HTTP, to all clients. Requests by HTTPS stay encrypted to
    # the store on their way through it.
    if not proxy or proxy.lower().startswith("https://") or not is_public(host_of(proxy)):
        return
    if is_plain:
        yield "requests by proxy", host_of(proxy)
    if "@" in proxy:
        yield "credentials of the proxy", host_of(proxy)


def proxy_of(url: str, *others: str) -> str:
    """Give the address of the proxy that a client uses for a URL; empty for none.

    Args:
        url: of the store.
        others: proxy keys that the client tries where the URL's scheme has none, such as `all`.
    """
    # Imported here: it brings an HTTP client, which a server of local models should not pay for.
    from urllib.request import getproxies, proxy_bypass

    # From the environment, as the clients themselves read it.
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc):
        return ""
    proxies = getproxies()
    return next((proxies[each] for each in (parts.scheme, *others) if proxies.get(each)), "")
