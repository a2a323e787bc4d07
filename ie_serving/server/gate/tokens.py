"""Verifies JSON Web Tokens (RFC 7519) of one issuer, and turns them into callers.

Verifying a token takes some 100 us, so a thread does it, one token at a time; `access.py` caches a
valid token until it expires. The file of keys lists what a caller may do, by the claims of its
token: the first matching line applies.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple

from ie_serving.config.credentials import Claim, TokenMaterial
from ie_serving.core.runtime.waits import SingleFlight
from ie_serving.core.values.access import Principal
from ie_serving.core.values.errors import (
    ConfigError,
    Forbidden,
    NotAvailable,
    QueueFull,
    Unauthenticated,
)
from ie_serving.server.gate.token_keys import IssuerKeys, TokenKeys, fetched, keys_of

LONGEST_TOKEN: Final = 8 * 1024
"""Longest header in bytes with a token. They are cached: 4,096 of them fill 32 MB."""
MOST_WAITING_TOKENS: Final = 256
"""Tokens that wait to be verified one at a time: some 30 ms of waiting. More are refused, so that
clients with wrong tokens occupy one processor, not all."""
MOST_ASKING: Final = 64
"""Most tokens, among these, of unknown keys that wait for a fetch of the issuer's keys, for seconds
if it is slow. More are refused, else invented names of keys could take all room."""

_BEGIN: Final = b"ey"
"""Start of the base64 of a JSON object with a member."""
_DOTS: Final = 2
_WORDS: Final = ("scope", "scp")
"""Claims whose text is a list of words; RFC 8693, section 4.2."""


class _UnknownKey(Unauthenticated):
    """The issuer has no key of this name, or created the key after the last fetch."""


class VerifiedToken(NamedTuple):
    """The result of a verification.

    Attributes:
        caller: the token's caller.
        until: expiry in seconds since the epoch, leeway included.
    """

    caller: Principal
    until: float


class TokenVerifier:
    """Verifies tokens as the settings say. Pure.

    Args of the constructor:
        material: the `TokenMaterial`.

    Attributes:
        material: the same.
        keys: those of the file; None if they come from a URL.

    Raises:
        ConfigError: the library is missing, or the file has no keys.
    """

    def __init__(self, material: TokenMaterial) -> None:
        try:
            import cryptography  # noqa: F401
            import jwt  # noqa: F401
        except ImportError:
            raise ConfigError(
                ["tokens need PyJWT and cryptography: pip install '.[jwt]'"]
            ) from None
        self.material = material
        self.keys = None if material.is_url else self.parsed(material.keys)

    def parsed(self, text: str) -> TokenKeys:
        """Parse the text of a key set. Raises: ConfigError."""
        return keys_of(text, self.material.source, self.material.algorithms)

    def verified(self, token: bytes, keys: TokenKeys) -> VerifiedToken:
        """Verify one token. Blocking, for up to 1 ms.

        Raises:
            Unauthenticated: invalid, of another issuer or audience, expired or not yet valid.
            Forbidden: a valid token that matches no line of the file.
        """
        import jwt

        try:
            claims = self._claims(token, keys)
            until = int(claims["exp"]) + self.material.leeway_s
        except jwt.ExpiredSignatureError:
            raise Unauthenticated("the token has expired: ask its issuer for a new one") from None
        except jwt.ImmatureSignatureError:
            raise Unauthenticated("the token is not valid yet; compare the clocks") from None
        except jwt.InvalidIssuerError:
            raise Unauthenticated(
                "the token is of another issuer than is known here: send one of the server's issuer"
            ) from None
        except jwt.InvalidAudienceError:
            raise Unauthenticated(
                "the token is for another audience than this server: ask its issuer for one"
            ) from None
        except jwt.MissingRequiredClaimError as error:
            raise Unauthenticated(
                f"the token lacks the claim {error.claim}: ask its issuer for one that has it"
            ) from None
        # Any error that a client's bytes, or an issuer's numbers, can cause.
        except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError):
            raise Unauthenticated(
                "the token is malformed, or its signature is wrong: send it as its issuer gave it"
            ) from None
        return VerifiedToken(self._caller(claims), until)

    def _claims(self, token: bytes, keys: TokenKeys) -> Mapping[str, Any]:
        import jwt

        header = jwt.get_unverified_header(token)
        # Extensions that a verifier must understand (RFC 7515, section 4.1.11): none is known here.
        if "crit" in header:
            raise jwt.InvalidTokenError
        algorithm = str(header.get("alg"))
        if algorithm not in self.material.algorithms:
            allowed = ", ".join(self.material.algorithms)
            raise Unauthenticated(f"tokens must be signed by one of {allowed}")
        key = keys.found.get((str(header.get("kid", "")), algorithm))
        if key is None:
            raise _UnknownKey(
                "the issuer has no key of the token's name and algorithm: ask it for a new token"
            )
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=list(self.material.audiences),
            issuer=self.material.issuer,
            leeway=self.material.leeway_s,
            options={"require": ["exp", "iss", "aud"]},
        )
        return claims

    def _caller(self, claims: Mapping[str, Any]) -> Principal:
        for rule in self.material.claims:
            if fits(rule, claims):
                return rule.caller
        raise Forbidden(
            "no line for tokens names a claim of this one: ask the administrator of this server"
        )


class Tokens:
    """Verifies tokens outside of the event loop. Belongs to one event loop.

    Args of the constructor:
        verifier: names the source of the keys.
        renewed: called when the keys of the issuer have changed.

    Attributes:
        longest: longest credentials with a token, in bytes, that are accepted.
    """

    longest = LONGEST_TOKEN

    def __init__(self, verifier: TokenVerifier, renewed: Callable[[], None]) -> None:
        self._thread = ThreadPoolExecutor(1, "token")
        self._verifying: SingleFlight[tuple[bytes, int], VerifiedToken] = SingleFlight()
        self._asking = 0
        material = verifier.material
        read = partial(fetched, material.source)
        self._issuer = IssuerKeys(read, verifier.parsed, renewed) if material.is_url else None

    def follow(self) -> None:
        """Fetch the issuer's keys from now until `close`."""
        if self._issuer:
            self._issuer.follow()

    async def renew(self) -> None:
        """Fetch the issuer's keys now."""
        if self._issuer:
            await self._issuer.fetch()

    def close(self) -> None:
        """Stop fetching keys."""
        if self._issuer:
            self._issuer.close()
        # The thread is not awaited: no request is left that needs the result.
        self._thread.shutdown(wait=False, cancel_futures=True)

    @staticmethod
    def token(authorization: bytes | None) -> bytes:
        """Return the token in a header `authorization`; empty if it has none.

        A token differs from a key by its form: three parts of base64, the first of them JSON.
        """
        scheme, _, value = (authorization or b"").partition(b" ")
        value = value.strip()
        is_token = value.startswith(_BEGIN) and value.count(b".") == _DOTS
        return value if is_token and scheme.lower() == b"bearer" else b""

    async def verified(self, token: bytes, verifier: TokenVerifier, renewals: int) -> VerifiedToken:
        """Verify one token; concurrent requests with the same token share the verification.

        Args:
            token: result of `token`.
            verifier: verifies the token.
            renewals: number of renewals of lines or keys. A request after a renewal does not share
                a verification from before it: line or key may have been removed.

        Raises:
            Unauthenticated, Forbidden: see `TokenVerifier.verified`.
            QueueFull: too many wait.
            NotAvailable: the issuer's keys could not be fetched yet.
        """
        key, others = (token, renewals), self._verifying.under_way
        if key not in others and len(others) >= MOST_WAITING_TOKENS:
            raise QueueFull(
                f"more than {MOST_WAITING_TOKENS} tokens wait to be verified; ask again"
            )
        return await self._verifying.share(key, partial(self._verified, token, verifier))

    async def _verified(self, token: bytes, verifier: TokenVerifier) -> VerifiedToken:
        try:
            return await self._in_thread(token, verifier)
        except _UnknownKey:
            if self._issuer is None:
                raise
        await self._ask(self._issuer)
        return await self._in_thread(token, verifier)

    async def _ask(self, issuer: IssuerKeys) -> None:
        if self._asking >= MOST_ASKING:
            raise QueueFull(
                f"more than {MOST_ASKING} tokens wait for the keys of their issuer; ask again"
            )
        self._asking += 1
        try:
            await issuer.ask()
        finally:
            self._asking -= 1

    async def _in_thread(self, token: bytes, verifier: TokenVerifier) -> VerifiedToken:
        keys = self._issuer.keys if self._issuer else verifier.keys
        if keys is None:
            raise NotAvailable(
                "the keys of the tokens' issuer have not been fetched yet; ask again"
            )
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, verifier.verified, token, keys)


def fits(rule: Claim, claims: Mapping[str, Any]) -> bool:
    """Return whether a token's claims match the claim of a line."""
    if not rule.name:  # any token
        return True
    found = _value(rule.name, claims)
    if isinstance(found, str):
        return rule.value in (found.split() if rule.name in _WORDS else [found])
    return rule.value in map(_text, found if isinstance(found, list) else [found])


def _value(name: str, claims: Mapping[str, Any]) -> Any:  # noqa: ANN401 (whatever JSON has)
    # The whole name is looked up first: names of claims may be URLs, whose dots are no steps.
    if name in claims:
        return claims[name]
    found: Any = claims
    for step in name.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _text(value: Any) -> str | None:  # noqa: ANN401 (whatever JSON has)
    """Return a claim's value in the form of a line; None if a line has no form for it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int) else None
