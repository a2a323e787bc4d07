"""The key set of a token issuer, fetched from its URL periodically and outside of requests.

The last valid key set stays in use until a newer valid one has been fetched, so a temporary outage
of the issuer fails no request.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import IO, Any, Final

from ie_serving.core.values.errors import ConfigError, ServingError, Unreachable
from ie_serving.server.gate.token_keys import MOST_BYTES, TokenKeys
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

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
        self._fetching: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self.keys: TokenKeys | None = None

    def follow(self) -> None:
        """Fetch the keys now, and periodically until `close`."""
        self._following = asyncio.ensure_future(self._follow())

    def close(self) -> None:
        """Stop fetching."""
        for task in (self._following, self._fetching):
            if task:
                task.cancel()

    async def ask(self) -> None:
        """Fetch the keys for a token of an unknown key; return when done, or after `WAITED_S`.

        Concurrent callers share one fetch. No other starts within `ASKED_S` of its start.
        """
        if self._fetching is None and self._now() - self._began < ASKED_S:
            return
        await self.fetch()

    async def fetch(self) -> None:
        """Fetch the keys now; return when done, or after `WAITED_S`."""
        if self._fetching is None:
            self._began = self._now()
            self._fetching = asyncio.ensure_future(self._fetch_once())
            self._fetching.add_done_callback(self._done)
        # Not `wait_for`: other requests may await this fetch, and one's time-out must not end it.
        done, _ = await asyncio.wait((self._fetching,), timeout=WAITED_S)
        for fetch in done:
            fetch.result()

    def _done(self, _: object) -> None:
        self._fetching = None

    async def _fetch_once(self) -> None:
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

    class Staying(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    asked = urllib.request.Request(url, headers={"accept": "application/json"})
    try:
        with urllib.request.build_opener(Staying).open(asked, timeout=WAIT_S) as reply:
            return _body(reply, url).decode()
    except UnicodeDecodeError:
        raise ConfigError([f"{url}: is no text in UTF-8"]) from None
    except urllib.error.HTTPError as error:
        raise Unreachable(f"{url}: answered {error.code}; expected 200") from None
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{url}: {getattr(error, 'reason', None) or error!r}") from None


def _body(reply: IO[Any], url: str) -> bytes:
    end, body = time.monotonic() + WHOLE_S, bytearray()
    # In parts, checking the time: a server that sends single bytes would block the thread for ever.
    while part := reply.read1(_PART):  # type: ignore[attr-defined]
        body += part
        if len(body) > MOST_BYTES:
            raise ConfigError([f"{url}: more than {MOST_BYTES} bytes"])
        if time.monotonic() > end:
            raise Unreachable(f"{url}: not read to its end within {WHOLE_S:g} s")
    return bytes(body)
