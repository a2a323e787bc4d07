"""Authentication: turns credentials into callers.

Verifying a password takes scrypt some 40 ms and 16 MB, so a thread does it, and the result is
cached. Wrong credentials take as long as right ones that are not cached: digests are compared as a
whole, and for an unknown user a dummy password is hashed. Keys are looked up by the first bytes of
their SHA-256, which a client without the key cannot choose.
"""

import asyncio
import base64
import binascii
import hmac
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Optional

from ie_serving.config.credentials import AccessMaterial, Password, TokenMaterial
from ie_serving.core.runtime.handover import HandoverStore
from ie_serving.core.runtime.waits import SingleFlight
from ie_serving.core.values import access
from ie_serving.core.values.access import Credentials, Principal, Right
from ie_serving.core.values.errors import QueueFull, Unauthenticated
from ie_serving.server.gate.current_material import CurrentMaterial
from ie_serving.telemetry.log.logs import Event

if TYPE_CHECKING:  # imported only if tokens are accepted
    from ie_serving.server.gate.tokens import Tokens, TokenVerifier

log = logging.getLogger(__name__)

MOST_KNOWN: Final = 4096
"""Most credentials, and decisions about them, in each cache. One more empties the cache, which then
learns those in use again. Only known callers are cached, so unknown clients fill no memory."""
LONGEST: Final = 1024
"""Most bytes of both credential headers together; longer ones are refused. Keys have 43, passwords
are short. Each cached decision has them in its key: 4,096 headers of 64 KB would let one caller who
pads a known key fill 256 MB."""
MOST_WAITING_PASSWORDS: Final = 64
"""Passwords that wait to be verified one at a time: 3 s of waiting. More are refused, so that
clients with wrong passwords occupy one processor and 16 MB, not the whole machine."""

FORGET_S: Final = 1.0
"""Seconds between two removals of expired tokens: a token may be accepted that much too long."""
BEARER: Final = 'Bearer realm="ie_serving"'
"""Challenge that asks for a key."""

_FOUND_BY: Final = 2
"""Bytes of a key's hash that index it: few enough that constant-time comparison covers the rest,
enough that ten thousand keys are not all compared."""

_UNKNOWN_PRINCIPAL: Final = Principal(name="", rights=Right(0))
_NO_DIGEST: Final = bytes(32)
_COST: Final = (2**14, 8, 1)
"""n, r and p of scrypt if the file has no users, as `ie_serving key password` chooses them."""
_MISSING: Final = (
    "credentials are missing: send `Authorization: Bearer KEY` or `x-api-key: KEY`, as a header or"
    " as metadata"
)
_MISSING_USER: Final = "credentials are missing: send user and password (`Authorization: Basic`)"
_UNKNOWN: Final = "these credentials are not known here: send others, or have them added"


class KnownCredentials(NamedTuple):
    """The data that credentials are compared with.

    Attributes:
        keys: hashes of keys with their callers, by the first bytes of the hashes.
        dummy: password for unknown users, which takes as long to verify as a real one.
        verifier: verifier of tokens; None if tokens are not accepted.
    """

    keys: Mapping[bytes, Sequence[tuple[bytes, Principal]]]
    dummy: Password
    verifier: Optional["TokenVerifier"]


