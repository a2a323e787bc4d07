"""What the stores of buckets share: the client, and whose trouble it was."""

from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

from ie_serving.core.values.errors import Corrupted, StorageError, Unauthorized, Unreachable
from ie_serving.storage.backends.bucket import REBUILT_AFTER_S, BucketRemote, SharedClient
from ie_serving.storage.base import Entry, Location
from ie_serving.storage.trouble import Trouble


class Client:
    """A client with keys, or without."""

    def __init__(self, keys: str = "") -> None:
        self.keys = keys


class Shop(BucketRemote[Client]):
    """A store whose client raises a Trouble as a KeyError."""

    advice: ClassVar = {Trouble.DENIED: "ask the shopkeeper"}

    def __init__(self, make: Callable[[], Client], endpoint: str = "http://me:pw@shop:1") -> None:
        self.now = 0.0
        kept = SharedClient(make, clock=lambda: self.now)
        super().__init__(Location.parse("shop://b/m", "b/m"), endpoint, kept)

    def ask(self, trouble: Trouble) -> Client:
        with self._client("list") as client:
            if trouble is not Trouble.OTHER:
                raise KeyError(trouble)
            return client

    def _objects(self, client: Client, prefix: str) -> Iterator[Entry]:
        raise NotImplementedError

    def _classify(self, error: Exception, action: str) -> tuple[Trouble, str] | None:
        return (error.args[0], action) if isinstance(error, KeyError) else None

    def _is_anonymous(self, client: Client) -> bool:
        return not client.keys


def test_a_forked_process_makes_a_client_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without closing the connections, which are the other process's."""
    closed: list[object] = []
    kept = SharedClient(object, closed.append)
    first = kept.get()
    assert kept.get() is first
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert kept.get() is not first
    assert closed == []


def test_a_client_is_replaced_and_closed_once_in_a_while_when_it_is_refused() -> None:
    now = [0.0]
    closed: list[object] = []
    kept = SharedClient(object, closed.append, lambda: now[0])
    first = kept.get()
    kept.drop(first)
    second = kept.get()
    assert second is not first
    now[0] = REBUILT_AFTER_S - 1
    kept.drop(second)
    assert kept.get() is second
    now[0] = REBUILT_AFTER_S
    kept.drop(first)  # a thread that was refused before the replacement
    assert kept.get() is second
    kept.drop(second)
    assert kept.get() is not second
    assert closed == [first, second]


def test_the_identity_tells_two_endpoints_apart_and_shows_no_password() -> None:
    shop, other = Shop(Client), Shop(Client, "http://other:1")
    assert shop.url == other.url == "shop://b/m"
    assert shop.identity == "http://***@shop:1 shop://b/m" != other.identity


@pytest.mark.parametrize(
    ("keys", "trouble", "kind", "text"),
    [
        pytest.param(
            "key",
            Trouble.DENIED,
            Unauthorized,
            "permission denied to list (list): ask the shop",
            id="denied with a key",
        ),
        pytest.param(
            "",
            Trouble.DENIED,
            Unauthorized,
            "the store refuses requests without credentials",
            id="denied without a key",
        ),
        pytest.param(
            "",
            Trouble.CREDENTIALS,
            Unauthorized,
            "the store refuses requests without credentials",
            id="no credentials",
        ),
        pytest.param("", Trouble.SERVER, Unreachable, "the store failed", id="a server that fails"),
    ],
)
def test_a_refusal_is_told_apart_by_whether_there_were_credentials(
    keys: str, trouble: Trouble, kind: type[StorageError], text: str
) -> None:
    with pytest.raises(kind) as raised:
        Shop(lambda: Client(keys)).ask(trouble)
    assert text in str(raised.value)


def test_a_refusal_makes_the_next_call_read_the_credentials_again() -> None:
    shop = Shop(lambda: Client("key"))
    first = shop.ask(Trouble.OTHER)
    for trouble in (Trouble.SERVER, Trouble.DENIED, Trouble.CLOCK):
        with pytest.raises(StorageError):
            shop.ask(trouble)
        assert shop.ask(Trouble.OTHER) is first
    with pytest.raises(Unauthorized):
        shop.ask(Trouble.CREDENTIALS)
    assert shop.ask(Trouble.OTHER) is not first


def test_a_client_that_cannot_be_made_is_trouble_of_the_store_too() -> None:
    def make() -> Client:
        raise KeyError(Trouble.NO_CREDENTIALS)

    with pytest.raises(Unauthorized, match="no usable credentials"):
        Shop(make).ask(Trouble.OTHER)


def test_our_own_errors_pass_unchanged() -> None:
    def make() -> Client:
        raise Corrupted("as it is")

    with pytest.raises(Corrupted, match=r"^as it is$"):
        Shop(make).ask(Trouble.OTHER)
