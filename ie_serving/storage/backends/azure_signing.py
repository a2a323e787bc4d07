"""Credentials of requests to Azure. Source: Azure Storage REST API, "Authorize with Shared Key"."""

import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import Final

Authorize = Callable[[str, str, dict[str, str], dict[str, str]], str]
"""Adds credentials to a request of a method, a path, a query and headers; gives more query."""

_SCOPE: Final = "https://storage.azure.com/.default"

_SIGNED: Final = (
    *("Content-Encoding", "Content-Language", "Content-Length", "Content-MD5", "Content-Type"),
    *("Date", "If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range"),
)
"""Headers in the order of the text that is signed."""


def sign(
    account: str,
    key: bytes,
    method: str,
    path: str,
    query: dict[str, str],
    headers: dict[str, str],
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
