"""Every trouble of a store has its own words, kind and advice; what passes is tried again."""

import socket
import ssl
import threading
import urllib.request
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
import requests
import trustme
import urllib3
from google.cloud import storage
from google.resumable_media import DataCorruption

from ie_serving.core.values.errors import (
    Corrupted,
    StorageError,
    Throttled,
    Unauthorized,
    Unreachable,
)
from ie_serving.storage.backends import gcs, minio, s3
from ie_serving.storage.backends.gcs import GcsOptions
from ie_serving.storage.backends.s3 import S3Options
from ie_serving.storage.backends.s3_errors import trouble_of_code, with_status
from ie_serving.storage.base import Entry, Location
from ie_serving.storage.trouble import (
    MEANING,
    RetryLimits,
    RetryLoop,
    Trouble,
    http_trouble,
    network_trouble,
    translated,
)
from tests.tables import named_by

ADVICE = s3.advice("S3_ENDPOINT")


def test_no_two_troubles_read_the_same() -> None:
    assert set(MEANING) == set(Trouble)
    assert len({text for _, text in MEANING.values()}) == len(Trouble)


@pytest.mark.parametrize(
    ("advice", "never"),
    [
        # What arrives damaged is found by checksums of ours, but for Google's client.
        pytest.param(ADVICE, {Trouble.CHANGED, Trouble.DAMAGED}, id="s3"),
        pytest.param(
            minio.ADVICE, {Trouble.CHANGED, Trouble.DAMAGED, Trouble.NO_CREDENTIALS}, id="minio"
        ),
        pytest.param(gcs.ADVICE, {Trouble.CHANGED, Trouble.REGION, Trouble.CLOCK}, id="gcs"),
    ],
)
def test_each_backend_says_what_to_do(advice: dict[Trouble, str], never: set[Trouble]) -> None:
    assert set(Trouble) - set(advice) == never


def test_a_damaged_transfer_from_google_is_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: Any, **__: Any) -> None:
        raise DataCorruption(None, "Checksum mismatch")

    monkeypatch.setattr(storage.Blob, "download_to_file", damaged)
    remote = gcs.GcsRemote(Location("gs://b/m", "b", "m/"), GcsOptions(anonymous=True))
    with pytest.raises(Corrupted) as caught:
        remote.read(Entry("1/m.bin", 1, "1", 0.0), 0, 1, lambda data: None)
    assert "the bytes that arrived are not those that the store promises" in str(caught.value)
    assert "look for a faulty proxy, network or disk" in str(caught.value)


@named_by(
    "code status",
    ("code", "status", "trouble"),
    [
        ("NoSuchBucket", 404, Trouble.BUCKET),
        ("NoSuchKey", 404, Trouble.CHANGED),
        ("404", 404, Trouble.CHANGED),
        ("PreconditionFailed", 412, Trouble.CHANGED),
        ("InvalidRange", 416, Trouble.CHANGED),
        ("AccessDenied", 403, Trouble.DENIED),
        ("403", 403, Trouble.DENIED),
        ("InvalidAccessKeyId", 403, Trouble.CREDENTIALS),
        ("SignatureDoesNotMatch", 403, Trouble.CREDENTIALS),
        ("ExpiredToken", 400, Trouble.CREDENTIALS),
        ("RequestTimeTooSkewed", 403, Trouble.CLOCK),
        ("AuthorizationHeaderMalformed", 400, Trouble.REGION),
        ("PermanentRedirect", 301, Trouble.REGION),
        ("SlowDown", 503, Trouble.THROTTLED),
        ("ServiceUnavailable", 503, Trouble.THROTTLED),
        ("TooManyRequests", 429, Trouble.THROTTLED),
        ("RequestTimeout", 400, Trouble.TIMEOUT),
        ("InternalError", 500, Trouble.SERVER),
        ("502", 502, Trouble.SERVER),
        ("SomethingNew", 400, Trouble.OTHER),
        ("SomethingNew", 418, Trouble.OTHER),
    ],
)
def test_each_code_of_the_s3_protocol_is_a_trouble(
    code: str, status: int, trouble: Trouble
) -> None:
    assert trouble_of_code(code, status) is trouble


