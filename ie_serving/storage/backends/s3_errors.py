"""Error codes of the S3 protocol. Source: Amazon S3 API Reference, "Error responses"."""

from collections.abc import Mapping

from ie_serving.storage.trouble import Trouble, http_trouble

_CODES: Mapping[Trouble, tuple[str, ...]] = {
    Trouble.BUCKET: ("NoSuchBucket",),
    # A missing key was removed or replaced since the listing, since only listed keys are read.
    Trouble.CHANGED: ("NoSuchKey", "NoSuchVersion", "PreconditionFailed", "InvalidRange", "404"),
    Trouble.DENIED: ("AccessDenied", "AllAccessDisabled", "AccountProblem"),
    Trouble.CREDENTIALS: (
        "AuthorizationQueryParametersError",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidIdentityToken",
        "InvalidToken",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
        "UnrecognizedClientException",
    ),
    Trouble.CLOCK: ("RequestTimeTooSkewed", "RequestExpired"),
    Trouble.REGION: (
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
        "IncorrectEndpoint",
        "InvalidRegion",
        "PermanentRedirect",
        "Redirect",
        "TemporaryRedirect",
        "301",
        "307",
    ),
    Trouble.THROTTLED: (
        "EC2ThrottledException",
        "RequestLimitExceeded",
        "ServiceUnavailable",
        "SlowDown",
        "SlowDownRead",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
    ),
    Trouble.TIMEOUT: ("RequestTimeout",),
    Trouble.SERVER: ("InternalError",),
}
_TROUBLE_OF = {code: trouble for trouble, codes in _CODES.items() for code in codes}


def trouble_of_code(code: str, status: int) -> Trouble:
    """Sort an S3 error by its code; a HEAD has none, then by its HTTP status."""
    if code in _TROUBLE_OF:
        return _TROUBLE_OF[code]
    return Trouble.CHANGED if status in (404, 416) else http_trouble(status)


def with_status(trouble: Trouble, code: str, status: int) -> str:
    """Put the HTTP status before the code of a store that fails: proxies have their own codes."""
    is_wanted = trouble is Trouble.SERVER and status and code != str(status)
    return f"{status} {code}".strip() if is_wanted else code
