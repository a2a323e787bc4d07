"""Error codes of Azure. Source: Azure Storage REST API, "Blob service error codes"."""

import time
from collections.abc import Mapping
from email.utils import mktime_tz, parsedate_tz
from typing import Final

from ie_serving.storage.trouble import Trouble, http_trouble

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
