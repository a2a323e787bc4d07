"""`make zoo` fails for a model that is wrong, not for one whose runtime is not installed.

Its client on a plain socket keeps to HTTP/2's windows, and tells errors from replies.
"""

from contextlib import closing

import numpy as np
import pytest

from benchmarks.wire import tfs_request
from ie_serving.server.transport.http2.streams import CONNECTION_WINDOW
from tests.functional.servers import Server
from tests.process import PATIENCE_S
from tests.zoo import __main__ as zoo
from tests.zoo.wire import FailedCallError, WireClient


@pytest.mark.parametrize(
    ("verdict", "code"),
    [("yes", 0), ("no: output by 1 of 2", 1), ("not judged: the runtime refuses it", 1)],
)
def test_a_model_that_is_not_right_fails(
    verdict: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zoo, "_row", lambda *_: zoo.Row(verdict))
    assert zoo.main(["--only", "voice"]) == code


def test_a_model_whose_runtime_is_not_installed_does_not_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(zoo, "find_spec", lambda _: None)
    assert zoo.main(["--only", "voice_jit"]) == 0
    assert "not asked: make drivers installs torch" in capsys.readouterr().out


def predict(rows: int) -> bytes:
    return tfs_request("digits", {"image": np.zeros((rows, 64), np.float32)})


def test_its_client_gets_the_reply_to_each_of_more_requests_than_a_window_has_room_for(
    digits: Server,
) -> None:
    request = predict(8000)  # 2 MB
    stub = digits.channel.unary_unary(zoo.PREDICT)
    with closing(WireClient(digits.port, zoo.PREDICT, request)) as client:
        replies = [bytes(client.call()) for _ in range(2 * CONNECTION_WINDOW // len(request))]
    assert {*replies} == {stub(request, PATIENCE_S)}


@pytest.mark.parametrize(
    ("path", "status"), [(zoo.PREDICT, "'grpc-status': '5'"), ("/no/Method", "'grpc-status': '12'")]
)
def test_its_client_takes_no_error_for_a_reply(digits: Server, path: str, status: str) -> None:
    with closing(WireClient(digits.port, path, tfs_request("no_model", {}))) as client:
        for _ in range(2):
            with pytest.raises(FailedCallError, match=status):
                client.call()