@named_by(
    "status",
    ("status", "trouble"),
    [
        (401, Trouble.CREDENTIALS),
        (403, Trouble.DENIED),
        (408, Trouble.SERVER),
        (412, Trouble.CHANGED),
        (429, Trouble.THROTTLED),
        (500, Trouble.SERVER),
        (503, Trouble.THROTTLED),
        (400, Trouble.OTHER),
    ],
)
def test_each_http_status_is_a_trouble(status: int, trouble: Trouble) -> None:
    assert http_trouble(status) is trouble


def raised_by(action: Callable[[], object]) -> BaseException:
    with pytest.raises(Exception) as raised:
        action()
    return raised.value


def serve_once(answer: Callable[[socket.socket], None]) -> int:
    """Answer one connection on a new port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with listener:
            connection, _ = listener.accept()
            with connection:
                answer(connection)

    threading.Thread(target=run, daemon=True).start()
    return int(listener.getsockname()[1])


def get(url: str, **options: object) -> None:
    with urllib3.PoolManager(retries=False, **options) as pool:
        pool.request("GET", url, timeout=0.5)


class TestNetwork:
    """Real faults, through the HTTP library below all three clients."""

    def test_a_refused_connection(self) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as listener:
            port = listener.getsockname()[1]
        error = raised_by(lambda: get(f"http://127.0.0.1:{port}"))
        assert network_trouble(error) is Trouble.REFUSED

    def test_a_name_that_does_not_resolve_is_a_trouble_of_dns(self) -> None:
        error = raised_by(lambda: get("http://no-such-host.invalid"))
        assert network_trouble(error) is Trouble.DNS

    def test_silence_is_a_timeout(self) -> None:
        released = threading.Event()
        port = serve_once(lambda connection: (released.wait(10), None)[1])
        error = raised_by(lambda: get(f"http://127.0.0.1:{port}"))
        released.set()
        assert network_trouble(error) is Trouble.TIMEOUT

    def test_a_connection_that_breaks_is_a_broken_one(self) -> None:
        port = serve_once(lambda connection: (connection.recv(100), None)[1])
        error = raised_by(lambda: get(f"http://127.0.0.1:{port}"))
        assert network_trouble(error) is Trouble.BROKEN

    @pytest.mark.parametrize(
        ("scheme", "reply", "trouble"),
        [
            ("http", b"200 OK\r\nContent-Length: 10\r\n\r\n12345", Trouble.BROKEN),
            ("https", b"400 Bad Request\r\nContent-Length: 0\r\n\r\n", Trouble.NO_TLS),
        ],
        ids=["a body that ends early", "a server without TLS"],
    )
    def test_a_broken_reply_is_told_by_its_kind(
        self, scheme: str, reply: bytes, trouble: Trouble
    ) -> None:
        def answer(connection: socket.socket) -> None:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 " + reply)

        error = raised_by(lambda: get(f"{scheme}://127.0.0.1:{serve_once(answer)}"))
        assert network_trouble(error) is trouble

    def test_an_unknown_authority_is_a_trouble_of_the_certificate(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(context)

        def handshake(connection: socket.socket) -> None:
            with pytest.raises(OSError, match="alert"):
                context.wrap_socket(connection, server_side=True)

        port = serve_once(handshake)
        error = raised_by(lambda: get(f"https://127.0.0.1:{port}"))
        assert network_trouble(error) is Trouble.CERTIFICATE

    def test_a_refused_connection_is_told_through_the_standard_library_too(self) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as listener:
            port = listener.getsockname()[1]
        error = raised_by(lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}"))
        assert network_trouble(error) is Trouble.REFUSED

    def test_anything_else_is_not_the_network(self) -> None:
        assert network_trouble(ValueError("x")) is None


@pytest.mark.parametrize("trouble", Trouble)
def test_texts_hold_our_words_and_the_code_never_the_clients_text(trouble: Trouble) -> None:
    client_error = RuntimeError("Authorization: s3cr3t")
    kind, meaning = MEANING[trouble]
    with (
        pytest.raises(kind) as raised,
        translated("s3://b/m", "list", lambda error: (trouble, "Code"), ADVICE),
    ):
        raise client_error
    text = str(raised.value)
    assert text.startswith(f"s3://b/m: cannot list: {meaning}")
    assert "(Code)" in text
    assert str(ADVICE.get(trouble, "")) in text
    assert "s3cr3t" not in text
    assert raised.value.__cause__ is client_error


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda port: get(f"http://127.0.0.1:{port}"), id="urllib3"),
        pytest.param(lambda port: requests.get(f"http://127.0.0.1:{port}"), id="requests"),
        pytest.param(
            lambda port: s3.make_client(
                S3Options(endpoint=f"http://127.0.0.1:{port}", access_key="k", secret_key="s"), "b"
            ).list_objects_v2(Bucket="b"),
            id="boto3",
        ),
    ],
)
def test_a_refused_connection_names_host_and_port(ask: Callable[[int], object]) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unreachable) as raised, translated("s3://b", "list", lambda error: None, {}):
        ask(port)
    assert str(raised.value) == (
        f"s3://b: cannot list: the connection was refused (127.0.0.1:{port})"
    )


def test_a_store_that_fails_shows_its_status() -> None:
    assert with_status(Trouble.SERVER, "InternalError", 500) == "500 InternalError"
    assert with_status(Trouble.SERVER, "", 502) == "502"
    assert with_status(Trouble.SERVER, "503", 503) == "503"
    assert with_status(Trouble.DENIED, "AccessDenied", 403) == "AccessDenied"


def test_a_code_that_is_no_code_is_not_repeated() -> None:
    with (
        pytest.raises(StorageError) as raised,
        translated("s3://b", "list", lambda error: (Trouble.OTHER, "a text with s3cr3t"), {}),
    ):
        raise RuntimeError
    assert "s3cr3t" not in str(raised.value)


def test_permission_to_list_and_to_read_are_told_apart() -> None:
    texts = []
    for action in ("list", "read 1/model.xml"):
        with (
            pytest.raises(StorageError) as raised,
            translated("s3://b", action, lambda error: (Trouble.DENIED, ""), {}),
        ):
            raise RuntimeError
        texts.append(str(raised.value))
    assert "permission denied to list" in texts[0]
    assert "cannot read 1/model.xml: permission denied to read" in texts[1]


@pytest.mark.parametrize("passing", [Unreachable("down"), Throttled("slow down")])
def test_passing_trouble_is_tried_again(passing: StorageError) -> None:
    waits: list[float] = []
    outcomes = iter([passing, passing, "done"])
    assert (
        RetryLoop(RetryLimits(most=3), waits.append).run(lambda: raised(next(outcomes))) == "done"
    )
    assert len(waits) == 2
    assert waits[1] > waits[0] / 2


def test_the_last_failure_is_raised_when_the_tries_are_used_up() -> None:
    waits: list[float] = []
    outcomes = iter([Unreachable("1"), Unreachable("2")])
    with pytest.raises(Unreachable, match="2"):
        RetryLoop(RetryLimits(most=2), waits.append).run(lambda: raised(next(outcomes)))
    assert len(waits) == 1


@pytest.mark.parametrize("lasting", [Unauthorized("no"), Corrupted("bad"), StorageError("?")])
def test_lasting_trouble_is_raised_at_once(lasting: StorageError) -> None:
    waits: list[float] = []
    with pytest.raises(type(lasting)):
        RetryLoop(RetryLimits(most=4), waits.append).run(lambda: raised(lasting))
    assert waits == []


def test_progress_gives_all_tries_back() -> None:
    retrying = RetryLoop(RetryLimits(most=2), lambda seconds: None)
    count = 0

    def advance_and_break() -> int:
        nonlocal count
        count += 1
        if count < 10:
            retrying.progressed()
            raise Unreachable("broke")
        return count

    assert retrying.run(advance_and_break) == 10


def test_a_call_that_hangs_is_not_tried_again_and_again() -> None:
    """Tries of 6 s each: the third would begin 12 s after the first."""
    now = 0.0

    def hang() -> None:
        nonlocal now
        now += 6.0
        raise Unreachable("no answer in time")

    tries = RetryLimits(most=9, patience_s=10.0)
    with pytest.raises(Unreachable):
        RetryLoop(tries, lambda seconds: None, clock=lambda: now).run(hang)
    assert now == 12.0


def raised(outcome: StorageError | str) -> str:
    if isinstance(outcome, StorageError):
        raise outcome
    return outcome
