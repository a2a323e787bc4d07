"""The keys of an issuer are fetched beside the requests, within bounds."""

import asyncio
import http.server
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ie_serving.core.values.errors import ConfigError, ServingError, Unreachable
from ie_serving.server.gate import token_keys
from ie_serving.server.gate.token_keys import (
    ASKED_S,
    MOST_BYTES,
    IssuerKeys,
    TokenKeys,
    fetched,
    keys_of,
)
from tests.issuer import ec_key, jwk, key_set
from tests.process import PATIENCE_S
from tests.tables import named_by
from tests.unit.server.gate.callers import until

FIRST, SECOND = (key_set(jwk(ec_key(number), kid=str(number))) for number in range(2))


class Issuer:
    """What a URL has; an error is raised."""

    def __init__(self) -> None:
        self.text: str | ServingError = FIRST
        self.now = 0.0
        self.asked = 0
        self.renewals = 0
        self.keys = IssuerKeys(self.read, parsed, self.renewed, lambda: self.now)

    def read(self) -> str:
        self.asked += 1
        if isinstance(self.text, ServingError):
            raise self.text
        return self.text

    def renewed(self) -> None:
        self.renewals += 1

    @property
    def names(self) -> set[str]:
        assert self.keys.keys
        return {name for name, _ in self.keys.keys.found if name}


def parsed(text: str) -> TokenKeys:
    return keys_of(text, "place", ("ES256",))


async def test_a_rotated_key_is_fetched_when_a_token_asks_for_it() -> None:
    issuer = Issuer()
    await issuer.keys.ask()
    assert issuer.names == {"0"}
    issuer.text = SECOND
    issuer.now = ASKED_S - 0.1
    await issuer.keys.ask()
    assert (issuer.names, issuer.asked) == ({"0"}, 1)  # strangers choose when
    issuer.now = ASKED_S
    await asyncio.gather(*(issuer.keys.ask() for _ in range(100)))
    assert (issuer.names, issuer.asked, issuer.renewals) == ({"1"}, 2, 2)


async def test_the_same_keys_are_no_renewal(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    issuer = Issuer()
    for _ in range(2):
        issuer.now += ASKED_S
        await issuer.keys.ask()
    assert (issuer.asked, issuer.renewals) == (2, 1)
    assert caplog.messages == ["token keys fetched keys=1 left_out=0"]


@pytest.mark.parametrize("trouble", [Unreachable("away"), "{}"])
async def test_the_last_good_keys_stay(
    caplog: pytest.LogCaptureFixture, trouble: str | ServingError
) -> None:
    caplog.set_level(logging.WARNING, "ie_serving")
    issuer = Issuer()
    await issuer.keys.ask()
    issuer.text = trouble
    for _ in range(3):
        issuer.now += ASKED_S
        await issuer.keys.ask()
    assert (issuer.names, issuer.asked) == ({"0"}, 4)
    (said,) = caplog.messages
    assert said.startswith("token keys not fetched, the previous ones stay cause=")


async def test_they_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also past a defect, and sooner while there are none."""
    for name in ("REFRESH_S", "RETRY_S"):
        monkeypatch.setattr(token_keys, name, 0.0)
    issuer = Issuer()
    issuer.text = Unreachable("away")
    issuer.keys.follow()
    await until(lambda: issuer.asked > 2)
    assert issuer.keys.keys is None
    issuer.text = FIRST
    await until(lambda: issuer.keys.keys is not None)
    issuer.text = SECOND
    await until(lambda: issuer.names == {"1"})
    issuer.keys.close()


class Hanging(Issuer):
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.go = threading.Event()
        super().__init__()

    def read(self) -> str:
        assert self.go.wait(PATIENCE_S)
        return super().read()


async def test_a_fetch_that_hangs_is_waited_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keys are taken when they come all the same."""
    monkeypatch.setattr(token_keys, "WAITED_S", 0.01)
    issuer = Hanging()
    await asyncio.wait_for(issuer.keys.ask(), PATIENCE_S)
    assert issuer.keys.keys is None
    issuer.go.set()
    await until(lambda: issuer.keys.keys is not None)


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers by path."""

    def do_GET(self) -> None:
        status = {"/moved": 302, "/missing": 404}.get(self.path, 200)
        body = {"/large": b"x" * (MOST_BYTES + 1), "/binary": b"\xff"}.get(self.path, b"keys")
        self.send_response(status)
        self.send_header("location", "/")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_keys_are_fetched(url: str) -> None:
    assert fetched(f"{url}/") == "keys"


@named_by(
    "path",
    ("path", "error", "said"),
    [
        ("/moved", Unreachable, "answered 302"),
        ("/missing", Unreachable, "answered 404"),
        ("/large", ConfigError, "expected a key set of fewer"),
        ("/binary", ConfigError, "no text"),
    ],
)
def test_an_answer_that_is_no_key_set_is_not_taken(
    url: str, path: str, error: type[ServingError], said: str
) -> None:
    with pytest.raises(error, match=said):
        fetched(url + path)


def test_an_issuer_that_does_not_answer_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unreachable, match="refused"):
        fetched("http://127.0.0.1:1/")
    monkeypatch.setattr(token_keys, "WAIT_S", 0.05)
    with silent() as port, pytest.raises(Unreachable, match="timed out"):
        fetched(f"http://127.0.0.1:{port}/")


def test_an_issuer_that_answers_slowly_is_unreachable(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_keys, "WHOLE_S", -1.0)
    with pytest.raises(Unreachable, match="expected the whole key set within"):
        fetched(f"{url}/")


@contextmanager
def silent() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]
