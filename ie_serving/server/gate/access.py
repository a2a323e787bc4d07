"""Who asks: credentials become callers.

A password costs some 40 ms and 16 MB of scrypt, so it is verified in a thread, and remembered.
Wrong credentials take as long as right ones that are not remembered: digests are compared as a
whole, and the password of an unknown user is hashed like another's. Keys are found by the first
bytes of their SHA-256, which nobody who lacks the key can choose.
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
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Optional

from ie_serving.config.credentials import AccessMaterial, Password, TokenMaterial
from ie_serving.core.values import hashes
from ie_serving.core.values.access import Caller, Credentials, Right
from ie_serving.core.values.errors import QueueFull, Unauthenticated
from ie_serving.server.gate.renewed import Renewed
from ie_serving.server.process.handover import Left
from ie_serving.telemetry.log.logs import Event

if TYPE_CHECKING:  # imported where tokens are believed
    from ie_serving.server.gate.tokens import Tokens, Verifier

log = logging.getLogger(__name__)

MOST_KNOWN: Final = 4096
"""Credentials, and decisions by them, that are remembered. For one more all are forgotten and those
in use are learnt again. Only those of known callers are remembered: strangers fill nothing."""
LONGEST: Final = 1024
"""Bytes of the longest credentials that are looked at, both headers together; keys have 43,
passwords are short. They are remembered with every decision: 4,096 headers of 64 KB would fill
256 MB for one caller who pads a key that is known."""
MOST_WAITING: Final = 64
"""Passwords that wait to be verified, one at a time: 3 s of waiting. One more is refused, so that
strangers with wrong passwords hold one processor and 16 MB, not all of them."""

FORGET_S: Final = 1.0
"""Seconds between two looks for tokens that have expired; so long may one be believed too long."""
BEARER: Final = 'Bearer realm="ie_serving"'
"""Challenge to send a key."""

_FOUND_BY: Final = 2
"""Bytes of a key's hash by which it is found: so few that the rest is compared in constant time, so
many that ten thousand keys are not."""

_NOBODY: Final = Caller(name="", rights=Right(0))
_NO_DIGEST: Final = bytes(32)
_COST: Final = (2**14, 8, 1)
"""n, r and p of scrypt where the file has no users, as `ie_serving key password` chooses them."""
_MISSING: Final = (
    "credentials are missing: send `Authorization: Bearer KEY` or `x-api-key: KEY`, as a header or"
    " as metadata"
)
_UNKNOWN: Final = "these credentials are not known here"


class Compared(NamedTuple):
    """What credentials are compared with.

    Attributes:
        keys: hashes of keys and who has them, by the first bytes of the hashes.
        nobody: the password of users who are not there: it costs what others' do.
        verifier: of tokens; None where none is believed.
    """

    keys: Mapping[bytes, Sequence[tuple[bytes, Caller]]]
    nobody: Password
    verifier: Optional["Verifier"]


class Access(Renewed[AccessMaterial, Compared]):
    """The callers that are known now. Belongs to one event loop.

    Args of the constructor:
        read, left: see `Renewed`.
        clock: seconds since the epoch, by which tokens expire.

    Attributes:
        decisions: what guards remember of callers; forgotten with every renewal. See `remember`.
    """

    def __init__(
        self,
        read: Callable[[], AccessMaterial],
        left: Left,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(read, left)
        self._clock = clock
        self.decisions: dict[object, Any] = {}
        self._known: dict[Credentials, Caller] = {}
        self._verifying: dict[tuple[bytes, Password], asyncio.Future[bool]] = {}
        self._thread = ThreadPoolExecutor(1, "password")
        # The place of the keys is a setting, so it stays when the file of callers changes.
        verifier = self.prepared.verifier
        self._tokens = _tokens(verifier, self._forget) if verifier else None
        self._until: dict[Credentials, float] = {}
        """When tokens that are remembered expire."""
        self._sweep: asyncio.TimerHandle | None = None
        self._renewals = 0

    @property
    def challenge(self) -> str:
        """Say what credentials are taken, as `WWW-Authenticate` does."""
        return f'{BEARER}, Basic realm="ie_serving"' if self.material.users else BEARER

    def caller(self, credentials: Credentials) -> Caller | None:
        """Give who asks; None for passwords and tokens, which only `verified` looks at.

        Raises:
            Unauthenticated: nobody knows.
        """
        known = self._known.get(credentials)
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
            # Another scheme is a wrong key: whoever gives credentials means them, and neither the
            # other header nor the certificate is a way out.
            key = value.strip() if scheme.lower() == b"bearer" else b""
        found = self._of_certificate(names) if key is None else self._of_key(key)
        remember(self._known, credentials, found)
        return found

    async def verified(self, credentials: Credentials) -> Caller:
        """Give who asks, also by a password or a token.

        Raises:
            Unauthenticated: nobody knows.
            Forbidden: a token is right, and no line of the file is for it.
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
        expected = material.users.get(user, self.prepared.nobody)
        is_right = await self._is_right(expected, password, header)
        # The file may have changed meanwhile, and the user may be gone.
        if material is not self.material:
            return await self.verified(credentials)
        if not is_right or expected.caller is _NOBODY:
            raise Unauthenticated(_UNKNOWN)
        remember(self._known, credentials, expected.caller)
        return expected.caller

    def prepare(self, material: AccessMaterial) -> Compared:
        """See `Renewed`."""
        keys: dict[bytes, list[tuple[bytes, Caller]]] = {}
        for digest, caller in material.keys.items():
            keys.setdefault(digest[:_FOUND_BY], []).append((digest, caller))
        costs = ((each.n, each.r, each.p) for each in material.users.values())
        n, r, p = max(costs, key=math.prod, default=_COST)
        nobody = Password(caller=_NOBODY, salt=bytes(16), n=n, r=r, p=p, digest=_NO_DIGEST)
        return Compared(keys, nobody, _verifier(material.tokens) if material.tokens else None)

    def renewed(self) -> None:
        """See `Renewed`: whoever has left the file is asked again at the next request."""
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
        """See `Renewed`."""
        log.error(Event("callers not renewed, the previous ones stay", cause=cause))

    def follow(self) -> None:
        """See `Renewed`. The keys of tokens are followed as well."""
        super().follow()
        if self._tokens:
            self._tokens.follow()

    async def renew(self) -> None:
        """See `Renewed`. The keys of tokens are fetched as well."""
        await super().renew()
        if self._tokens:
            await self._tokens.renew()

    def close(self) -> None:
        """See `Renewed`."""
        super().close()
        if self._tokens:
            self._tokens.close()
        if self._sweep:
            self._sweep.cancel()
        # Unwaited for: nobody is left to be told what a hash of 40 ms will say.
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _of_token(self, credentials: Credentials, token: bytes, tokens: "Tokens") -> Caller:
        renewals, verifier = self._renewals, self.prepared.verifier
        assert verifier  # the setting that asks for one stays while the process runs
        caller, until = await tokens.verified(token, verifier, renewals)
        # Its key, or its line, may be gone meanwhile.
        if renewals != self._renewals:
            return await self.verified(credentials)
        if len(self._until) >= MOST_KNOWN:
            self._forget()
        self._until[credentials] = until
        remember(self._known, credentials, caller)
        self._sweep = self._sweep or self._sweep_later()
        return caller

    def _forget(self) -> None:
        """Forget all callers, and what was decided by them."""
        self._renewals += 1
        self._until.clear()
        self._known.clear()
        self.decisions.clear()

    def _sweep_later(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(FORGET_S, self._forget_expired)

    def _forget_expired(self) -> None:
        now = self._clock()
        expired = [each for each, until in self._until.items() if until <= now]
        for each in expired:
            del self._until[each]
            self._known.pop(each, None)
        if expired:
            # All of them: which ones are of these tokens takes as long to find as to learn anew.
            self.decisions.clear()
        self._sweep = self._sweep_later() if self._until else None

    def _of_key(self, key: bytes) -> Caller:
        digest = hashes.of_key(key)
        found = _NOBODY
        # With all of them, and with one where there is none, so that each refusal takes as long.
        for known, caller in self.prepared.keys.get(digest[:_FOUND_BY], ((_NO_DIGEST, _NOBODY),)):
            found = caller if hmac.compare_digest(known, digest) else found
        if found is _NOBODY:
            raise Unauthenticated(_UNKNOWN)
        return found

    def _of_certificate(self, names: tuple[str, ...]) -> Caller:
        known = self.material.certificates
        for name in names:
            if name in known:
                return known[name]
        raise Unauthenticated(_MISSING if not names else f"{_UNKNOWN}; {_MISSING}")

    async def _is_right(self, expected: Password, password: bytes, header: bytes) -> bool:
        """Compare in the thread; many requests with the same header wait for one comparison."""
        key = (header, expected)
        asked = self._verifying.get(key)
        if asked is None:
            if len(self._verifying) >= MOST_WAITING:
                raise QueueFull(
                    f"more than {MOST_WAITING} passwords wait to be verified; ask again"
                )
            loop = asyncio.get_running_loop()
            asked = loop.run_in_executor(self._thread, _matches, expected, password)
            self._verifying[key] = asked
            asked.add_done_callback(lambda _: self._verifying.pop(key, None))
        # Shielded: others may wait for the same, and who leaves must not cancel it.
        return await asyncio.shield(asked)


def _tokens(verifier: "Verifier", renewed: Callable[[], None]) -> "Tokens":
    from ie_serving.server.gate.tokens import Tokens

    return Tokens(verifier, renewed)


def _verifier(material: TokenMaterial) -> "Verifier":
    from ie_serving.server.gate.tokens import Verifier

    return Verifier(material)


def remember(known: dict[Any, Any], key: object, value: object) -> None:
    """Remember what is asked often, in bounded memory."""
    if len(known) >= MOST_KNOWN:
        known.clear()
    known[key] = value


def _matches(expected: Password, password: bytes) -> bool:
    cost = (expected.n, expected.r, expected.p)
    digest = hashes.of_password(password, expected.salt, *cost)
    return hmac.compare_digest(digest, expected.digest)


def _user(header: bytes) -> tuple[str, bytes]:
    """Read the user and the password of `Basic`; RFC 7617. Raises: Unauthenticated."""
    try:
        given = base64.b64decode(header.partition(b" ")[2].strip(), validate=True)
        user, _, password = given.partition(b":")
        return user.decode(), password
    except (binascii.Error, ValueError):
        raise Unauthenticated(
            "Basic credentials cannot be read; send base64 of user:password"
        ) from None
