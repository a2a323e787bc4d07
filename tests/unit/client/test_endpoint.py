"""Settings of a client, and when it tries again."""

from typing import Any

import pytest

from ie_serving.client.failures import ClientError, Unavailable, of_connection, of_http
from ie_serving.client.transports import BACK_OFF, Attempts, Connection
from ie_serving.core.values.codes import Code

URL = "http://localhost:8000"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        pytest.param(
            {"url": "localhost:8000"},
            "expected one of http, https, grpc, grpcs",
            id="another scheme",
        ),
        pytest.param({"url": "grpc://"}, "://HOST:PORT", id="no host"),
        pytest.param(
            {"url": URL, "timeout_s": 0}, "timeout_s has to be above 0", id="a timeout of 0"
        ),
        pytest.param(
            {"url": URL, "retry_s": -1}, "retry_s 0 or more", id="a negative time to retry"
        ),
        pytest.param(
            {"url": URL, "certificate": "a"}, "give both", id="a certificate without its key"
        ),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ClientError, match=text) as caught:
        Connection(**settings)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_a_certificate_that_is_not_there_is_refused() -> None:
    connection = Connection(url="grpcs://h:1", ca="/none.pem")
    for read in (connection.tls, connection.pem):
        with pytest.raises(ClientError, match="certificates cannot be used"):
            read()


def test_the_key_is_sent_and_not_shown() -> None:
    connection = Connection(url=URL, key="SECRET")
    assert connection.headers() == {"authorization": "Bearer SECRET"}
    assert "SECRET" not in repr(connection)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def attempts(clock: Clock, share: float = 1.0, **settings: Any) -> Attempts:
    return Attempts(Connection(url=URL, **settings), clock, lambda: share)


def test_pauses_double_to_a_bound_and_are_spread() -> None:
    clock = Clock()
    late, soon = attempts(clock), attempts(clock, share=0.0)
    error = Unavailable("down")
    assert [late.pause(error) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.6, BACK_OFF.longest_s]
    assert soon.pause(error) == 0.05


def test_retry_after_is_honoured_as_long_as_there_is_time() -> None:
    clock = Clock()
    tried = attempts(clock, retry_s=5.0)
    assert tried.pause(of_http(503, "full", "3")) == 3.0
    assert tried.pause(of_http(503, "full", "soon")) == 0.2
    error = of_http(503, "full", "7")
    with pytest.raises(Unavailable) as caught:
        tried.pause(error)
    assert caught.value is error


@pytest.mark.parametrize("settings", [{"retry_s": 0.0}, {"timeout_s": 0.05}])
def test_no_attempt_begins_after_the_end(settings: dict[str, float]) -> None:
    with pytest.raises(Unavailable):
        attempts(Clock(), **settings).pause(Unavailable("down"))


def test_the_time_left_shrinks_and_stays_above_0() -> None:
    clock = Clock()
    tried = attempts(clock, timeout_s=2.0)
    clock.now += 1.5
    assert tried.left() == 0.5
    clock.now += 1.0
    assert 0 < tried.left() < 0.01


@pytest.mark.parametrize(
    "error", [of_http(404, "", ""), of_http(429, "", "1"), of_http(500, "", "")]
)
def test_other_errors_are_not_tried_again(error: ClientError) -> None:
    with pytest.raises(ClientError) as caught:
        attempts(Clock()).pause(error)
    assert caught.value is error


def test_a_wrong_certificate_is_not_tried_again() -> None:
    error = of_connection("[SSL: CERTIFICATE_VERIFY_FAILED] unable to get local issuer")
    assert error.code is Code.UNAVAILABLE
    with pytest.raises(ClientError):
        attempts(Clock()).pause(error)
