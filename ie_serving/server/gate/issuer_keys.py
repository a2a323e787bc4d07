"""The keys of an issuer, fetched from its URL beside the requests, again and again.

What was fetched last and can be used stays until the next that can: an issuer that is away for a
while costs nobody an answer.
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
"""Seconds between two fetches; so long is a key that its issuer has withdrawn still believed."""
RETRY_S: Final = 10.0
"""The same after one that failed."""
ASKED_S: Final = 30.0
"""Seconds between two fetches that tokens of unknown keys ask for: strangers choose these names."""
WAIT_S: Final = 5.0
"""Seconds for each wait of a fetch: for the connection, and for every part of the reply."""
WHOLE_S: Final = 15.0
"""Seconds for the body of a reply, however its parts come."""
WAITED_S: Final = 20.0
"""Seconds that a request waits for a fetch, which a head that trickles in can keep for longer."""
_PART: Final = 16 * 1024


class IssuerKeys:
    """The keys that an issuer has now. Belongs to one event loop.

    Args of the constructor:
        read: gives the text that the URL has. Blocking; see `fetched`. Raises: ServingError.
        parse: makes keys of it. Raises: ConfigError.
        renewed: told when the keys have changed.
        now: seconds, only growing.

    Attributes:
        keys: those that were fetched last and can be used; None before.
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
        """Fetch them now, and again and again until `close`."""
        self._following = asyncio.ensure_future(self._follow())

    def close(self) -> None:
        """Fetch no more."""
        for task in (self._following, self._fetching):
            if task:
                task.cancel()

    async def ask(self) -> None:
        """Fetch them for a token of an unknown key; return when that is done, or after `WAITED_S`.

        All who ask share one fetch. Within `ASKED_S` after one began there is no other.
        """
        if self._fetching is None and self._now() - self._began < ASKED_S:
            return
        await self.fetch()

    async def fetch(self) -> None:
        """Fetch them now; return when that is done, or after `WAITED_S`."""
        if self._fetching is None:
            self._began = self._now()
            self._fetching = asyncio.ensure_future(self._fetch_once())
            self._fetching.add_done_callback(self._done)
        # Not `wait_for`: others may wait for the same, and who leaves must not cancel it.
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
            # Once for each cause: an issuer that is away is asked every ten seconds.
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
            except Exception:  # such as for want of a thread, of which there may be one next time
                log.exception(Event("token keys not looked at"))
            await asyncio.sleep(RETRY_S if self._cause or self.keys is None else REFRESH_S)


def fetched(url: str) -> str:
    """Fetch the text at a URL. Blocking, in bounded time and memory.

    A redirection is refused: whoever could answer at the other place would sign tokens.

    Raises:
        Unreachable: it was not to be had.
        ConfigError: it is too long, or no text.
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
    # In parts: a server that sends a byte now and then would hold the thread for ever.
    while part := reply.read1(_PART):  # type: ignore[attr-defined]
        body += part
        if len(body) > MOST_BYTES:
            raise ConfigError([f"{url}: more than {MOST_BYTES} bytes"])
        if time.monotonic() > end:
            raise Unreachable(f"{url}: not read to its end within {WHOLE_S:g} s")
    return bytes(body)
