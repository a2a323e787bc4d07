"""Fetches an issuer's key set (JWKS), and parses it into the keys that verify tokens.

A key is looked up by name and algorithm, so a token cannot choose an algorithm that its key is not
for: `none` and those with a shared secret (HS256) have no key here. Sources: RFC 7517, 7518, 8037,
8725.

`IssuerKeys` fetches the key set from its URL periodically and outside of requests. The last valid
key set stays in use until a newer valid one has been fetched, so a temporary outage of the issuer
fails no request.
"""

import asyncio
import base64
import binascii
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, Final, NamedTuple

from ie_serving.core.runtime.waits import SingleFlight
from ie_serving.core.values.errors import ConfigError, ServingError, Unreachable
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

MOST_BYTES: Final = 512 * 1024
"""Largest key set. The largest of public issuers, with certificates beside each key, has 20 KB."""
MOST_KEYS: Final = 100
"""Most keys of a key set; issuers have two to ten."""
RSA_BITS: Final = range(2048, 8193)
"""RFC 7518 demands at least 2048. 8,192 take 0.5 ms to verify with; more would take seconds."""

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_KINDS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("RSA", ""): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""Algorithms by type and curve of a key."""
_PARTS: Final = ("kty", "n", "e", "crv", "x", "y")
"""Members of a public key. Others in a set, such as a private part, are ignored."""

REFRESH_S: Final = 300.0
"""Seconds between two fetches: a key that the issuer has withdrawn is accepted that much longer."""
RETRY_S: Final = 10.0
"""Seconds before the next fetch after a failed one."""
ASKED_S: Final = 30.0
"""Least seconds between fetches for tokens of unknown keys, whose names any client can choose."""
WAIT_S: Final = 5.0
"""Time-out in seconds of each step of a fetch: the connection, and every part of the reply."""
WHOLE_S: Final = 15.0
"""Time-out in seconds for the whole body of a reply; a slower reply fails the fetch."""
WAITED_S: Final = 20.0
"""Seconds that a request waits for a fetch, which a slowly sent response head can prolong."""
_PART: Final = 16 * 1024
"""Bytes of a body that are read between two checks of `WHOLE_S` and `MOST_BYTES`."""


class TokenKeys(NamedTuple):
    """The keys of one set that may sign tokens.

    Attributes:
        found: keys by the name (`kid`) of a key and an algorithm; a key has an entry for each
            algorithm.
        number: number of these keys.
        left_out: number of keys for other uses, too short, or of an unknown type.
    """

    found: Mapping[tuple[str, str], Any]
    number: int
    left_out: int


def keys_of(text: str, source: str, algorithms: tuple[str, ...]) -> TokenKeys:
    """Parse a key set.

    Args:
        text: JSON, as an issuer publishes it.
        source: source of the text, for errors.
        algorithms: those that are allowed.

    Raises:
        ConfigError: the text is no key set, or has no key for these algorithms.
    """
    given = list(_entries(text, source))
    found: dict[tuple[str, str], Any] = {}
    count = 0
    for entry in given:
        wanted = [each for each in _algorithms(entry) if each in algorithms]
        key = _key(entry) if wanted else None
        if key is None:
            continue
        count += 1
        names = [str(entry.get("kid", ""))]
        # A set of one key need not name the key, and neither do its tokens.
        names += [""] if len(given) == 1 else []
        found.update({(name, each): key for name in names for each in wanted})
    if not found:
        expected = ", ".join(algorithms)
        raise ConfigError(
            [f"{source}: has no key that tokens may be signed with; expected one for {expected}"]
        )
    return TokenKeys(found, count, len(given) - count)


def _entries(text: str, source: str) -> Iterator[Mapping[str, Any]]:
    if len(text) > MOST_BYTES:
        raise ConfigError([f"{source}: {len(text)} bytes; expected at most {MOST_BYTES}"])
    try:
        given = json.loads(text)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        given = None
    if not isinstance(given, list) or len(given) > MOST_KEYS:
        raise ConfigError(
            [
                f'{source}: is no JSON Web Key Set: expected {{"keys": [...]}}, of'
                f" {MOST_KEYS} at most"
            ]
        )
    return (entry for entry in given if isinstance(entry, dict))


def _algorithms(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the algorithms that a key is for; none if it does not verify signatures."""
    verifies = "verify" in entry.get("key_ops", ("verify",))
    if entry.get("use", "sig") != "sig" or not verifies:
        return ()
    kind = (str(entry.get("kty")), str(entry.get("crv", "")))
    return tuple(each for each in _KINDS.get(kind, ()) if entry.get("alg", each) == each)