class Access(CurrentMaterial[AccessMaterial, KnownCredentials]):
    """The callers that are known at present. Belongs to one event loop.

    Args of the constructor:
        read, left: see `CurrentMaterial`.
        clock: seconds since the epoch, for the expiry of tokens.

    Attributes:
        decisions: cache of the guards' decisions; emptied at every renewal. See `remember`.
        known: cached callers by their credentials.
        expiries: expiry of each cached token.
        sweep: timer of the next removal of expired tokens; None without tokens.
    """

    def __init__(
        self,
        read: Callable[[], AccessMaterial],
        left: HandoverStore,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(read, left)
        self._clock = clock
        self.decisions: dict[object, Any] = {}
        self.known: dict[Credentials, Principal] = {}
        self._verifying: SingleFlight[tuple[bytes, Password], bool] = SingleFlight()
        self._thread = ThreadPoolExecutor(1, "password")
        # A setting names the source of the keys, so a changed file of callers does not replace it.
        verifier = self.prepared.verifier
        self._tokens = _tokens(verifier, self._forget) if verifier else None
        self.expiries: dict[Credentials, float] = {}
        self.sweep: asyncio.TimerHandle | None = None
        self._renewals = 0

    @property
    def challenge(self) -> str:
        """Return the accepted kinds of credentials, as `WWW-Authenticate` lists them."""
        return f'{BEARER}, Basic realm="ie_serving"' if self.material.users else BEARER

    def caller(self, credentials: Credentials) -> Principal | None:
        """Return the caller; None for passwords and tokens, which only `verified` checks.

        Raises:
            Unauthenticated: the credentials are not known.
        """
        known = self.known.get(credentials)
        if known is not None:
            return known
        given, key, names = credentials
        tokens = self._tokens if self._tokens and self._tokens.token(given) else None
        if len(given or b"") + len(key or b"") > (tokens.longest if tokens else LONGEST):
            raise Unauthenticated(_UNKNOWN)
        if tokens:
            return None
        if given is not None:
            scheme, _, value = given.partition(b" ")
            if scheme.lower() == b"basic" and self.material.users:
                return None
            # Another scheme counts as a wrong key: a client that sends credentials is judged by
            # them, and not by the other header or the certificate.
            key = value.strip() if scheme.lower() == b"bearer" else b""
        found = self._of_certificate(names) if key is None else self._of_key(key)
        remember(self.known, credentials, found)
        return found

    async def verified(self, credentials: Credentials) -> Principal:
        """Return the caller, also by a password or a token.

        Raises:
            Unauthenticated: the credentials are not known.
            Forbidden: a valid token that matches no line of the file.
            QueueFull: too many passwords or tokens wait to be verified.
            NotAvailable: the keys of tokens could not be fetched yet.
        """
        found = self.caller(credentials)
        if found is not None:
            return found
        if self._tokens and (token := self._tokens.token(credentials.authorization)):
            return await self._of_token(credentials, token, self._tokens)
        material, header = self.material, credentials.authorization or b""
        user, password = _user(header)
        expected = material.users.get(user, self.prepared.dummy)
        is_right = await self._is_right(expected, password, header)
        # The file may have changed during verification, and the user may have been removed.
        if material is not self.material:
            return await self.verified(credentials)
        if not is_right or expected.caller is _UNKNOWN_PRINCIPAL:
            raise Unauthenticated(_UNKNOWN)
        remember(self.known, credentials, expected.caller)
        return expected.caller

    def prepare(self, material: AccessMaterial) -> KnownCredentials:
        """See `CurrentMaterial`."""
        keys: dict[bytes, list[tuple[bytes, Principal]]] = {}
        for digest, caller in material.keys.items():
            keys.setdefault(digest[:_FOUND_BY], []).append((digest, caller))
        costs = ((each.n, each.r, each.p) for each in material.users.values())
        n, r, p = max(costs, key=math.prod, default=_COST)
        dummy = Password(
            caller=_UNKNOWN_PRINCIPAL, salt=bytes(16), n=n, r=r, p=p, digest=_NO_DIGEST
        )
        return KnownCredentials(
            keys, dummy, _verifier(material.tokens) if material.tokens else None
        )

    def renewed(self) -> None:
        """See `CurrentMaterial`. A caller that has left the file is refused at its next request."""
        self._forget()
        found = self.material
        log.info(
            Event(
                "callers renewed",
                keys=len(found.keys),
                users=len(found.users),
                certificates=len(found.certificates),
                claims=len(found.tokens.claims) if found.tokens else 0,
            )
        )

    def refused(self, cause: str) -> None:
        """See `CurrentMaterial`."""
        log.error(Event("callers not renewed, the previous ones stay", cause=cause))

    def follow(self) -> None:
        """Follow the file as `CurrentMaterial` does, and the keys of tokens."""
        super().follow()
        if self._tokens:
            self._tokens.follow()

    async def renew(self) -> None:
        """Renew the callers as `CurrentMaterial` does, and fetch the keys of tokens."""
        await super().renew()
        if self._tokens:
            await self._tokens.renew()

    def close(self) -> None:
        """See `CurrentMaterial`."""
        super().close()
        if self._tokens:
            self._tokens.close()
        if self.sweep:
            self.sweep.cancel()
        # The thread is not awaited: no request is left that needs the result of a hash of 40 ms.
        self._thread.shutdown(wait=False, cancel_futures=True)

    def forget_expired(self) -> None:
        """Forget tokens that have expired, and the decisions about all; called by a timer."""
        now = self._clock()
        expired = [each for each, until in self.expiries.items() if until <= now]
        for each in expired:
            del self.expiries[each]
            self.known.pop(each, None)
        if expired:
            # All of them: to find those of these tokens takes as long as to learn all anew.
            self.decisions.clear()
        self.sweep = self._sweep_later() if self.expiries else None

    async def _of_token(
        self, credentials: Credentials, token: bytes, tokens: "Tokens"
    ) -> Principal:
        renewals, verifier = self._renewals, self.prepared.verifier
        assert verifier  # the setting that asks for one does not change while the process runs
        caller, until = await tokens.verified(token, verifier, renewals)
        # The token's key, or the caller's line, may have been removed during verification.
        if renewals != self._renewals:
            return await self.verified(credentials)
        if len(self.expiries) >= MOST_KNOWN:
            self._forget()
        self.expiries[credentials] = until
        remember(self.known, credentials, caller)
        self.sweep = self.sweep or self._sweep_later()
        return caller

    def _forget(self) -> None:
        """Forget all callers, and all decisions about them."""
        self._renewals += 1
        self.expiries.clear()
        self.known.clear()
        self.decisions.clear()

    def _sweep_later(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(FORGET_S, self.forget_expired)

    def _of_key(self, key: bytes) -> Principal:
        digest = access.of_key(key)
        found = _UNKNOWN_PRINCIPAL
        # Compares all candidates, or a dummy if there are none, so that each refusal takes as long.
        for known, caller in self.prepared.keys.get(
            digest[:_FOUND_BY], ((_NO_DIGEST, _UNKNOWN_PRINCIPAL),)
        ):
            found = caller if hmac.compare_digest(known, digest) else found
        if found is _UNKNOWN_PRINCIPAL:
            raise Unauthenticated(_UNKNOWN)
        return found

    def _of_certificate(self, names: tuple[str, ...]) -> Principal:
        known = self.material.certificates
        for name in names:
            if name in known:
                return known[name]
        missing = _MISSING if self.material.keys or not self.material.users else _MISSING_USER
        raise Unauthenticated(missing if not names else f"{_UNKNOWN}; {missing}")

    async def _is_right(self, expected: Password, password: bytes, header: bytes) -> bool:
        """Compare in the thread; requests with the same header share one comparison."""
        key, others = (header, expected), self._verifying.under_way
        if key not in others and len(others) >= MOST_WAITING_PASSWORDS:
            raise QueueFull(
                f"more than {MOST_WAITING_PASSWORDS} passwords wait to be verified; ask again"
            )
        run = asyncio.get_running_loop().run_in_executor
        work = partial(run, self._thread, _matches, expected, password)
        return await self._verifying.share(key, work)


def _tokens(verifier: "TokenVerifier", renewed: Callable[[], None]) -> "Tokens":
    from ie_serving.server.gate.tokens import Tokens

    return Tokens(verifier, renewed)


def _verifier(material: TokenMaterial) -> "TokenVerifier":
    from ie_serving.server.gate.tokens import TokenVerifier

    return TokenVerifier(material)


def remember(known: dict[Any, Any], key: object, value: object) -> None:
    """Cache a frequent result in bounded memory."""
    if len(known) >= MOST_KNOWN:
        known.clear()
    known[key] = value


def _matches(expected: Password, password: bytes) -> bool:
    cost = (expected.n, expected.r, expected.p)
    digest = access.of_password(password, expected.salt, *cost)
    return hmac.compare_digest(digest, expected.digest)


def _user(header: bytes) -> tuple[str, bytes]:
    """Parse the user and the password of `Basic`; RFC 7617. Raises: Unauthenticated."""
    try:
        given = base64.b64decode(header.partition(b" ")[2].strip(), validate=True)
        user, _, password = given.partition(b":")
        return user.decode(), password
    except (binascii.Error, ValueError):
        raise Unauthenticated(
            "Basic credentials cannot be read; send base64 of user:password"
        ) from None