def _key(entry: Mapping[str, Any]) -> Any:  # noqa: ANN401 (of `cryptography`, whatever its type)
    """Make a public key; None if it is malformed or its length is not accepted."""
    from jwt import algorithms
    from jwt.exceptions import InvalidKeyError

    public = {name: entry[name] for name in _PARTS if name in entry}
    readers: Mapping[str, Any] = {
        "RSA": algorithms.RSAAlgorithm,
        "EC": algorithms.ECAlgorithm,
        "OKP": algorithms.OKPAlgorithm,
    }
    try:
        if public["kty"] == "RSA" and _bits(public["n"]) not in RSA_BITS:
            return None
        return readers[public["kty"]].from_jwk(public)
    except (InvalidKeyError, ValueError, KeyError, TypeError):
        return None


def _bits(modulus: str) -> int:
    try:
        number = base64.urlsafe_b64decode(modulus + "==")
    except binascii.Error:
        return 0
    return int.from_bytes(number, "big").bit_length()


class IssuerKeys:
    """The present keys of an issuer. Belongs to one event loop.

    Args of the constructor:
        read: returns the text at the URL. Blocking; see `fetched`. Raises: ServingError.
        parse: parses the keys. Raises: ConfigError.
        renewed: called when the keys have changed.
        now: monotonic clock in seconds.

    Attributes:
        keys: the last valid key set that was fetched; None before the first.
    """

    def __init__(
        self,
        read: Callable[[], str],
        parse: Callable[[str], TokenKeys],
        renewed: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._parse = parse
        self._renewed = renewed
        self._now = now
        self._text = ""
        self._cause = ""
        self._began = float("-inf")
        self._fetching: SingleFlight[str, None] = SingleFlight()
        self._following: asyncio.Task[None] | None = None
        self.keys: TokenKeys | None = None

    def follow(self) -> None:
        """Fetch the keys now, and periodically until `close`."""
        self._following = asyncio.ensure_future(self._follow())

    def close(self) -> None:
        """Stop fetching."""
        if self._following:
            self._following.cancel()
        self._fetching.close()

    async def ask(self) -> None:
        """Fetch the keys for a token of an unknown key; return when done, or after `WAITED_S`.

        Concurrent callers share one fetch. No other starts within `ASKED_S` of its start.
        """
        if not self._fetching.under_way and self._now() - self._began < ASKED_S:
            return
        await self.fetch()

    async def fetch(self) -> None:
        """Fetch the keys now; return when done, or after `WAITED_S`."""
        # Not `wait_for`: other requests may await this fetch, and one's time-out must not end it.
        fetch = self._fetching.begin("", self._fetch_once)
        done, _ = await asyncio.wait((fetch,), timeout=WAITED_S)
        if done:
            fetch.result()

    async def _fetch_once(self) -> None:
        self._began = self._now()
        try:
            text = await asyncio.to_thread(self._read)
            keys = self._parse(text)
        except ServingError as error:
            # Logged once for each cause: an unreachable issuer is tried every ten seconds.
            if (cause := str(error)) != self._cause:
                log.error(Event("token keys not fetched, the previous ones stay", cause=cause))
            self._cause = cause
            return
        self._cause = ""
        if text != self._text:
            self._text, self.keys = text, keys
            log.info(Event("token keys fetched", keys=keys.number, left_out=keys.left_out))
            self._renewed()

    async def _follow(self) -> None:
        while True:
            try:
                await self.fetch()
            except Exception:  # for example no thread could be started; the next try may succeed
                log.exception(Event("token keys not looked at"))
            await asyncio.sleep(RETRY_S if self._cause or self.keys is None else REFRESH_S)


def fetched(url: str) -> str:
    """Fetch the text at a URL. Blocking, in bounded time and memory.

    Refuses redirections: a server at another address could otherwise supply keys and sign tokens.

    Raises:
        Unreachable: the fetch failed.
        ConfigError: the reply is too long, or no text.
    """
    import http.client
    import urllib.error
    import urllib.request

    class NoRedirects(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    asked = urllib.request.Request(url, headers={"accept": "application/json"})
    try:
        with urllib.request.build_opener(NoRedirects).open(asked, timeout=WAIT_S) as reply:
            return _body(reply, url).decode()
    except UnicodeDecodeError:
        raise ConfigError([f"{url}: no text in UTF-8; expected a key set in JSON"]) from None
    except urllib.error.HTTPError as error:
        raise Unreachable(f"{url}: answered {error.code}; expected 200") from None
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{url}: {getattr(error, 'reason', None) or error!r}") from None


def _body(reply: IO[Any], url: str) -> bytes:
    end, body = time.monotonic() + WHOLE_S, bytearray()
    # Parts, with a check of the time: single bytes would hold the thread for ever.
    while part := reply.read1(_PART):  # type: ignore[attr-defined]
        body += part
        if len(body) > MOST_BYTES:
            raise ConfigError([f"{url}: over {MOST_BYTES} bytes; expected a key set of fewer"])
        if time.monotonic() > end:
            raise Unreachable(f"{url}: too slow; expected the whole key set within {WHOLE_S:g} s")
    return bytes(body)
